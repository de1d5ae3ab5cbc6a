"""Windows of a number of records of a key, tumbling and sliding.

The windows of a key are numbered from 0; window i begins with record ``i * slide``. How many records
a key has had is state of the key and stays, as in PyFlink. A window is evaluated when it is full, and leaves
nothing behind (PyFlink keeps its records). What is in windows that are never full is not evaluated.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import AssignerContext, WindowAssigner
from onceproof.engine.windows.triggers import CountTrigger, PurgingTrigger, Trigger
from onceproof.engine.windows.windows import CountWindow, CountWindowSerializer, WindowSerializer


class _CountWindows(WindowAssigner):
    """Base of both assigners."""

    def __init__(self, window_size: int, window_slide: int, state_name: str) -> None:
        for what, number in (("size", window_size), ("slide", window_slide)):
            if type(number) is not int or number < 1:
                raise ValueError(f"a count window needs a {what} of at least 1 record, not {number!r}")
        self.window_size = window_size
        self.window_slide = window_slide
        self._count = ValueStateDescriptor(state_name, Types.LONG())

    def assign_windows(
        self, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[CountWindow]:
        """Return the windows that the record is in, the latest first, and count it."""
        count = context.get_runtime_context().get_state(self._count)
        number = count.value() or 0
        count.update(number + 1)
        latest = number // self.window_slide
        earliest = max(0, -((self.window_size - 1 - number) // self.window_slide))
        return [CountWindow(each) for each in range(latest, earliest - 1, -1)]

    def get_default_trigger(self, env: Any) -> Trigger:
        """Return the trigger that evaluates a full window."""
        return PurgingTrigger.of(CountTrigger.of(self.window_size))

    def get_window_serializer(self) -> WindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows):
    """Assigns each record to one window of ``window_size`` records (PyFlink: CountTumblingWindowAssigner)."""

    def __init__(self, window_size: int) -> None:
        """Raise ValueError if the size is not a positive whole number."""
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Return the assigner; raises ValueError."""
        return CountTumblingWindowAssigner(window_size)


class CountSlidingWindowAssigner(_CountWindows):
    """Begins a window of ``window_size`` records with every ``window_slide``-th record.

    PyFlink: CountSlidingWindowAssigner.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        """Raise ValueError if size or slide is not a positive whole number."""
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Return the assigner; raises ValueError."""
        return CountSlidingWindowAssigner(window_size, window_slide)
