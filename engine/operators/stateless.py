"""The operators of map, filter and flat-map functions.

The user's call is the only one for each record whose result cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from onceproof.engine.elements import Record
from onceproof.engine.functions import FilterFunction, FlatMapFunction, MapFunction
from onceproof.engine.operators.base import FunctionOperator
from onceproof.engine.owned import HASHED, PLAIN
from onceproof.engine.types.row import ROW_HASHED


class MapOperator(FunctionOperator):
    """Applies a MapFunction; a result keeps the timestamp of its input (Flink: StreamMap)."""

    function: MapFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        apply, own = self.function.map, self._own
        settled = self.settled_kind()
        results: list[Record] = []
        for value, timestamp in records:
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


class FilterOperator(FunctionOperator):
    """Applies a FilterFunction (Flink: StreamFilter)."""

    function: FilterFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        keep = self.function.filter
        return [record for record in records if keep(record[0])]


class FlatMapOperator(FunctionOperator):
    """Applies a FlatMapFunction; each result takes the timestamp of its input (Flink: StreamFlatMap)."""

    function: FlatMapFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        apply, own = self.function.flat_map, self._own
        settled = self.settled_kind()
        results: list[Record] = []
        for value, timestamp in records:
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


def no_results() -> NoReturn:
    """Raise TypeError, as Flink does: most functions that return None lack a return or a yield."""
    raise TypeError("flat_map returned None: return a list, perhaps an empty one, or yield the results")
