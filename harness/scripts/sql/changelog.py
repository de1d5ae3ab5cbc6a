"""What the changes in a sink come to, and whether they are sound.

Rules:

- A row of a run is ``(kind, *values)``, behind the name of the sink where there are several. Transactions are
  multisets, so a changelog numbers its changes in a last column: those of one primary key in a table that is
  written by key, else those of one row. A sink that takes INSERTs only numbers nothing.
- By key, the change with the highest number says whether the row is there. Otherwise a row is there as often
  as it was added and not retracted.
- A changelog is sound if each number is there once and none is left out, if no row is retracted more often
  than it was added, and if no row of a key is deleted that is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from onceproof.harness.model.history import Row

RowCounts: TypeAlias = Counter[Row]
ADDED: Final = "+I"
ADDS: Final = (ADDED, "+U")


class Sink(Struct, frozen=True):
    """How the rows of a sink are read."""

    name: str
    tag: str | None
    """The first cell of its rows; None: it is the only sink."""
    key: tuple[int, ...] | None
    """The columns by which it is written; None: it is not written by key."""
    is_numbered: bool

    def rows_of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows of the sink, without its name."""
        for row in rows:
            if self.tag is None:
                yield row
            elif row and row[0] == self.tag:
                yield row[1:]

    def written(self, row: Row) -> Row:
        """Return a row as runs have it."""
        return row if self.tag is None else (self.tag, *row)

    def identity(self, values: Row) -> Row:
        """Return what of a row tells which changes are of one row."""
        return values if self.key is None else tuple([values[column] for column in self.key])


class Applied(Struct):
    """What the changes of a sink come to."""

    table: RowCounts
    last: dict[Row, Row]
    """By a row of the table, the last change that has added it."""
    highest: dict[Row, int]
    """By identity, the highest number."""
    unsound: list[Row]
    """The changes that break the rules."""
    gaps: list[Row]
    """The identity and number of each change that is left out."""

    @property
    def is_sound(self) -> bool:
        """Whether no change breaks the rules, and none is left out."""
        return not self.unsound and not self.gaps


def applied(sink: Sink, changes: Iterable[Row]) -> Applied:
    """Apply the changes of a sink in the order of their numbers."""
    found = Applied(Counter(), {}, {}, [], [])
    if not sink.is_numbered:
        for change in changes:
            found.table[change[1:]] += 1
            found.last[change[1:]] = change
        return found
    of_rows: dict[Row, list[Row]] = {}
    for change in changes:
        of_rows.setdefault(sink.identity(change[1:-1]), []).append(change)
    for identity, own in of_rows.items():
        own.sort(key=lambda change: change[-1])
        found.highest[identity] = own[-1][-1]
        _apply(sink, identity, own, found)
    return found


def _apply(sink: Sink, identity: Row, changes: Sequence[Row], found: Applied) -> None:
    """Apply the changes of one key, or of one row."""
    there: list[Row] = []
    number = 0
    for change in changes:
        if change[-1] <= number:
            found.unsound.append(change)
            continue
        found.gaps += [(*identity, each) for each in range(number + 1, change[-1])]
        number = change[-1]
        if change[0] in ADDS:
            there = [*(there if sink.key is None else ()), change]
        elif there:
            there.pop()
        else:
            found.unsound.append(change)
    for change in there:
        found.table[change[1:-1]] += 1
        found.last[change[1:-1]] = change


def corrected(sink: Sink, changes: Sequence[Row], table: RowCounts, is_sound: bool) -> list[Row]:
    """Return the changes that should be there: those that are, as far as they come to a table.

    Args:
        table: what they should come to.
        is_sound: whether they must be sound.
    """
    here = applied(sink, changes)
    rows = Counter(changes)
    for row, count in (here.table - table).items():
        rows[here.last[row]] -= min(count, rows[here.last[row]])
    for row, count in (table - here.table).items():
        number = (here.highest.get(sink.identity(row), 0) + 1,) if sink.is_numbered else ()
        rows[(ADDED, *row, *number)] += count
    if is_sound:
        rows -= Counter(here.unsound)
        rows.update([("lost", *each) for each in here.gaps])
    return list((+rows).elements())


def is_right(sink: Sink, changes: Iterable[Row], table: RowCounts) -> bool:
    """Return whether changes come to a table, and are sound."""
    found = applied(sink, changes)
    return found.table == table and found.is_sound
