"""ROW_NUMBER, RANK, DENSE_RANK and LAG: the position of a row in the frame of OVER.

A row is the last of its frame, so its position is that of what was added last. Rows that are equal in the
order and share a RANGE frame share the position of the last of them. Flink 2.3 finds no two keys equal
(RankAggFunction, DenseRankAggFunction), so ranks are numbers of rows: 1, 3, 3, 4 and not 1, 2, 2, 4.
"""

from __future__ import annotations

from typing import Any

from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.table_settings import TableSettings
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


@aggregate("$ROW_NUMBER$1", "$RANK$1", "$DENSE_RANK$1")
def _row_number(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return RowNumber()


class Lag(Aggregate):
    """The value so many rows before, or the default (Flink: LagAggFunction).

    The accumulator is how many values are needed, the last of them, and the default.
    """

    def create(self) -> tuple[int, tuple[Any, ...], Any]:
        return 1, (), None

    def add(self, accumulator: tuple[int, tuple[Any, ...], Any], values: Row) -> tuple[int, Row, Any]:
        needed = values[1] + 1 if len(values) > 1 else 2
        default = values[2] if len(values) > 2 else None
        known = (*accumulator[1], values[0])
        return needed, known[-needed:], default

    def result(self, accumulator: tuple[int, tuple[Any, ...], Any]) -> Any:
        needed, values, default = accumulator
        return values[0] if len(values) == needed else default


@aggregate("$LAG$1")
def _lag(call: AggregateCall, settings: TableSettings) -> Aggregate:
    return Lag()
