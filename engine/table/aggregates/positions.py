"""ROW_NUMBER, RANK, DENSE_RANK and LAG: the position of a row in the frame of OVER.

A row is the last of its frame, so its position is that of what was added last. As the frame is that of the
node, rows of equal time that share a RANGE frame share the position of the last of them, as in Flink.
"""

from __future__ import annotations

from typing import Any

from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.ordering import key_codec
from onceproof.engine.table.settings import TableSettings
from onceproof.engine.table.types import Field, LogicalType
from onceproof.engine.table.values import Row


class RowNumber(Aggregate):
    """The number of rows (Flink: RowNumberAggFunction)."""

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, values: Row) -> int:
        return accumulator + 1

    def retract(self, accumulator: int, values: Row) -> int:
        return accumulator - 1

    def result(self, accumulator: int) -> int:
        return accumulator


@aggregate("$ROW_NUMBER$1")
def _row_number(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return RowNumber()


class Rank(Aggregate):
    """The number of rows, or of different keys, up to the first with the last key (Flink: RankAggFunction).

    The arguments are the columns of the order; the accumulator is the rank, the rows and the last key. Flink
    finds no two times equal, so over a time this is the number of rows.
    """

    def __init__(self, types: tuple[LogicalType, ...], is_dense: bool) -> None:
        self._is_dense = is_dense
        self._equal = not any(each.attribute for each in types)
        self._encode = key_codec(LogicalType("ROW", fields=tuple([Field("", each) for each in types])))[0]

    def create(self) -> tuple[int, int, Any]:
        return 0, 0, None

    def add(self, accumulator: tuple[int, int, Any], values: Row) -> tuple[int, int, Any]:
        rank, rows, last = accumulator
        key = self._encode(values)
        if not (self._equal and rows and key == last):
            rank = rank + 1 if self._is_dense else rows + 1
        return rank, rows + 1, key

    def result(self, accumulator: tuple[int, int, Any]) -> int:
        return accumulator[0]


@aggregate("$RANK$1")
def _rank(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Rank(call.argument_types, is_dense=False)


@aggregate("$DENSE_RANK$1")
def _dense_rank(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Rank(call.argument_types, is_dense=True)


class Lag(Aggregate):
    """The value so many rows before, or the default (Flink: LagAggFunction).

    The accumulator is how many values are needed, the last of them, and the default.
    """

    def create(self) -> tuple[int, tuple[Any, ...], Any]:
        return 1, (), None

    def add(self, accumulator: tuple[int, tuple[Any, ...], Any], values: Row) -> tuple[int, Row, Any]:
        needed = values[1] + 1 if len(values) > 1 else 2
        default = values[2] if len(values) > 2 else None
        return needed, (*accumulator[1], values[0])[-needed:], default

    def result(self, accumulator: tuple[int, tuple[Any, ...], Any]) -> Any:
        needed, values, default = accumulator
        return values[0] if len(values) == needed else default


@aggregate("$LAG$1")
def _lag(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Lag()
