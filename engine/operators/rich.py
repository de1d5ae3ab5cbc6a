"""The operators of functions on a keyed stream: the base of all, and those of map, filter, flat map and sink.

The rules this module lives by:

- Every function object on a keyed stream has a keyed backend, as in Flink. A plain callable cannot ask for
  state, so it keeps the operators of ``stateless``, which are faster.
- The key of a record is the current key from before the function is called until its last result is taken:
  a flat-map function may be a generator.
- A sink function that takes whole buffers gets them without a current key, because their records have many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from onceproof.engine.elements import Record
from onceproof.engine.functions import FilterFunction, FlatMapFunction, Function, MapFunction, SinkFunction
from onceproof.engine.operators.base import FunctionOperator, InputOrder, OperatorContext
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.stateless import no_results
from onceproof.engine.owned import HASHED, PLAIN
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.tables import NO_KEY
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.row import ROW_HASHED


class KeyedFunctionOperator(FunctionOperator):
    """Base of operators around a function with one keyed input.

    Subclasses call ``begin_buffer`` once for each buffer, and set ``current_key`` of ``_keyed`` before each
    call of the function.
    """

    _keyed: KeyedStateBackend

    def __init__(
        self, function: Function, key_selector: Callable[[Any], Any], key_type: TypeInformation | None
    ) -> None:
        super().__init__(function)
        self._key_selector = key_selector
        self._key_type = key_type

    def input_order(self) -> InputOrder | None:
        return InputOrder((self._key_selector,), self._key_type)

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend:
        self._keyed = context.keyed_backend(self._key_type)
        return self._keyed

    def begin_buffer(self, records: list[Record]) -> KeyedStateBackend:
        """Return the backend, after the cleanup of expired state that so many records pay for."""
        backend = self._keyed
        if backend.cleanups:
            backend.sweep(len(records))
        return backend


class KeyedMapOperator(KeyedFunctionOperator):
    """Applies a MapFunction under the record's key (Flink: StreamMap)."""

    function: MapFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        apply, own = self.function.map, self._own
        settled = self.settled_kind()
        select_key = self._key_selector
        backend = self.begin_buffer(records)
        plain, identify = backend.common_kind(), backend.identify
        results: list[Record] = []
        for value, timestamp in records:
            key = select_key(value)
            backend.current_key = key if key.__class__ is plain else identify(key)
            result = apply(value)
            kind = result.__class__
            if kind is not settled:
                try:
                    if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                        result = own(result)
                except TypeError:
                    result = own(result)
            results.append((result, timestamp))
        return results


class KeyedFilterOperator(KeyedFunctionOperator):
    """Applies a FilterFunction under the record's key (Flink: StreamFilter)."""

    function: FilterFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        keep = self.function.filter
        select_key = self._key_selector
        backend = self.begin_buffer(records)
        plain, identify = backend.common_kind(), backend.identify
        results: list[Record] = []
        for record in records:
            key = select_key(record[0])
            backend.current_key = key if key.__class__ is plain else identify(key)
            if keep(record[0]):
                results.append(record)
        return results


class KeyedFlatMapOperator(KeyedFunctionOperator):
    """Applies a FlatMapFunction under the record's key (Flink: StreamFlatMap)."""

    function: FlatMapFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        apply, own = self.function.flat_map, self._own
        settled = self.settled_kind()
        select_key = self._key_selector
        backend = self.begin_buffer(records)
        plain, identify = backend.common_kind(), backend.identify
        results: list[Record] = []
        for value, timestamp in records:
            key = select_key(value)
            backend.current_key = key if key.__class__ is plain else identify(key)
            emitted: Iterable[Any] | None = apply(value)
            for result in no_results() if emitted is None else emitted:
                kind = result.__class__
                if kind is not settled:
                    try:
                        if (result in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                            result = own(result)
                    except TypeError:
                        result = own(result)
                results.append((result, timestamp))
        return results


class KeyedSinkOperator(KeyedFunctionOperator, SinkOperator):
    """Calls a SinkFunction under the record's key (Flink: StreamSink)."""

    function: SinkFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        backend = self.begin_buffer(records)
        plain, identify = backend.common_kind(), backend.identify
        backend.current_key = NO_KEY
        if len(records) > 1 and self.function.invoke_records(records):
            return []
        context = self._context
        invoke = self._invoke
        select_key = self._key_selector
        for value, timestamp in records:
            key = select_key(value)
            backend.current_key = key if key.__class__ is plain else identify(key)
            context.element_timestamp = timestamp
            invoke(value, context)
        return []
