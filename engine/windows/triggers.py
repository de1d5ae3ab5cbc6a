"""When a window is worked out, and whether its contents are thrown away then (PyFlink: Trigger).

A trigger is a description, shared by all keys and windows: what it must remember of one of them it keeps in
``ctx.get_partitioned_state``, and what it waits for it registers as a timer. Both are that of the current
key and window. As in Flink, several triggers here take the word of the timer: it fires for whatever the
window holds then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

from onceproof.engine.durations import Duration, Time, milliseconds_of
from onceproof.engine.state.descriptors import ReducingStateDescriptor, StateDescriptor
from onceproof.engine.state.interfaces import ReducingState
from onceproof.engine.types import Types
from onceproof.engine.windows.windows import Window


class TriggerResult(Enum):
    """What is to happen to a window (PyFlink: TriggerResult)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window is to be worked out and given out."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether its contents are to be thrown away."""
        return self.value[1]


CONTINUE = TriggerResult.CONTINUE
FIRE = TriggerResult.FIRE
FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class TriggerScope(ABC):
    """What a trigger may ask and do, for the current key and window (PyFlink: Trigger.TriggerContext)."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Milliseconds since the epoch, as of the event in hand."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """The event time that was reached."""

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None:
        """Have ``on_processing_time`` called then."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Have ``on_event_time`` called then."""

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None:
        """Delete the timer; one that is not there is fine."""

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None:
        """Delete the timer; one that is not there is fine."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """State of the trigger, one for each key and window."""


class MergedScope(TriggerScope):
    """As TriggerScope, while windows become one (PyFlink: Trigger.OnMergeContext)."""

    @abstractmethod
    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the windows that are merged into that of the new one."""


class Trigger(ABC):
    """Says when a window is worked out (PyFlink: Trigger)."""

    TriggerContext: ClassVar = TriggerScope
    OnMergeContext: ClassVar = MergedScope

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerScope) -> TriggerResult:
        """A record was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: TriggerScope) -> TriggerResult:
        """A timer of processing time fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: TriggerScope) -> TriggerResult:
        """A timer of event time fires."""

    def can_merge(self) -> bool:
        """Whether ``on_merge`` is there, without which windows cannot be merged."""
        return False

    @abstractmethod
    def on_merge(self, window: Any, ctx: MergedScope) -> None:
        """Several windows have become ``window``; their timers are deleted afterwards by ``clear``."""

    @abstractmethod
    def clear(self, window: Any, ctx: TriggerScope) -> None:
        """The window is over: delete timers and state."""


class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window (PyFlink: EventTimeTrigger).

    A record that comes later, and is allowed to, fires it again at once.
    """

    @staticmethod
    def create() -> EventTimeTrigger:
        """A new one."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire at once where the end has passed, else wait for it."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Not registered by this one."""
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire at the end; the other timer there may be is that of the cleanup."""
        return FIRE if time == window.max_timestamp() else CONTINUE

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """Wait for the new end; where it has passed, the record that merged the windows fires."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Wait no longer."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger):
    """Fires when processing time passes the end of the window (PyFlink: ProcessingTimeTrigger)."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """A new one."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Wait for the end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """It has come."""
        return FIRE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Not registered by this one."""
        return CONTINUE

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """Wait for the new end."""
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Wait no longer."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class NeverTrigger(Trigger):
    """Never fires: the default of global windows (PyFlink: NeverTrigger)."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Go on."""
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Go on."""
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Go on."""
        return CONTINUE

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """There is nothing to merge."""

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """There is nothing to clear."""


