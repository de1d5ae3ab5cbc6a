"""The operators of map, filter and flat-map functions.

They are comprehensions over the buffer, so the user's call is the only one for each record.
"""

from __future__ import annotations

from typing import NoReturn

from onceproof.engine.elements import Record
from onceproof.engine.functions import FilterFunction, FlatMapFunction, MapFunction
from onceproof.engine.operators.base import FunctionOperator


class MapOperator(FunctionOperator):
    """Applies a MapFunction; a result keeps the timestamp of its input (Flink: StreamMap)."""

    function: MapFunction

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        apply = self.function.map
        return [(apply(value), timestamp) for value, timestamp in records]


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
        apply = self.function.flat_map
        return [
            (result, timestamp)
            for value, timestamp in records
            for results in [apply(value)]
            for result in (no_results(self.function) if results is None else results)
        ]


def no_results(function: object) -> NoReturn:
    """Raise TypeError, as Flink does: most functions that return None lack a return or a yield."""
    raise TypeError(
        f"flat_map of {type(function).__qualname__} returned None: return a list, which may be empty, or yield"
    )
