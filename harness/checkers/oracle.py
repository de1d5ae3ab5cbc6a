"""The rows that a scenario should commit, computed by its family's ``expected`` without the engine.

The rules this module lives by:

- Rows are a multiset: exactly-once constrains how often a row is visible. Their order counts only where the
  family says so (``comparisons``); they are counted in the order in which ``expected`` returns them.
- The oracle sees the records and what the run declared about its own choices, never the engine.
- The rows for each cut are computed once. consistent_cut asks for the cut of each checkpoint; the last cut is
  the end of the input, for which exactly_once asks again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from onceproof.harness.checkers.declared_rows import DeclaredRows, SupportsExpected
from onceproof.harness.model.close_rows import comparisons_of
from onceproof.harness.model.columns import Comparisons
from onceproof.harness.model.family import (
    NOTHING_DECLARED,
    AtLeastOnce,
    Records,
    Rows,
    options_of,
)
from onceproof.harness.model.history import Cut, History, Row
from onceproof.harness.model.scenario import Scenario

RowCounts: TypeAlias = Mapping[Row, int]
"""A multiset: each row with its number of occurrences."""
Versions: TypeAlias = Mapping[Row, Sequence[Row]]
"""By key, its rows in the order in which each replaces the one before."""
Answers: TypeAlias = Callable[[Row], object]
MayRepeat: TypeAlias = Callable[[Row], bool]


class Oracle(Protocol):
    """Computes the rows that a run of a scenario should commit."""

    @property
    def at_least_once(self) -> AtLeastOnce | None:
        """What the family says about its rows when records count twice; see :data:`AtLeastOnce`."""

    @property
    def answers(self) -> Answers | None:
        """What the family says that an attempt answers once at most; see ``FamilyOptions.answers``."""

    @property
    def may_repeat(self) -> MayRepeat | None:
        """What the family says of rows that may come again; see ``FamilyOptions.may_repeat``."""

    @property
    def comparisons(self) -> Comparisons:
        """How the rows of the family's outputs are compared."""

    @property
    def is_drawn(self) -> bool:
        """See ``FamilyOptions.draws_graphs``."""

    @property
    def table_keys(self) -> int:
        """The number of key columns of the family's sink; 0 if it does not write by key."""

    def rows(self, visible: Rows = (), history: History | None = None) -> RowCounts:
        """Return the rows for the whole input.

        Args:
            visible: the rows that the run committed; a family that ``declares`` reads its choices from them.
            history: the run, which says where it resumed and so which records may be late; None if it is not
                known.
        """

    def rows_at(
        self, cut: Cut, visible: Rows = (), history: History | None = None, checkpoint: int | None = None
    ) -> RowCounts:
        """Return the rows for the input before a cut.

        Args:
            cut: the next offset of each split; a split that it does not name has not begun.
            visible: the rows that the run has committed so far.
            history: the run, if it is known.
            checkpoint: the checkpoint in it whose cut it is.
        """

    def versions_at(self, cut: Cut | None) -> Versions:
        """Return by key the rows that the table shows one after another.

        Args:
            cut: the next offset of each split, or None for the whole input.
        """


class PythonOracle:
    """The oracle of one scenario, computed by its family's ``expected``."""

    __slots__ = (
        "_cache",
        "_declared",
        "_family",
        "_lengths",
        "_records",
        "_versions",
        "_written_at_end",
        "answers",
        "at_least_once",
        "comparisons",
        "is_drawn",
        "may_repeat",
        "table_keys",
    )

    def __init__(self, family: SupportsExpected, scenario: Scenario) -> None:
        self._family = family
        self._records = scenario.records
        options = options_of(family)
        self._declared = DeclaredRows(family, scenario, options) if options.declares else None
        self._versions = options.versions
        self._written_at_end = options.written_at_end
        self.answers = options.answers
        self.is_drawn = options.draws_graphs
        self.at_least_once = options.at_least_once
        self.may_repeat = options.may_repeat
        self.comparisons = comparisons_of(family)
        self.table_keys = options.table_keys
        self._lengths = tuple([len(records) for records in scenario.records.values()])
        self._cache: dict[tuple[int, ...], RowCounts] = {}
        """By the number of records of each split, the rows for them."""

    def rows(self, visible: Rows = (), history: History | None = None) -> RowCounts:
        """Return the rows for the whole input."""
        if self._declared is not None:
            # A job that has ended before its input holds rows back, as one at a cut does.
            is_whole = history is None or history.has_finished
            return self._declared.rows(self._records, visible, history, None, is_whole)
        return self._rows(self._lengths)

    def rows_at(
        self, cut: Cut, visible: Rows = (), history: History | None = None, checkpoint: int | None = None
    ) -> RowCounts:
        """Return the rows for the input before a cut."""
        lengths = tuple([cut.get(split, 0) for split in self._records])
        if self._declared is not None:
            return self._declared.rows(self._before(lengths), visible, history, checkpoint, False)
        return self._rows(lengths)

    def versions_at(self, cut: Cut | None) -> Versions:
        """Return by key the rows that the table shows one after another; before a cut: must have shown."""
        lengths = self._lengths
        if cut is not None:
            if self._written_at_end:
                return {}
            lengths = tuple([cut.get(split, 0) for split in self._records])
        found: dict[Row, list[Row]] = {}
        assert self._versions is not None, "only a table has versions"
        for row in self._versions(self._before(lengths)):
            found.setdefault(row[: self.table_keys], []).append(row)
        return found

    def judge(self, visible: Rows, history: History) -> str:
        """Return who says what the run should have committed; "" where that is ``expected`` always."""
        return "" if self._declared is None else self._declared.judge(self._records, visible, history)

    def _rows(self, lengths: tuple[int, ...]) -> RowCounts:
        rows = self._cache.get(lengths)
        if rows is None:
            rows = count_rows(self._family.expected(self._before(lengths), NOTHING_DECLARED))
            self._cache[lengths] = rows
        return rows

    def _before(self, lengths: tuple[int, ...]) -> Records:
        if lengths == self._lengths:
            return self._records
        pairs = zip(self._records.items(), lengths, strict=True)
        return {split: records[:length] for (split, records), length in pairs}


def count_rows(rows: Iterable[Row]) -> RowCounts:
    """Return the multiset of some rows, as a plain dict: two of them are compared by one call into C."""
    return dict(Counter(rows))