class CountTrigger(Trigger):
    """Fires whenever so many records have been added since it fired last (PyFlink: CountTrigger)."""

    def __init__(self, window_size: int) -> None:
        if type(window_size) is not int or window_size < 1:
            raise ValueError(f"a count trigger needs a whole number of at least 1, not {window_size!r}")
        self._window_size = window_size
        self._count = ReducingStateDescriptor("count", _sum, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """After so many records."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Count."""
        count: ReducingState = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() >= self._window_size:
            count.clear()
            return FIRE
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Not registered by this one."""
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Not registered by this one: a remainder is dropped at the end of a window."""
        return CONTINUE

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """Add the counts up."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Forget the count."""
        ctx.get_partitioned_state(self._count).clear()


class _Continuous(Trigger):
    """Fires at multiples of an interval, and remembers the next one of them for each window."""

    def __init__(self, interval: int) -> None:
        if type(interval) is not int or interval < 1:
            raise ValueError(
                f"a continuous trigger needs an interval of at least 1 millisecond, not {interval!r}"
            )
        self._interval = interval
        self._next_fire = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def _begin(self, time: int, window: Window, ctx: TriggerScope, register: Callable[[int], None]) -> None:
        """With a window's first record: fire at the first multiple of the interval after ``time``."""
        next_fire: ReducingState = ctx.get_partitioned_state(self._next_fire)
        if next_fire.get() is None:
            # As Flink's remainder, which has the sign of the time.
            passed = time % self._interval if time >= 0 else -(-time % self._interval)
            self._register_next(time - passed, window, next_fire, register)

    def _go_on(self, time: int, window: Window, ctx: TriggerScope, register: Callable[[int], None]) -> bool:
        """A timer fires: whether it is the one that was waited for; then the next one is."""
        next_fire: ReducingState = ctx.get_partitioned_state(self._next_fire)
        if next_fire.get() != time:
            return False
        next_fire.clear()
        self._register_next(time, window, next_fire, register)
        return True

    def _register_next(
        self, time: int, window: Window, next_fire: ReducingState, register: Callable[[int], None]
    ) -> None:
        due = min(time + self._interval, window.max_timestamp())
        next_fire.add(due)
        register(due)

    def can_merge(self) -> bool:
        """Yes."""
        return True

    def _merge(self, ctx: MergedScope, register: Callable[[int], None]) -> None:
        """Go on with the earliest of the merged."""
        ctx.merge_partitioned_state(self._next_fire)
        due = ctx.get_partitioned_state(self._next_fire).get()
        if due is not None:
            register(due)

    def _clear(self, ctx: TriggerScope, delete: Callable[[int], None]) -> None:
        next_fire: ReducingState = ctx.get_partitioned_state(self._next_fire)
        due = next_fire.get()
        if due is not None:
            delete(due)
            next_fire.clear()


class ContinuousEventTimeTrigger(_Continuous):
    """Fires at multiples of an interval in event time, and at the end (PyFlink: the same)."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger:
        """At so long intervals."""
        return ContinuousEventTimeTrigger(milliseconds_of(interval, "interval"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire at once where the end has passed, else wait for it and for the next interval."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(end)
        self._begin(timestamp, window, ctx, ctx.register_event_time_timer)
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Not registered by this one."""
        return CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire at the end, or where the interval is over."""
        if time == window.max_timestamp():
            return FIRE
        return FIRE if self._go_on(time, window, ctx, ctx.register_event_time_timer) else CONTINUE

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """Go on with the earliest."""
        self._merge(ctx, ctx.register_event_time_timer)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Wait no longer."""
        self._clear(ctx, ctx.delete_event_time_timer)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires at multiples of an interval in processing time (PyFlink: the same)."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousProcessingTimeTrigger:
        """At so long intervals."""
        return ContinuousProcessingTimeTrigger(milliseconds_of(interval, "interval"))

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Wait for the next interval."""
        now = ctx.get_current_processing_time()
        self._begin(now, window, ctx, ctx.register_processing_time_timer)
        return CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Fire where the interval is over."""
        return FIRE if self._go_on(time, window, ctx, ctx.register_processing_time_timer) else CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """Not registered by this one."""
        return CONTINUE

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """Go on with the earliest."""
        self._merge(ctx, ctx.register_processing_time_timer)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """Wait no longer."""
        self._clear(ctx, ctx.delete_processing_time_timer)


class PurgingTrigger(Trigger):
    """Fires when another trigger does, and throws the contents away (PyFlink: PurgingTrigger)."""

    def __init__(self, nested_trigger: Trigger) -> None:
        self._nested = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Over another trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """As the nested one."""
        return _purging(self._nested.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """As the nested one."""
        return _purging(self._nested.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: TriggerScope) -> TriggerResult:
        """As the nested one."""
        return _purging(self._nested.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """As the nested one."""
        return self._nested.can_merge()

    def on_merge(self, window: Window, ctx: MergedScope) -> None:
        """As the nested one."""
        self._nested.on_merge(window, ctx)

    def clear(self, window: Window, ctx: TriggerScope) -> None:
        """As the nested one."""
        self._nested.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return FIRE_AND_PURGE if result.is_fire() else result


def _sum(left: int, right: int) -> int:
    return left + right
