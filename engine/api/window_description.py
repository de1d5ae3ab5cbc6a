"""What a job says of the windows over a stream: assigner, trigger, evictor, lateness.

`WindowedStream` and `AllWindowedStream` inherit these settings. Nothing here adds a node; the method that
evaluates the windows does, with the settings made here. The evictor is Flink's Java API's, PyFlink lacks it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from onceproof.engine.functions import Function
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.window_parts import WindowSettings
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.windows.assigners import MergingWindowAssigner, WindowAssigner
from onceproof.engine.windows.evictors import Evictor
from onceproof.engine.windows.triggers import Trigger

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation


class WindowDescription:
    """The settings of windows over keyed records."""

    _apply_function: type[Function]
    """What `apply` takes."""
    _process_function: type[Function]
    """What `process` takes."""

    def __init__(self, window_assigner: WindowAssigner) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise InvalidJob(
                f"window takes a WindowAssigner, not {window_assigner!r}: such as"
                " TumblingEventTimeWindows.of(Time.seconds(5))"
            )
        self._assigner = window_assigner
        self._trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def trigger(self, trigger: Trigger) -> Self:
        """Let a trigger decide when a window is evaluated, in place of the assigner's default trigger."""
        if not isinstance(trigger, Trigger):
            raise InvalidJob(f"trigger takes a Trigger, not {trigger!r}")
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Let an evictor remove records from a window before or after its evaluation (Flink: evictor).

        The window then keeps all of its records in state, also for `reduce` and `aggregate`.
        """
        if not isinstance(evictor, Evictor):
            raise InvalidJob(f"evictor takes an Evictor, not {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep a window for ``time_ms`` milliseconds of event time after its end, for late records."""
        if type(time_ms) is not int or time_ms < 0:
            raise InvalidJob(f"allowed lateness is {time_ms!r}: give milliseconds from 0 on")
        if time_ms and not self._assigner.is_event_time():
            name = type(self._assigner).__name__
            raise InvalidJob(f"allowed lateness {time_ms} ms: nothing is late for {name}, so leave it out")
        self._lateness_ms = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Emit records that come after the allowed lateness to a side output instead of dropping them."""
        if not isinstance(output_tag, OutputTag):
            raise InvalidJob(f"side_output_late_data takes an OutputTag, not {output_tag!r}")
        self._late_tag = output_tag
        return self

    def _check(self, method: str, function: object, expected: type) -> None:
        if not isinstance(function, expected):
            raise InvalidJob(
                f"{method} of {type(self).__name__} takes a {expected.__name__}, not {function!r}"
            )

    def _check_window_function(self, method: str, function: object) -> None:
        if function is not None and not isinstance(function, self._apply_function | self._process_function):
            allowed = f"{self._apply_function.__name__} or {self._process_function.__name__}"
            raise InvalidJob(f"the window function of {method} must be a {allowed}, not {function!r}")

    def _settings(
        self,
        environment: Any,
        key_selector: Callable[[Any], Any],
        types: tuple[TypeInformation | None, TypeInformation | None, TypeInformation | None],
    ) -> WindowSettings:
        """Return the settings of the window operator; ``types`` are those of key, value and accumulator.

        ``environment`` goes to the assigner's `get_default_trigger`, as in PyFlink.
        """
        assigner = self._assigner
        trigger = self._trigger
        if trigger is None:
            trigger = assigner.get_default_trigger(environment)
        if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidJob(
                f"{type(assigner).__name__} merges windows, which {type(trigger).__name__} cannot:"
                " give it on_merge, and can_merge that says so"
            )
        key_type, value_type, accumulator_type = types
        return WindowSettings(
            assigner=assigner,
            trigger=trigger,
            key_selector=key_selector,
            key_type=key_type,
            value_type=value_type,
            accumulator_type=accumulator_type,
            evictor=self._evictor,
            allowed_lateness_ms=self._lateness_ms,
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
        )
