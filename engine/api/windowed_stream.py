"""Streams cut into windows (PyFlink: WindowedStream, AllWindowedStream).

A windowed stream collects what is said about the windows; a method that works them out (``reduce``,
``aggregate``, ``apply``, ``process``) adds the operator. Names and parameter order are PyFlink's; the
evictor is Flink's Java API's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from onceproof.engine.api.adapters import OperatorFactory, aggregate_function_of, reduce_function_of
from onceproof.engine.functions import AggregateFunction, Function, ReduceFunction
from onceproof.engine.graph import InvalidJob
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions, WindowSettings
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import MergingWindowAssigner, WindowAssigner
from onceproof.engine.windows.evictors import Evictor
from onceproof.engine.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from onceproof.engine.windows.triggers import Trigger

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, KeyedStream
    from onceproof.engine.api.environment import StreamExecutionEnvironment
    from onceproof.engine.types import TypeInformation

THE_ONLY_KEY = 0


class _Windowed:
    """What windows over a key and windows over everything have in common."""

    _apply_function: type[Function]
    _process_function: type[Function]

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise InvalidJob(
                f"window takes a WindowAssigner, not {window_assigner!r}: such as"
                " TumblingEventTimeWindows.of(Time.seconds(5))"
            )
        self._stream = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment this stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation | None:
        """The declared type of the records, or None."""
        return self._stream.get_type()

    # ---- what is said about the windows

    def trigger(self, trigger: Trigger) -> Self:
        """Work windows out when this says so, instead of the assigner's own trigger."""
        if not isinstance(trigger, Trigger):
            raise InvalidJob(f"trigger takes a Trigger, not {trigger!r}")
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Leave some of the records out. All records are kept then, also where they are only reduced."""
        if not isinstance(evictor, Evictor):
            raise InvalidJob(f"evictor takes an Evictor, not {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep windows so many milliseconds longer, for records that come late."""
        if type(time_ms) is not int or time_ms < 0:
            raise InvalidJob(f"allowed lateness is {time_ms!r}: give milliseconds from 0 on")
        if time_ms and not self._assigner.is_event_time():
            name = type(self._assigner).__name__
            raise InvalidJob(f"allowed lateness {time_ms} ms: nothing is late for {name}, so leave it out")
        self._lateness_ms = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Give records that are too late to a side output instead of dropping them."""
        if not isinstance(output_tag, OutputTag):
            raise InvalidJob(f"side_output_late_data takes an OutputTag, not {output_tag!r}")
        self._late_tag = output_tag
        return self

    # ---- how they are worked out

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: Function | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Reduce the records as they come; a window function is given the one that is left."""
        fold = reduce_function_of(reduce_function)
        if window_function is None and output_type is None:
            output_type = self._stream.get_type()
        return self._worked_out("Reduce", fold, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Function | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Aggregate the records as they come; a window function is given the one result."""
        fold = aggregate_function_of(aggregate_function)
        return self._worked_out("Aggregate", fold, window_function, output_type, accumulator_type)

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Work windows out from all their records."""
        self._check("apply", window_function, self._apply_function)
        return self._worked_out("Apply", None, window_function, output_type)

    def process(self, process_window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Work windows out from all their records, with state."""
        self._check("process", process_window_function, self._process_function)
        return self._worked_out("Process", None, process_window_function, output_type)

    def _check(self, method: str, function: object, expected: type) -> None:
        if not isinstance(function, expected):
            raise InvalidJob(
                f"{method} of {type(self).__name__} takes a {expected.__name__}, not {function!r}"
            )

    def _worked_out(
        self,
        verb: str,
        fold: ReduceFunction | AggregateFunction | None,
        function: Function | None,
        output_type: TypeInformation | None,
        accumulator_type: TypeInformation | None = None,
    ) -> DataStream:
        if function is not None and not isinstance(function, self._apply_function | self._process_function):
            allowed = f"{self._apply_function.__name__} or {self._process_function.__name__}"
            raise InvalidJob(f"the window function of {verb.lower()} must be a {allowed}, not {function!r}")
        assigner = self._assigner
        trigger = self._trigger
        if trigger is None:
            trigger = assigner.get_default_trigger(self._stream.get_execution_environment())
        if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidJob(
                f"{type(assigner).__name__} merges windows, which {type(trigger).__name__} cannot:"
                " give it on_merge, and can_merge that says so"
            )
        settings = WindowSettings(
            assigner=assigner,
            trigger=trigger,
            key_selector=self._stream._key_selector,
            key_type=self._stream._key_type,
            value_type=self._stream.get_type(),
            accumulator_type=accumulator_type,
            evictor=self._evictor,
            allowed_lateness_ms=self._lateness_ms,
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
        )
        factory = OperatorFactory(WindowOperator, WindowFunctions(fold, function), settings)
        return self._stream._transform(type(assigner).__name__, factory, output_type)


class WindowedStream(_Windowed):
    """Windows over the records of each key (PyFlink: WindowedStream)."""

    _apply_function = WindowFunction
    _process_function = ProcessWindowFunction


class AllWindowedStream(_Windowed):
    """Windows over all records, worked out in one subtask (PyFlink: AllWindowedStream)."""

    _apply_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner) -> None:
        super().__init__(data_stream.key_by(_the_only_key, Types.BYTE()), window_assigner)

    def _worked_out(self, *arguments: Any) -> DataStream:
        return super()._worked_out(*arguments).force_non_parallel()


def _the_only_key(value: Any) -> int:
    return THE_ONLY_KEY
