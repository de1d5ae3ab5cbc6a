"""Whether rows that differ from the expected ones may come of records behind the watermark.

A record behind the watermark of its split can have several fates, and each gives other rows: it is in the
first firing of its window or timer; it opens what was already emitted again after a restore, and comes with a
later firing; it is dropped from windows that are over, and counts in one that is not; at a cut, it may still
be on its way. ``expected`` knows none of this. It is a pure function of records, so a later firing is what it
returns for the records of that firing alone.

Rules:

- Only rows that differ are examined, in groups: rows that agree in the columns that no record changes.
- The rows of a group are legitimate if its records behind the watermark can be split into firings whose
  expected rows are exactly the visible ones. All other records are in the first firing.
- A record comes with a later firing only if the first may have been emitted before the record came, as
  `arrivals.py` works it out, and if no more firings answer the same than there are attempts. Where a record's
  own window ends later than what it misses, as that of a session may, it may begin anew without a restore.
- Equal records of which the expected rows hold one only, as those of a job that drops repeats, share a fate.
- A row that does not wait for a watermark is given as soon as its record is there, and so never later.
- A row that no record gives alone, such as a pair of a join, may be missing if it was due, and what it needs
  removed, before a restore that one of its records came after; or before a record that is as new as this
  watermark, and so not late.
- A record that is in no firing must be declared late, or count in another row, or be on its way at a cut.
- Records without a watermark strategy, such as those of a table, are part of each firing.
- A group with more records behind the watermark than MOST_RECORDS is not decided, which the run's notes say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from onceproof.harness.checkers.arrivals import Arrival, Line, only
from onceproof.harness.model.family import Records, Rows
from onceproof.harness.model.history import Row

MOST_RECORDS: Final = 10
"""The most records behind the watermark in one group; each doubles the time."""

Expect: TypeAlias = Callable[[Records], Rows]
"""Returns the rows of some records once the input is over, given what the run declares."""
Group: TypeAlias = tuple[Any, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a run when its rows are judged."""

    records: Records
    visible: Counter[Row]
    line: Line
    arrivals: Sequence[Arrival]
    """All of ``records``."""
    is_whole: bool
    """Whether all rows must be there."""
    in_flight: bool
    """Whether records may be on their way."""


class Unit(NamedTuple):
    """A record, or equal records of which all but the first are dropped."""

    arrivals: tuple[Arrival, ...]
    timestamp: int
    watermark: int
    """The furthest watermark that may precede the first in its attempt; see :class:`Arrival`."""
    earlier: int

    @classmethod
    def of(cls, arrivals: Sequence[Arrival]) -> Unit:
        """Make a unit; of equal records in several splits any may be the first."""
        firsts = {each.split: each for each in sorted(arrivals, reverse=True)}.values()
        watermark = max(each.watermark for each in firsts)
        return cls(tuple(arrivals), arrivals[0].timestamp, watermark, max(each.earlier for each in firsts))


class _Search(NamedTuple):
    """The search in one group, with the records of the first firing chosen."""

    group: Group
    visible: Counter[Row]
    first: Counter[Row]
    apart: frozenset[Unit]
    """What is not in the first firing."""


