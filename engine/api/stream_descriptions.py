"""What a job says of the windows, bundles and interval joins of its streams.

`WindowedStream` and `AllWindowedStream` inherit the settings of windows. Nothing here adds a node; the method
that evaluates the windows does, with the settings made here. The evictor is Flink's Java API's, PyFlink lacks
it.

Flink has bundles for tables (``table.exec.mini-batch.enabled``, ``.size`` and ``.allow-latency``, two-phase
aggregation) and not for streams, so their names are ours. A fold takes two operators. The local one folds
where the records come from, chained to the operator before it where that has as many subtasks. The bundled
one, behind the exchange by key, holds the state and emits the results. A record waits in each of the two for
at most half of the latency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from onceproof.engine.api.adapters import OperatorFactory
from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.durations import milliseconds_of
from onceproof.engine.functions import AggregateFunction, Function
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.bundle import AggregatingOperator, BundleOperator, Fold, ReducingOperator
from onceproof.engine.operators.co_process import InputKeys
from onceproof.engine.operators.interval_join import IntervalJoinOperator, IntervalJoinSettings
from onceproof.engine.operators.window_parts import WindowSettings
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.windows.assigners import MergingWindowAssigner, WindowAssigner
from onceproof.engine.windows.evictors import Evictor
from onceproof.engine.windows.triggers import Trigger

if TYPE_CHECKING:
    from onceproof.engine.durations import Duration, Time
    from onceproof.engine.types import TypeInformation


_LEFT, _RIGHT = 0, 1


class IntervalDescription:
    """The settings of an interval join, in milliseconds of event time."""

    def __init__(self, lower_ms: int, upper_ms: int) -> None:
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._late_tags: list[OutputTag | None] = [None, None]

    def lower_bound_exclusive(self) -> Self:
        """Leave the lower bound itself out of the interval."""
        self._lower_ms += 1
        return self

    def upper_bound_exclusive(self) -> Self:
        """Leave the upper bound itself out of the interval."""
        self._upper_ms -= 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Emit left values that come behind the watermark to a side output instead of dropping them."""
        return self._with_late_tag(_LEFT, output_tag)

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Emit right values that come behind the watermark to a side output instead of dropping them."""
        return self._with_late_tag(_RIGHT, output_tag)

    def _with_late_tag(self, side: int, output_tag: OutputTag) -> Self:
        if not isinstance(output_tag, OutputTag):
            raise InvalidJob(f"the late values of an interval join go to an OutputTag, not {output_tag!r}")
        self._late_tags[side] = output_tag
        return self

    def _check(self, function: object) -> None:
        if not isinstance(function, ProcessJoinFunction):
            raise InvalidJob(f"process of an interval join takes a ProcessJoinFunction, not {function!r}")
        if self._lower_ms > self._upper_ms:
            raise InvalidJob(
                f"an interval join from {self._lower_ms} ms to {self._upper_ms} ms pairs nothing:"
                " the lower bound must not be above the upper one"
            )

    def _operator(
        self,
        function: ProcessJoinFunction,
        keys: InputKeys | None,
        types: tuple[TypeInformation | None, TypeInformation | None],
    ) -> OperatorFactory:
        settings = IntervalJoinSettings(
            lower_ms=self._lower_ms,
            upper_ms=self._upper_ms,
            types=types,
            late_tags=(self._late_tags[_LEFT], self._late_tags[_RIGHT]),
        )
        return OperatorFactory(IntervalJoinOperator, function, keys, settings)


_SHORTEST_MS: Final = 2
"""So that each half is at least a millisecond."""


class BundleDescription:
    """The settings of bundles over the records of each key."""

    def __init__(
        self,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
        size: int,
        latency: Duration | Time | None,
    ) -> None:
        if type(size) is not int or size < 1:
            raise InvalidJob(f"bundle of {size!r} records: give a whole number of at least 1")
        latency_ms = 0 if latency is None else milliseconds_of(latency, "the latency of a bundle")
        if latency is not None and latency_ms < _SHORTEST_MS:
            raise InvalidJob(f"latency of a bundle of {latency_ms} ms: give at least {_SHORTEST_MS}, or none")
        self._key_selector = key_selector
        self._key_type = key_type
        self._size = size
        self._latency_ms = latency_ms

    def _local_operator(self, fold: Fold) -> OperatorFactory:
        aggregates = isinstance(fold, AggregateFunction)
        operator: Callable[..., Any] = AggregatingOperator if aggregates else ReducingOperator
        latency_ms = self._latency_ms // 2
        return OperatorFactory(operator, fold, self._size, self._key_selector, latency_ms, self._key_type)

    def _bundled_operator(self, fold: Fold, folded_type: TypeInformation | None) -> OperatorFactory:
        left_ms = self._latency_ms - self._latency_ms // 2
        return OperatorFactory(BundleOperator, fold, self._size, self._key_type, folded_type, left_ms)


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
