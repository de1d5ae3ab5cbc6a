"""BITMAP_BUILD_AGG, BITMAP_OR_AGG, BITMAP_AND_AGG, BITMAP_XOR_AGG, and the cardinalities of their results.

The accumulator of all is the number of bitmaps and, for each value, in how many of them it is; the result has
the values with a count above zero, with that of all bitmaps, or with an odd one (Flink:
AbstractBitmapOrWithRetractAggFunction and its like). A BITMAP is a tuple of INTs, ascending as unsigned
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from onceproof.engine.table.aggregates.counts import change_count
from onceproof.engine.table.aggregates.registry import Aggregate, AggregateCall, aggregate
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import Row

_CHOICES: Final[dict[str, Callable[[int, int], bool]]] = {
    "BUILD": lambda count, bitmaps: count > 0,
    "OR": lambda count, bitmaps: count > 0,
    "AND": lambda count, bitmaps: count == bitmaps,
    "XOR": lambda count, bitmaps: count % 2 == 1,
}
"""By the name of the function: whether a value is in the result."""
_MASK: Final = 0xFFFFFFFF


class Bitmaps(Aggregate):
    """Counts values, or those of bitmaps; what is NULL does not count."""

    def __init__(self, operation: str, *, is_cardinality: bool) -> None:
        self._chooses = _CHOICES[operation]
        self._builds = operation == "BUILD"
        self._is_cardinality = is_cardinality

    def create(self) -> list[Any]:
        return [0, {}]

    def add(self, accumulator: list[Any], values: Row) -> list[Any]:
        return self._count(accumulator, values[0], 1)

    def retract(self, accumulator: list[Any], values: Row) -> list[Any]:
        return self._count(accumulator, values[0], -1)

    def _count(self, accumulator: list[Any], given: Any, change: int) -> list[Any]:
        if given is not None:
            accumulator[0] += change
            members: Iterable[int] = (given,) if self._builds else given
            for value in members:
                change_count(accumulator[1], value, change)
        return accumulator

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        accumulator[0] += other[0]
        for value, count in other[1].items():
            change_count(accumulator[1], value, count)
        return accumulator

    def result(self, accumulator: list[Any]) -> Any:
        bitmaps, counts = accumulator
        values = [value for value, count in counts.items() if self._chooses(count, bitmaps)]
        if not values if self._builds else bitmaps <= 0:
            return None
        if self._is_cardinality:
            return len(values)
        return tuple(sorted(values, key=lambda value: value & _MASK))


@aggregate(*[f"$BITMAP_{operation}{kind}_AGG$1" for operation in _CHOICES for kind in ("", "_CARDINALITY")])
def _bitmaps(call: AggregateCall, settings: TableSettings) -> Aggregate:
    _, operation, kind, *_ = call.function.split("_")
    return Bitmaps(operation, is_cardinality=kind == "CARDINALITY")
