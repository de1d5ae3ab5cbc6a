"""The operators of functions with two inputs: co-map, co-flat-map and co-process.

The rules this module lives by:

- The input of a record decides which method of the function is called, and which selector extracts the key.
  Both inputs have one key type, so that equal keys are in one key group and share their state.
- One function, one state backend and one set of timers serve both inputs. The task combines the watermarks of
  both inputs before it calls the operator.
- One context object serves every record. Results take the timestamp of their input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from onceproof.engine.connected_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from onceproof.engine.elements import Record
from onceproof.engine.functions import Function
from onceproof.engine.operators.base import (
    Emit,
    FunctionOperator,
    InputOrder,
    KeySelector,
    OperatorContext,
)
from onceproof.engine.operators.firing import TimedOperator
from onceproof.engine.operators.side_outputs import emit_side_outputs
from onceproof.engine.operators.time_services import NoTimers, UnheardTimers
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import HASHED, PLAIN
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.tables import NO_KEY
from onceproof.engine.timer_service import TimerService
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.row import ROW_HASHED


class InputKeys(Struct, frozen=True):
    """The key selectors of the two inputs and their key type; no selector: the input is not keyed."""

    selectors: tuple[KeySelector, KeySelector | None]
    key_type: TypeInformation | None


class TwoInputOperator(FunctionOperator):
    """Base of operators around a function with two inputs; without ``keys`` there is no keyed state."""

    def __init__(self, function: Function, keys: InputKeys | None = None) -> None:
        super().__init__(function)
        self._keys = keys

    def input_order(self) -> InputOrder | None:
        return None if self._keys is None else InputOrder(self._keys.selectors, self._keys.key_type)

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend | None:
        return None if self._keys is None else context.keyed_backend(self._keys.key_type)

    def with_current_key(self, records: list[Record], input_index: int) -> Iterable[Record]:
        """Iterate over the records, setting the backend's current key before each."""
        if self._keys is None:
            return records
        assert self._backend is not None
        if self._backend.cleanups:
            self._backend.sweep(len(records))
        select_key = self._keys.selectors[input_index]
        if select_key is not None:
            return _set_current_key(records, select_key, self._backend)
        self._backend.current_key = NO_KEY
        return records


def _set_current_key(
    records: list[Record], select_key: KeySelector, backend: KeyedStateBackend
) -> Iterator[Record]:
    plain, identify = backend.common_kind(), backend.identify
    for record in records:
        key = select_key(record[0])
        backend.current_key = key if key.__class__ is plain else identify(key)
        yield record


class CoMapOperator(TwoInputOperator):
    """Applies a CoMapFunction; None emits nothing, as in PyFlink (Flink: CoStreamMap)."""

    function: CoMapFunction

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._methods = (self.function.map1, self.function.map2)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        apply, own = self._methods[input_index], self._own
        settled = self.settled_kind()
        results: list[Record] = []
        for value, timestamp in self.with_current_key(records, input_index):
            result = apply(value)
            if result is not None:
                kind = result.__class__
                if kind is not settled:
                    try:
                        if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                            result = own(result)
                    except TypeError:
                        result = own(result)
                results.append((result, timestamp))
        return results


class CoFlatMapOperator(TwoInputOperator):
    """Applies a CoFlatMapFunction (Flink: CoStreamFlatMap)."""

    function: CoFlatMapFunction

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._methods = (self.function.flat_map1, self.function.flat_map2)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        apply, own = self._methods[input_index], self._own
        settled = self.settled_kind()
        results: list[Record] = []
        for value, timestamp in self.with_current_key(records, input_index):
            for result in apply(value) or ():
                kind = result.__class__
                if kind is not settled:
                    try:
                        if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                            result = own(result)
                    except TypeError:
                        result = own(result)
                results.append((result, timestamp))
        return results


class ContextualOperator(TwoInputOperator):
    """Base of operators whose function gets a context with each record; without timers.

    Subclasses set ``_sides`` (for each input, the method and its context) and ``_side_outputs`` in ``open``.
    """

    _sides: Sequence[tuple[Callable[[Any, Any], Iterable[Any] | None], Any]]
    _side_outputs: Mapping[str, Sequence[Emit]]

    def create_service(self, context: OperatorContext) -> TimerService:
        """Return the timer service for the function's contexts."""
        self._service = NoTimers(context.clock) if self._keys is None else UnheardTimers(context.clock)
        self.event_clock = self._service
        return self._service

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        process, context = self._sides[input_index]
        own = self._own
        settled = self.settled_kind()
        results: list[Record] = []
        for value, timestamp in self.with_current_key(records, input_index):
            context.element_timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    kind = result.__class__
                    if kind is not settled:
                        try:
                            if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                                result = own(result)
                        except TypeError:
                            result = own(result)
                    results.append((result, timestamp))
        return emit_side_outputs(results, self._side_outputs) if OutputTag.exist else results

    def process_watermark(self, timestamp: int) -> list[Record]:
        self._service.watermark = timestamp
        return []


class CoProcessOperator(ContextualOperator):
    """Applies a co-process function without timers (Flink: CoProcessOperator, KeyedCoProcessOperator)."""

    function: CoProcessFunction | KeyedCoProcessFunction

    def open(self, context: OperatorContext) -> None:
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
        assert self._backend is not None
        return KeyedCoProcessFunction.OnTimerContext(self._context.time_service, self._backend)
