"""Numbers that may differ a little: which visible row stands for which expected one.

Rules:

- Rows are paired where they are equal, but for columns with a tolerance, in which numbers may differ by it:
  absolutely, or relative to the larger of the two, whichever is more. So one number suits small and large
  values. Whole numbers and all that is no number, such as a time as text, are compared exactly.
- The pairs are as many as can be, and the same in each run: rows are sorted, then matched along augmenting
  paths. To take the nearest row first would leave others without theirs.
- A row that is left over stands for the nearest expected row that is close, once too often.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

from onceproof.harness.model.columns import Amounts, Comparisons, columns_of, comparison
from onceproof.harness.model.family import options_of
from onceproof.harness.model.history import Row

AmountsOf: TypeAlias = Callable[[Row], Amounts]
"""Returns the tolerances of a row's columns."""
Forms: TypeAlias = Mapping[Row, Sequence[Row]]
"""By visible row, the expected rows that its occurrences stand for, one after another."""

ROUNDING: Final = 1e-9
"""By which numbers of double precision differ where only the order of additions does."""
_SLACK: Final = 2.0
"""The rows that may be close are looked for in a wider range than they can be in."""


def comparisons_of(family: object) -> Comparisons:
    """Return how the rows of a family are compared."""
    named: Any = family
    own: Comparisons | None = getattr(named, "comparisons", None)
    if own is not None:
        return own
    options = options_of(family)
    columns = columns_of(getattr(named, "row_schema", ""))
    return Comparisons({"": comparison(columns, options.tolerance, options.ordered_by)})


def forms_of(expected: Mapping[Row, int], visible: Iterable[Row], amounts_of: AmountsOf) -> Forms:
    """Return what visible rows stand for; one that is close to no expected row stands for itself."""
    buckets: defaultdict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for row, count in expected.items():
        buckets[_exact_part(row, amounts_of(row))][0].extend([row] * count)
    for row in visible:
        buckets[_exact_part(row, amounts_of(row))][1].append(row)
    forms: defaultdict[Row, list[Row]] = defaultdict(list)
    for wanted, seen in buckets.values():
        one = (wanted or seen)[0]
        amounts = amounts_of(one)
        places = [place for place in sorted(amounts) if place < len(one)]
        wanted.sort(key=lambda row: _sort_key(row, places))
        seen.sort(key=lambda row: _sort_key(row, places))
        for row, match in zip(seen, _matched(wanted, seen, amounts, places), strict=True):
            forms[row].append(nearest_row(row, wanted, amounts) if match is None else wanted[match])
    return forms


def nearest_row(row: Row, known: Sequence[Row], amounts: Amounts) -> Row:
    """Return the known row that is nearest among those that are close; the row itself if none is."""
    if row in known:
        return row
    close = [each for each in known if len(each) == len(row) and _are_close(row, each, amounts)]
    return min(close, key=lambda each: _distance(row, each, amounts), default=row)


def with_rounding(rows: Iterable[Row], comparisons: Comparisons) -> Comparisons:
    """Add the tolerance of rounding for the other columns in which rows of an output have real numbers."""
    real: defaultdict[str, set[int]] = defaultdict(set)
    for row in rows:
        places = [place for place, value in enumerate(row) if isinstance(value, float | Decimal)]
        real[comparisons.output_of(row)].update(places)
    return Comparisons(
        {
            name: replace(each, amounts={**dict.fromkeys(sorted(real[name]), ROUNDING), **each.amounts})
            for name, each in comparisons.outputs.items()
        }
    )


def lacks_rows(expected: Mapping[Row, int], visible: Iterable[Row], comparisons: Comparisons) -> bool:
    """Return whether rows are missing that are expected, each as often as expected."""
    if comparisons.have_tolerances:
        forms = forms_of(expected, visible, comparisons.amounts_of)
        visible = [form for those in forms.values() for form in those]
    seen = Counter(visible)
    return any(seen[row] < count for row, count in expected.items())


def _exact_part(row: Row, amounts: Amounts) -> Row:
    return tuple([None if place in amounts else value for place, value in enumerate(row)])


def _sort_key(row: Row, places: Sequence[int]) -> list[Any]:
    return [
        (0, float(row[place]), "") if _is_ordered(row[place]) else (1, 0.0, repr(row[place]))
        for place in places
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_ordered(value: Any) -> bool:
    return _is_number(value) and not math.isnan(value)


def _are_close(left: Row, right: Row, amounts: Amounts) -> bool:
    return all(
        one == other or _are_close_values(one, other, amounts.get(place))
        for place, (one, other) in enumerate(zip(left, right, strict=True))
    )


def _are_close_values(left: Any, right: Any, amount: float | None) -> bool:
    if amount is None or not (_is_number(left) and _is_number(right)):
        return False
    if isinstance(left, int) and isinstance(right, int):
        return False
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=amount, abs_tol=amount)


def _distance(left: Row, right: Row, amounts: Amounts) -> float:
    pairs = [(left[place], right[place]) for place in amounts if place < len(left)]
    return sum([abs(float(one) - float(other)) for one, other in pairs if one != other])


def _matched(
    wanted: Sequence[Row], seen: Sequence[Row], amounts: Amounts, places: Sequence[int]
) -> list[int | None]:
    """Return for each seen row the place of the wanted one that it is paired with; as many as can be."""
    pairs: list[int | None] = [None] * len(seen)
    taken: dict[int, int] = {}
    close = _close_places(wanted, seen, amounts, places)
    for start in range(len(seen)):
        came_from: dict[int, int] = {}
        waiting = deque([start])
        free: int | None = None
        while waiting and free is None:
            each = waiting.popleft()
            for place in close[each]:
                if place not in came_from:
                    came_from[place] = each
                    if place not in taken:
                        free = place
                        break
                    waiting.append(taken[place])
        while free is not None:
            each = came_from[free]
            taken[free], pairs[each], free = each, free, pairs[each]
    return pairs


def _close_places(
    wanted: Sequence[Row], seen: Sequence[Row], amounts: Amounts, places: Sequence[int]
) -> list[list[int]]:
    """Return for each seen row the places of the wanted ones that are close; both are sorted."""
    keys = [_sort_key(row, places[:1]) for row in wanted]
    found = []
    for row in seen:
        low, high = 0, len(wanted)
        if places and _is_ordered(row[places[0]]):
            value, amount = float(row[places[0]]), amounts[places[0]]
            width = _SLACK * amount * max(1.0, abs(value)) / (1 - amount)
            low = bisect_left(keys, [(0, value - width, "")])
            high = bisect_right(keys, [(0, value + width, "")])
        found.append([place for place in range(low, high) if _are_close(row, wanted[place], amounts)])
    return found