@dataclass(slots=True)
class Firings:
    """The search for firings that give the visible rows."""

    expect: Expect
    run: Run
    due: Callable[[Row], int | None] | None
    answers: Callable[[Row], Any] | None
    undecided: list[Group] = field(default_factory=list)
    """Groups with too many records behind the watermark."""
    _units: list[Unit] = field(init=False)
    _whole: Counter[Row] = field(init=False)
    _behind: list[Unit] = field(init=False)
    _columns: frozenset[int] = frozenset()
    """Those that some record changes."""
    _constant: frozenset[int] = frozenset()
    """Those that each record changes."""
    _table: list[Arrival] = field(init=False)
    """The records without a watermark strategy."""
    _of_table: Counter[Row] = field(init=False)
    """The rows of these alone."""
    _cache: dict[tuple[bool, frozenset[Unit]], Counter[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._whole = Counter(self.expect(self.run.records))
        self._table = [each for each in self.run.arrivals if not each.is_timed]
        self._of_table = Counter(self.expect(only(self._table, self.run.records)) if self._table else ())
        self._units = self._united()
        # A window that a record touches, as sessions do, may be due just before the record.
        touch = 0 if self.due is None else 1
        self._behind = [
            each for each in self._units if max(each.watermark, each.earlier) >= each.timestamp - touch
        ]

    def settled(self, expected: Counter[Row]) -> Counter[Row]:
        """Return the expected rows, with the visible ones in the place of those that are legitimate."""
        if not self._behind:
            return expected
        self._find_columns()
        for group in {self._group(row) for row in {**expected, **self.run.visible}}:
            visible = self._of(group, self.run.visible)
            if visible != self._of(group, expected) and self._is_legitimate(group, visible):
                expected = Counter({row: n for row, n in expected.items() if self._group(row) != group})
                expected += visible
        return expected

    def _united(self) -> list[Unit]:
        """Return the records that may be late, with those that share a fate together."""
        equal: dict[tuple[int, Any], list[Arrival]] = {}
        for arrival in self.run.arrivals:
            if not arrival.is_timed:
                continue
            equal.setdefault((arrival.timestamp, arrival.value), []).append(arrival)
        units = []
        for same in equal.values():
            if len(same) > 1:
                others = [each for each in self.run.arrivals if each is not same[-1]]
                if Counter(self.expect(only(others, self.run.records))) == self._whole:
                    units.append(Unit.of(same))
                    continue
            units += [Unit.of([each]) for each in same]
        return units

    def _due_of(self, row: Row, unit: Unit) -> int:
        """Return when a row is due; where it is unknown, when a record of it is behind the watermark."""
        due = None if self.due is None else self.due(row)
        return unit.timestamp if due is None else due

    def _is_legitimate(self, group: Group, visible: Counter[Row]) -> bool:
        whole = self._of(group, self._whole)
        if self.due is not None and all(self.due(row) is None for row in [*whole, *visible]):
            return False
        unseen = whole - visible
        if not any(self._of(group, self._alone(each)) for each in self._units):
            return visible <= whole and all(map(self._is_missed, unseen))
        members = [
            each
            for each in self._behind
            if self._of(group, self._alone(each))
            and max(each.watermark, each.earlier) >= self._least_due(group, visible, each)
            and unseen - self._rows(group, frozenset([each]), alone=False)
        ]
        if not members:
            return False
        if len(members) > MOST_RECORDS:
            self.undecided.append(group)
            return True
        most = len(self.run.line) if self.run.line else len(members) + 1
        if max(Counter(map(self._answer, visible.elements())).values(), default=0) > most:
            return False
        return any(
            self._may_follow(group, visible, frozenset(outside))
            for size in range(len(members) + 1)
            for outside in combinations(members, size)
        )

    def _is_missed(self, row: Row) -> bool:
        """Return whether a row of several records may be missing: one of them came when the row was due."""
        return any(
            self._came_when_due(each, row)
            and self._all_rows(frozenset([each]), alone=False)[row] < self._whole[row]
            for each in self._behind
        )

    def _came_when_due(self, unit: Unit, row: Row) -> bool:
        """Return whether a record that is not late may have come when a row was due."""
        due = None if self.due is None else self.due(row)
        if due is None:
            return unit.earlier >= unit.timestamp
        return unit.earlier >= due or (due <= unit.timestamp and unit.watermark >= due)

    def _may_follow(self, group: Group, visible: Counter[Row], outside: frozenset[Unit]) -> bool:
        """Return whether the rows follow where all but ``outside`` are in the first firing.

        A row of the first firing that is not there may have grown: its records then come with those of
        ``outside``.
        """
        first = self._rows(group, outside, alone=False)
        apart, grown = outside, frozenset[frozenset[Unit]]()
        if len(first) > 1 and outside and (unseen := first - visible):
            grown = self._records_of(group, unseen, first, outside)
            apart = outside.union(*grown)
            first = self._rows(group, apart, alone=False)
        if self.run.is_whole and first - visible:
            return False
        return self._may_fire(_Search(group, visible, first, apart), visible - first, outside, grown)

    def _records_of(
        self, group: Group, unseen: Counter[Row], first: Counter[Row], outside: frozenset[Unit]
    ) -> frozenset[frozenset[Unit]]:
        """Return the records of each row that is not there."""
        found: dict[Row, set[Unit]] = {row: set() for row in unseen}
        for unit in self._units:
            if unit not in outside:
                for row in first - self._rows(group, outside | {unit}, alone=False):
                    if row in found:
                        found[row].add(unit)
        return frozenset(map(frozenset, found.values()))

    def _may_fire(
        self,
        search: _Search,
        left: Counter[Row],
        waiting: frozenset[Unit],
        grown: frozenset[frozenset[Unit]],
        later: tuple[frozenset[Unit], ...] = (),
    ) -> bool:
        """Return whether the rows that are left are those of firings of waiting records after ``later``."""
        if not left:
            return not (grown and self.run.is_whole) and all(
                self._may_be_absent(search, each) for each in waiting
            )
        for some in _subsets(waiting):
            if not some:
                continue
            for rest in _subsets(grown):
                firing = some.union(*rest)
                rows = self._rows(search.group, firing, alone=True)
                if (
                    rows
                    and not rows - left
                    and all(self._may_miss(search, each, rows, later) for each in some)
                    and self._may_fire(search, left - rows, waiting - some, grown - rest, (*later, firing))
                ):
                    return True
        return False

    def _may_miss(
        self, search: _Search, unit: Unit, rows: Counter[Row], later: tuple[frozenset[Unit], ...]
    ) -> bool:
        """Return whether a record may come when the rows that it would have joined were emitted."""
        group, first = search.group, search.first
        gone = first - self._rows(group, search.apart - {unit}, alone=False)
        for firing in later:
            gone += self._rows(group, firing, True) - self._rows(group, firing | {unit}, True)
        last = self._last_due(unit)
        limit = min((self._due_of(row, unit) for row in gone), default=last)
        if self.due is None:
            may_begin = {self._answer(row) for row in first}.isdisjoint(map(self._answer, rows))
        else:
            may_begin = limit < last
        return unit.earlier >= limit or (may_begin and unit.watermark >= limit)

    def _may_be_absent(self, search: _Search, unit: Unit) -> bool:
        """Return whether a record may be in no row of a group."""
        least, last = self._least_due(search.group, search.visible, unit), self._last_due(unit)
        if not self.run.is_whole and (
            self.run.in_flight
            or unit.earlier >= least
            or (unit.watermark >= least and (least < last or self.due is None))
        ):
            return True
        own = max(self._due_of(row, unit) for row in self._of(search.group, self._alone(unit)))
        return own < last and unit.watermark >= own

    def _least_due(self, group: Group, visible: Counter[Row], unit: Unit) -> int:
        """Return when the first of a group's rows is due: those of a record alone, or one that is there."""
        return min(self._due_of(row, unit) for row in [*self._of(group, self._alone(unit)), *visible])

    def _last_due(self, unit: Unit) -> int:
        return max(self._due_of(row, unit) for row in self._alone(unit))

    def _alone(self, unit: Unit) -> Counter[Row]:
        return self._all_rows(frozenset([unit]), alone=True)

    def _rows(self, group: Group, some: frozenset[Unit], alone: bool) -> Counter[Row]:
        """Return the rows of a group for some records alone, or for all but these."""
        return self._of(group, self._all_rows(some, alone))

    def _all_rows(self, some: frozenset[Unit], alone: bool) -> Counter[Row]:
        if (alone, some) not in self._cache:
            chosen = [each for unit in self._units if (unit in some) == alone for each in unit.arrivals]
            rows = Counter(self.expect(only([*self._table, *chosen], self.run.records)))
            self._cache[alone, some] = rows - self._of_table if alone else rows
        return self._cache[alone, some]

    def _of(self, group: Group, rows: Counter[Row]) -> Counter[Row]:
        return Counter({row: count for row, count in rows.items() if self._group(row) == group})

    def _group(self, row: Row) -> Group:
        return tuple([cell for column, cell in enumerate(row) if column not in self._columns])

    def _answer(self, row: Row) -> Any:
        """Return what an attempt answers once at most: all columns but those that any record changes."""
        if self.answers is not None and (answer := self.answers(row)) is not None:
            return answer
        return tuple([cell for column, cell in enumerate(row) if column not in self._constant])

    def _find_columns(self) -> None:
        some: set[int] = set()
        each: set[int] | None = None
        for unit in self._units:
            rest = self._all_rows(frozenset([unit]), alone=False)
            gone, come = [*(self._whole - rest)], [*(rest - self._whole)]
            changed = _differences(gone, come)
            some = some.union(*changed)
            if changed and len(gone) == len(come) == 1:
                each = {*changed[0]} if each is None else each & changed[0]
        self._columns, self._constant = frozenset(some), frozenset(each or ())


def _differences(gone: Sequence[Row], come: Sequence[Row]) -> list[frozenset[int]]:
    """Pair the rows that are gone with those that come, most similar first, and return how the pairs differ.

    Of pairs with as many different columns, one that differs in later columns is preferred. A row without a
    partner is gone, or comes, as a whole: of a record in several windows, each window may have a row.
    """
    pairs = sorted(
        (len(columns), -min(columns), old, new, columns)
        for old, row in enumerate(gone)
        for new, other in enumerate(come)
        if len(row) == len(other)
        for columns in [tuple([column for column, cell in enumerate(row) if cell != other[column]])]
    )
    paired: set[tuple[str, int]] = set()
    found = []
    for _, _, old, new, columns in pairs:
        if paired.isdisjoint({("gone", old), ("come", new)}):
            paired |= {("gone", old), ("come", new)}
            found.append(frozenset(columns))
    return found


def _subsets(members: frozenset[T]) -> Iterator[frozenset[T]]:
    """Yield all subsets, the smallest first."""
    for size in range(len(members) + 1):
        yield from map(frozenset, combinations(members, size))
