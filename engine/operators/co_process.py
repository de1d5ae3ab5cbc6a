"""Functions over two inputs: co-map, co-flat-map and co-process, on plain and on keyed streams.

The rules this module lives by:

- The input a record came by decides which method of the function takes it, and by which selector its key is
  found. Both inputs are keyed by one type, so that equal keys fall into one key group and share their state.
- One function, one state backend and one set of timers serve both inputs. Event time is that of the input
  that is behind, which the task sees to.
- As for one input: one context object serves every record, results take the timestamp of their input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from onceproof.engine.connected_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from onceproof.engine.elements import Record
from onceproof.engine.functions import Function
from onceproof.engine.operators.base import Emit, FunctionOperator, OperatorContext
from onceproof.engine.operators.firing import TimedOperator
from onceproof.engine.operators.side_outputs import sort_out
from onceproof.engine.operators.time_services import NO_ON_TIMER, NOT_KEYED, NoTimers
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.tables import NO_KEY
from onceproof.engine.timer_service import TimerService
from onceproof.engine.types import TypeInformation

KeySelector: TypeAlias = Callable[[Any], Any]


class InputKeys(Struct, frozen=True):
    """How the records of the two inputs are keyed; no selector means an input whose records have no key."""

    selectors: tuple[KeySelector, KeySelector | None]
    key_type: TypeInformation | None


class TwoInputOperator(FunctionOperator):
    """An operator around a function over two inputs; without keys there is no keyed state."""

    def __init__(self, function: Function, keys: InputKeys | None = None) -> None:
        super().__init__(function)
        self._keys = keys

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend | None:
        """State is that of this subtask's key groups."""
        return None if self._keys is None else context.keyed_backend(self._keys.key_type)

    def under_keys(self, records: list[Record], input_index: int) -> Iterable[Record]:
        """The records one after another, each with its key set for as long as it is in hand."""
        if self._keys is None:
            return records
        assert self._backend is not None
        if self._backend.cleanups:
            self._backend.sweep(len(records))
        select_key = self._keys.selectors[input_index]
        if select_key is not None:
            return _each_under_its_key(records, select_key, self._backend)
        self._backend.current_key = NO_KEY
        return records


def _each_under_its_key(
    records: list[Record], select_key: KeySelector, backend: KeyedStateBackend
) -> Iterator[Record]:
    for record in records:
        backend.current_key = select_key(record[0])
        yield record


class CoMapOperator(TwoInputOperator):
    """Applies a CoMapFunction; a result of None is none, as in PyFlink (Flink: CoStreamMap)."""

    function: CoMapFunction

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the methods by input."""
        super().open(context)
        self._methods = (self.function.map1, self.function.map2)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """One record at the most for each."""
        apply = self._methods[input_index]
        results: list[Record] = []
        for value, timestamp in self.under_keys(records, input_index):
            result = apply(value)
            if result is not None:
                results.append((result, timestamp))
        return results


class CoFlatMapOperator(TwoInputOperator):
    """Applies a CoFlatMapFunction (Flink: CoStreamFlatMap)."""

    function: CoFlatMapFunction

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the methods by input."""
        super().open(context)
        self._methods = (self.function.flat_map1, self.function.flat_map2)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Any number of records for each."""
        apply = self._methods[input_index]
        return [
            (result, timestamp)
            for value, timestamp in self.under_keys(records, input_index)
            for result in (apply(value) or ())
        ]


class ContextualOperator(TwoInputOperator):
    """An operator around a function whose methods take a context with each record; without timers.

    As it opens it sets ``_sides``, by input the method and its context, and ``_side_outputs``.
    """

    _sides: Sequence[tuple[Callable[[Any, Any], Iterable[Any] | None], Any]]
    _side_outputs: Mapping[str, Sequence[Emit]]

    def create_service(self, context: OperatorContext) -> TimerService:
        """What the function's contexts tell time by."""
        self._service = NoTimers(context.clock, NOT_KEYED if self._keys is None else NO_ON_TIMER)
        return self._service

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Results take the timestamp of their input."""
        process, context = self._sides[input_index]
        results: list[Record] = []
        for value, timestamp in self.under_keys(records, input_index):
            context._timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    results.append((result, timestamp))
        return sort_out(results, self._side_outputs) if OutputTag.exist else results

    def process_watermark(self, timestamp: int) -> list[Record]:
        """The function may ask for it."""
        self._service.watermark = timestamp
        return []


class CoProcessOperator(ContextualOperator):
    """Applies a function of co-processing that has no timers.

    Flink: CoProcessOperator, KeyedCoProcessOperator.
    """

    function: CoProcessFunction | KeyedCoProcessFunction

    def open(self, context: OperatorContext) -> None:
        """As every function operator, the methods by input, and the record's context."""
        super().open(context)
        service = self.create_service(context)
        self._context: Any = (
            CoProcessFunction.Context(service)
            if self._backend is None
            else KeyedCoProcessFunction.Context(service, self._backend)
        )
        self._sides = (
            (self.function.process_element1, self._context),
            (self.function.process_element2, self._context),
        )
        self._side_outputs = context.side_outputs


class TimedCoProcessOperator(TimedOperator, CoProcessOperator):
    """Applies a KeyedCoProcessFunction with ``on_timer`` (Flink: KeyedCoProcessOperator)."""

    def timer_context(self) -> KeyedCoProcessFunction.OnTimerContext:
        """As that of records, with the kind of time."""
        assert self._backend is not None
        return KeyedCoProcessFunction.OnTimerContext(self._context._service, self._backend)
