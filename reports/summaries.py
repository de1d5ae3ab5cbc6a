"""Summaries for the model of a report: distributions of values, and the differences between rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate

from onceproof.reports.model import Bin, Cell, Distribution, Row, RowDifference

MOST_BINS = 28


def round_width(span: float, whole: bool) -> float:
    """Return the smallest bin width of 1, 2 or 5 times a power of ten with MOST_BINS bins or fewer."""
    smallest = span / MOST_BINS
    if whole and smallest <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(smallest))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= smallest * 0.999999)


def distribution(
    name: str, unit: str, counts: Mapping[int, int] | Mapping[float, int], note: str = ""
) -> Distribution | None:
    """Return the quartiles and a histogram with round bins; None if there are no values.

    ``counts``: by value, how often it occurs.
    """
    values = sorted(counts.items())
    if not values:
        return None
    low, high = float(values[0][0]), float(values[-1][0])
    whole = all(value == int(value) for value, _ in values)
    # A whole number fills a bin of width one, so the range of whole numbers is one wider.
    bin_width = round_width((high - low + (1 if whole else 0)) or 1.0, whole)
    first = math.floor(low / bin_width)
    bins: Counter[int] = Counter()
    for value, count in values:
        bins[math.floor(value / bin_width) - first] += count
    ends = list(accumulate(count for _, count in values))

    def quantile(share: float) -> float:
        """Return the value below which a share of the values lie, interpolated linearly."""
        position = share * (ends[-1] - 1)
        below = math.floor(position)
        lower, upper = (
            values[bisect_right(ends, min(place, ends[-1] - 1))][0] for place in (below, below + 1)
        )
        return float(lower + (upper - lower) * (position - below))

    return Distribution(
        name=name,
        unit=unit,
        count=ends[-1],
        minimum=low,
        lower_quartile=quantile(0.25),
        median=quantile(0.5),
        upper_quartile=quantile(0.75),
        percentile_95=quantile(0.95),
        maximum=high,
        bins=tuple(
            Bin(low=(first + index) * bin_width, high=(first + index + 1) * bin_width, count=bins[index])
            for index in range(max(bins) + 1)
        ),
        note=note,
    )


def row_order(row: Row) -> tuple[tuple[int, float, str], ...]:
    """Return a sort key for rows with values of different types."""
    return tuple(_cell_order(value) for value in row)


def _cell_order(value: Cell) -> tuple[int, float, str]:
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, int | float):
        return (1, float(value), "")
    # A cell may hold a list of values.
    return (2, 0.0, str(value))


def row_differences(
    expected: Iterable[Row], actual: Iterable[Row], equal_limit: int = 10
) -> tuple[RowDifference, ...]:
    """Compare two bags of rows with the rules of the checker `exactly_once`; differences come first.

    A surplus row that differs from a missing one only in its last column is a wrong value. A surplus row that
    is expected is duplicated; any other is a phantom. A missing row is lost. At most `equal_limit` equal rows
    are returned, for comparison.
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
