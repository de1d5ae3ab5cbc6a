"""Process functions, on plain and on keyed streams.

One context object serves every record of a subtask: it only holds what is true of the record in hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.elements import Record
from engine.functions import KeyedProcessFunction, ProcessFunction
from engine.operators.base import FunctionOperator, OperatorContext
from engine.state.keyed import KeyedStateBackend
from engine.types import TypeInformation


class ProcessOperator(FunctionOperator):
    """Applies a ProcessFunction (Flink: ProcessOperator)."""

    function: ProcessFunction

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the record's context."""
        super().open(context)
        self._process = self.function.process_element
        self._context = ProcessFunction.Context(context.clock)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Results take the timestamp of their input."""
        process = self._process
        context = self._context
        results: list[Record] = []
        for value, timestamp in records:
            context._timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    results.append((result, timestamp))
        return results


class KeyedProcessOperator(FunctionOperator):
    """Applies a KeyedProcessFunction under the record's key (Flink: KeyedProcessOperator)."""

    function: KeyedProcessFunction

    def __init__(
        self,
        function: KeyedProcessFunction,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
    ) -> None:
        super().__init__(function)
        self._key_selector = key_selector
        self._key_type = key_type

    def create_backend(self, context: OperatorContext) -> KeyedStateBackend:
        """State is that of this subtask's key groups."""
        return context.keyed_backend(self._key_type)

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the record's context."""
        super().open(context)
        assert self._backend is not None
        self._keyed = self._backend
        self._process = self.function.process_element
        self._context = KeyedProcessFunction.Context(context.clock, self._backend)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Results take the timestamp of their input."""
        process = self._process
        select_key = self._key_selector
        context = self._context
        backend = self._keyed
        if backend.cleanups:
            backend.sweep(len(records))
        results: list[Record] = []
        for value, timestamp in records:
            backend.current_key = select_key(value)
            context._timestamp = timestamp
            emitted = process(value, context)
            if emitted is not None:
                for result in emitted:
                    results.append((result, timestamp))
        return results
