"""The rows that a scenario should commit, from plain Python written apart from the engine.

The rules this module lives by:

- Rows are a multiset: exactly-once says how often a row is there, not in which order.
- The oracle sees the records and what the run declared of its own choices, never the engine.
- What is asked twice is computed once: consistent_cut asks for the input as of each checkpoint, and the last
  checkpoint is at the end of the input, where exactly_once asks again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from onceproof.harness.model.family import (
    NOTHING_DECLARED,
    AtLeastOnce,
    Declared,
    Records,
    Rows,
    options_of,
)
from onceproof.harness.model.history import Cut, Row
from onceproof.harness.model.scenario import Scenario

RowCounts: TypeAlias = Mapping[Row, int]
"""A multiset: each row with how often it is there."""
Versions: TypeAlias = Mapping[Row, Sequence[Row]]
"""By key, its rows in the order in which they replace one another."""


class Oracle(Protocol):
    """Knows what should come out."""

    @property
    def at_least_once(self) -> AtLeastOnce | None:
        """What the family says of rows where records may count twice."""

    @property
    def table_keys(self) -> int:
        """By how many columns the family's sink writes; 0 where it does not write by key."""

    def rows(self, visible: Rows = ()) -> RowCounts:
        """Return the rows for the whole input; ``visible`` are those in which a run says what it chose."""

    def rows_at(self, cut: Cut, visible: Rows = ()) -> RowCounts:
        """Return the rows for the input before a cut, as a run whose rows are ``visible`` has come to it."""

    def versions_at(self, cut: Cut | None) -> Versions:
        """Return what the table shows one after another, for the input before a cut, or the whole."""


class Expecting(Protocol):
    """The part of a family that an oracle needs."""

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the rows that the records should give."""


class PythonOracle:
    """Asks the family's ``expected``."""

    __slots__ = (
        "_declares",
        "_family",
        "_known",
        "_lengths",
        "_records",
        "_versions",
        "at_least_once",
        "table_keys",
    )

    def __init__(self, family: Expecting, scenario: Scenario) -> None:
        self._family = family
        self._records = scenario.records
        options = options_of(family)
        self._declares = options.declares
        self._versions = options.versions
        self.at_least_once = options.at_least_once
        self.table_keys = options.table_keys
        self._lengths = tuple([len(records) for records in scenario.records.values()])
        self._known: dict[tuple[int, ...], RowCounts] = {}

    def rows(self, visible: Rows = ()) -> RowCounts:
        """Return the rows for the whole input."""
        if self._declares:
            return count_rows(self._family.expected(self._records, Declared(visible)))
        return self._rows(self._lengths)

    def rows_at(self, cut: Cut, visible: Rows = ()) -> RowCounts:
        """Return the rows for the input before a cut; a split that the cut does not name is not begun."""
        lengths = tuple([cut.get(split, 0) for split in self._records])
        if self._declares:
            declared = Declared(visible, is_whole=False)
            return count_rows(self._family.expected(self._before(lengths), declared))
        return self._rows(lengths)

    def versions_at(self, cut: Cut | None) -> Versions:
        """Return what the table shows one after another."""
        lengths = self._lengths
        if cut is not None:
            lengths = tuple([cut.get(split, 0) for split in self._records])
        found: dict[Row, list[Row]] = {}
        assert self._versions is not None, "only a table has versions"
        for row in self._versions(self._before(lengths)):
            found.setdefault(row[: self.table_keys], []).append(row)
        return found

    def _rows(self, lengths: tuple[int, ...]) -> RowCounts:
        known = self._known.get(lengths)
        if known is None:
            known = count_rows(self._family.expected(self._before(lengths), NOTHING_DECLARED))
            self._known[lengths] = known
        return known

    def _before(self, lengths: tuple[int, ...]) -> Records:
        if lengths == self._lengths:
            return self._records
        pairs = zip(self._records.items(), lengths, strict=True)
        return {split: all_of_it[:length] for (split, all_of_it), length in pairs}


def count_rows(rows: Iterable[Row]) -> RowCounts:
    """Return a multiset of rows, as a plain dict: comparing two of them is one call into C."""
    return dict(Counter(rows))
