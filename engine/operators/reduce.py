"""The rolling reduce of a keyed stream.

The operator uses the state's live table directly: in a rolling count, two method calls for each record would
be half of the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceproof.engine.elements import MAX_WATERMARK, Record
from onceproof.engine.functions import ReduceFunction
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.operators.declared_output import DeclaredOutput
from onceproof.engine.operators.rich import KeyedFunctionOperator
from onceproof.engine.owned import HASHED, PLAIN
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.tables import ValueTable
from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.row import ROW_HASHED

STATE_NAME = "_op_state"
"""The name of the state in Flink's StreamGroupedReduceOperator."""


class KeyedReduceOperator(KeyedFunctionOperator):
    """Emits the reduced value of the key after every record (Flink: StreamGroupedReduceOperator).

    The function has no state of its own: it is a plain callable or one of the engine's aggregations.
    """

    function: ReduceFunction

    def __init__(
        self,
        function: ReduceFunction,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
        value_type: TypeInformation | None,
    ) -> None:
        super().__init__(function, key_selector, key_type)
        self._value_type = value_type
        self._declared: DeclaredOutput | None = None

    def applies(self, declared: DeclaredOutput) -> bool:
        """Take rows and the like before they get into the state; simple values are checked as they leave."""
        if declared.is_simple:
            return False
        self._declared = declared
        return True

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        descriptor = ValueStateDescriptor(STATE_NAME, self._value_type or Types.DYNAMIC())
        self._table = self._keyed.table(descriptor)

    def in_batch(self) -> Operator:
        return FinalReduceOperator(self.function, self._key_selector, self._key_type, self._value_type)

    def _reduce(self) -> Callable[[Any, Any], Any]:
        """Return the function whose results have the declared type."""
        reduce, declared = self.function.reduce, self._declared
        if declared is None:
            return reduce
        return lambda first, second: declared.value_of(reduce(first, second))

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Return one record for each; the first value of a key is emitted unchanged."""
        reduce, own = self._reduce(), self._own
        settled = self.settled_kind()
        select_key = self._key_selector
        plain, identify = self._keyed.plain_keys, self._keyed.identify
        table = self._table
        results: list[Record] = []
        append = results.append
        for value, timestamp in records:
            key = select_key(value)
            if key.__class__ not in plain:
                key = identify(key)
            if key in table:
                value = reduce(table[key], value)
            table[key] = value
            kind = value.__class__
            if kind is not settled:
                try:
                    if (value in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                        value = own(value)
                except TypeError:
                    value = own(value)
            append((value, timestamp))
        return results


class RichReduceOperator(KeyedReduceOperator):
    """The same for a function object, which may keep state of its own under the record's key."""

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        reduce, own = self._reduce(), self._own
        settled = self.settled_kind()
        select_key = self._key_selector
        table = self._table
        backend = self.begin_buffer(records)
        plain, identify = backend.common_kind(), backend.identify
        results: list[Record] = []
        for value, timestamp in records:
            key = select_key(value)
            if key.__class__ is not plain:
                key = identify(key)
            backend.current_key = key
            if key in table:
                value = reduce(table[key], value)
            table[key] = value
            kind = value.__class__
            if kind is not settled:
                try:
                    if (value in HASHED or ROW_HASHED) if kind is tuple else kind not in PLAIN:
                        value = own(value)
                except TypeError:
                    value = own(value)
            results.append((value, timestamp))
        return results

    def in_batch(self) -> Operator:
        return FinalRichReduceOperator(self.function, self._key_selector, self._key_type, self._value_type)


class FinalResults(KeyedReduceOperator):
    """Mix-in that holds the results back to the end of the input; it stands before the operator that reduces.

    What has been emitted leaves the state: an operator that is restored behind its end emits nothing again.
    """

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Reduce the records, and emit nothing."""
        super().process_batch(records, input_index)
        return []

    def finish(self) -> list[Record]:
        """Return the reduced value of each key, in the order in which the state has the keys."""
        table = self.table
        return [(table.pop(key, None), MAX_WATERMARK) for key in list(table)]

    def end_key(self) -> list[Record]:
        """Return the reduced value of the key."""
        return [*self.finish(), *super().end_key()]

    @property
    def table(self) -> ValueTable:
        """The reduced value of each key."""
        return self._table

    def key_of(self, value: Any) -> Any:
        """Return the identity of a value's key."""
        return self._keyed.identify(self._key_selector(value))


class FinalReduceOperator(FinalResults, KeyedReduceOperator):
    """Emits the reduced value of each key at the end of the input (Flink: BatchGroupedReduceOperator)."""


class FinalRichReduceOperator(FinalResults, RichReduceOperator):
    """The same for a function object."""
