"""Whether rows that differ from the expected ones are those of a correct run with records behind the watermark.

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
- A record that equals one of the first firing and changes nothing there is a repeat that the job drops, and
  comes with no firing.
- A record that is in no firing must be declared late, or count in another row, or be on its way at a cut.
- A group with more records behind the watermark than MOST_RECORDS is not decided, which the run's notes say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, TypeAlias

from onceproof.harness.checkers.arrivals import Arrival, Line, only
from onceproof.harness.model.family import Records, Rows
from onceproof.harness.model.history import Row

MOST_RECORDS: Final = 10
"""The most records behind the watermark in one group; each doubles the time."""

Expect: TypeAlias = Callable[[Records], Rows]
"""Returns the rows of some records once the input is over, given what the run declares."""
Group: TypeAlias = tuple[Any, ...]


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


@dataclass(slots=True)
class Firings:
    """The search for firings that give the visible rows."""

    expect: Expect
    run: Run
    due: Callable[[Row], int | None] | None
    answers: Callable[[Row], Any] | None
    undecided: list[Group] = field(default_factory=list)
    """Groups with too many records behind the watermark."""
    _behind: list[Arrival] = field(init=False)
    _alone: dict[Arrival, Rows] = field(init=False)
    _columns: frozenset[int] = field(init=False)
    _constant: frozenset[int] = field(init=False)
    _cache: dict[tuple[bool, frozenset[Arrival]], Counter[Row]] = field(init=False)

    def __post_init__(self) -> None:
        self._behind = [each for each in self.run.arrivals if each.furthest >= each.timestamp]
        self._cache = {}
        if self._behind:
            self._alone = {each: self.expect(only([each], self.run.records)) for each in self._behind}
            self._columns, self._constant = self._changing_columns()

    def settled(self, expected: Counter[Row]) -> Counter[Row]:
        """Return the expected rows, with the visible ones in the place of those that are legitimate."""
        if not self._behind:
            return expected
        differing = {self._group(row) for row in (expected - self.run.visible) + (self.run.visible - expected)}
        for group in differing:
            if self._is_legitimate(group):
                expected = +Counter({row: n for row, n in expected.items() if self._group(row) != group})
                expected += self._of(group, self.run.visible)
        return expected

    def due_of(self, row: Row, arrival: Arrival) -> int:
        """Return the watermark at which a row is due; the timestamp of a record of it where that is unknown."""
        due = None if self.due is None else self.due(row)
        return arrival.timestamp if due is None else due

    def _is_legitimate(self, group: Group) -> bool:
        members = [
            each
            for each in self._behind
            for own in [[row for row in self._alone[each] if self._group(row) == group]]
            if own and each.furthest >= min(self.due_of(row, each) for row in own)
        ]
        if not members:
            return False
        if len(members) > MOST_RECORDS:
            self.undecided.append(group)
            return True
        visible = self._of(group, self.run.visible)
        most = len(self.run.line) if self.run.line else len(members) + 1
        if max(Counter(map(self._answer, visible.elements())).values(), default=0) > most:
            return False
        return any(
            self._may_follow(group, visible, frozenset(outside))
            for size in range(len(members) + 1)
            for outside in combinations(members, size)
        )

    def _may_follow(self, group: Group, visible: Counter[Row], outside: frozenset[Arrival]) -> bool:
        """Return whether the rows follow where all but ``outside`` are in the first firing."""
        first = self._rows(group, outside, alone=False)
        if self.run.is_whole and first - visible:
            return False
        left = visible - first
        return self._may_fire(group, left, first, outside, outside)

    def _may_fire(
        self,
        group: Group,
        left: Counter[Row],
        first: Counter[Row],
        outside: frozenset[Arrival],
        waiting: frozenset[Arrival],
    ) -> bool:
        """Return whether the rows that are left are those of later firings of some waiting records."""
        if not left:
            return all(self._may_be_absent(group, each) for each in waiting)
        for some in _subsets(waiting):
            rows = self._rows(group, some, alone=True)
            if rows and not rows - left and self._is_later(group, some, rows, first, outside):
                if self._may_fire(group, left - rows, first, outside, waiting - some):
                    return True
        return False

    def _is_later(
        self,
        group: Group,
        some: frozenset[Arrival],
        rows: Counter[Row],
        first: Counter[Row],
        outside: frozenset[Arrival],
    ) -> bool:
        """Return whether these records may come with a firing after the first."""
        answered = {self._answer(row) for row in first}
        is_anew = answered.isdisjoint(map(self._answer, rows))
        for each in some:
            joined = self._rows(group, outside - {each}, alone=False)
            if joined == first and self._is_repeat(each, outside):
                return False
            missed = [self.due_of(row, each) for row in first - joined]
            limit = min(missed, default=each.timestamp if self.due is None else self._last_due(each))
            may_begin = is_anew if self.due is None else limit < self._last_due(each)
            if each.earlier < limit and not (may_begin and each.watermark >= limit):
                return False
        return True

    def _is_repeat(self, arrival: Arrival, outside: frozenset[Arrival]) -> bool:
        return any(
            other.timestamp == arrival.timestamp and other.value == arrival.value and other not in outside
            for other in self.run.arrivals
        )

    def _may_be_absent(self, group: Group, arrival: Arrival) -> bool:
        """Return whether a record may be in no row of a group."""
        dues = [self.due_of(row, arrival) for row in self._alone[arrival] if self._group(row) == group]
        if not self.run.is_whole and (self.run.in_flight or arrival.earlier >= min(dues)):
            return True
        return arrival.watermark >= max(dues) and max(dues) < self._last_due(arrival)

    def _last_due(self, arrival: Arrival) -> int:
        return max(self.due_of(row, arrival) for row in self._alone[arrival])

    def _rows(self, group: Group, some: frozenset[Arrival], alone: bool) -> Counter[Row]:
        """Return the rows of a group for some records alone, or for all but these."""
        if (alone, some) not in self._cache:
            chosen = [each for each in self.run.arrivals if (each in some) == alone]
            self._cache[alone, some] = Counter(self.expect(only(chosen, self.run.records)))
        return self._of(group, self._cache[alone, some])

    def _of(self, group: Group, rows: Counter[Row]) -> Counter[Row]:
        return Counter({row: count for row, count in rows.items() if self._group(row) == group})

    def _group(self, row: Row) -> Group:
        return tuple([cell for column, cell in enumerate(row) if column not in self._columns])

    def _answer(self, row: Row) -> Any:
        """Return what an attempt answers once at most: all columns but those that any record changes."""
        if self.answers is not None and (answer := self.answers(row)) is not None:
            return answer
        return tuple([cell for column, cell in enumerate(row) if column not in self._constant])

    def _changing_columns(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the columns that some record changes, and those that each one changes."""
        whole = Counter(self.expect(self.run.records))
        some: set[int] = set()
        each: set[int] | None = None
        for arrival in self.run.arrivals:
            chosen = [other for other in self.run.arrivals if other is not arrival]
            rest = Counter(self.expect(only(chosen, self.run.records)))
            gone, come = [*(whole - rest)], [*(rest - whole)]
            changed = [_nearest(row, come) for row in gone] + [_nearest(row, gone) for row in come]
            for columns in filter(None, changed):
                some |= columns
            if len(gone) == len(come) == 1:
                each = {*changed[0]} if each is None else each & changed[0]
        return frozenset(some), frozenset(each or ())


def _nearest(row: Row, others: Sequence[Row]) -> frozenset[int]:
    """Return the columns in which a row differs from the most similar of some others, the last preferred."""
    differences = [
        frozenset([column for column, cell in enumerate(row) if cell != other[column]])
        for other in others
        if len(other) == len(row)
    ]
    return min(differences, key=lambda each: (len(each), -min(each, default=0)), default=frozenset())


def _subsets(members: Iterable[Arrival]) -> Iterator[frozenset[Arrival]]:
    """Yield the subsets that are not empty, the smallest first."""
    ordered = sorted(members)
    for size in range(1, len(ordered) + 1):
        yield from map(frozenset, combinations(ordered, size))
