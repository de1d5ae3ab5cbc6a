"""From many plain values to the few that a page shows: distributions, and rows compared.

Whoever fills the model may use these or bring its own (a campaign computes its bins in SQL): the page does
not care.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from onceproof.reports.model import Bin, Cell, Distribution, Row, RowDifference

MOST_BINS = 28


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the ordered values lie, interpolated between neighbours."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def round_width(span: float, whole: bool) -> float:
    """The narrowest bin of 1, 2 or 5 times a power of ten that needs no more than MOST_BINS of them."""
    smallest = span / MOST_BINS
    if whole and smallest <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(smallest))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= smallest * 0.999999)


def distribution(name: str, unit: str, values: Iterable[float], note: str = "") -> Distribution | None:
    """Summarise values: their quartiles and a histogram of round bins; None where there is no value."""
    ordered = sorted(map(float, values))
    if not ordered:
        return None
    low, high = ordered[0], ordered[-1]
    whole = all(value == int(value) for value in ordered)
    # A whole number fills its bin of width one, hence the one more.
    bin_width = round_width((high - low + (1 if whole else 0)) or 1.0, whole)
    first = math.floor(low / bin_width)
    counts = Counter(math.floor(value / bin_width) - first for value in ordered)
    bins = tuple(
        Bin(low=(first + index) * bin_width, high=(first + index + 1) * bin_width, count=counts[index])
        for index in range(max(counts) + 1)
    )
    return Distribution(
        name=name,
        unit=unit,
        count=len(ordered),
        minimum=low,
        lower_quartile=quantile(ordered, 0.25),
        median=quantile(ordered, 0.5),
        upper_quartile=quantile(ordered, 0.75),
        percentile_95=quantile(ordered, 0.95),
        maximum=high,
        bins=bins,
        note=note,
    )


def row_order(row: Row) -> tuple[tuple[int, float, str], ...]:
    """An order for rows of any mixture of types."""
    return tuple(_cell_order(value) for value in row)


def _cell_order(value: Cell) -> tuple[int, float, str]:
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, str):
        return (2, 0.0, value)
    return (1, float(value), "")


def row_differences(
    expected: Iterable[Row], actual: Iterable[Row], equal_limit: int = 10
) -> tuple[RowDifference, ...]:
    """Compare two bags of rows as the checker of `exactly_once` does, the differences first.

    A row too many that only its last column tells from one that is missing stands in its place: a wrong
    value; one that is expected is duplicated; any other is a phantom. A row too few is lost. At most
    `equal_limit` of the rows that agree are kept, to give the eye something to compare with.
    """
    wanted, found = Counter(expected), Counter(actual)
    missing, extra = wanted - found, found - wanted
    absent_by_leading: dict[Row, list[Row]] = {}
    for row in sorted(missing.elements(), key=row_order, reverse=True):
        absent_by_leading.setdefault(row[:-1], []).append(row)
    differences: list[RowDifference] = []
    for row in sorted(extra, key=row_order):
        if row in wanted:
            differences.append(RowDifference("duplicated", row, row, extra[row]))
            continue
        for _ in range(extra[row]):
            partners = absent_by_leading.get(row[:-1])
            if partners:
                partner = partners.pop()
                missing[partner] -= 1
                differences.append(RowDifference("wrong value", partner, row))
            else:
                differences.append(RowDifference("phantom", None, row))
    differences += [
        RowDifference("lost", row, None, times)
        for row, times in sorted(missing.items(), key=lambda item: row_order(item[0]))
        if times > 0
    ]
    differences.sort(key=lambda difference: row_order(difference.expected or difference.actual or ()))
    equal = sorted((wanted & found).items(), key=lambda item: row_order(item[0]))
    differences += [RowDifference("equal", row, row, times) for row, times in equal[:equal_limit]]
    return tuple(differences)
