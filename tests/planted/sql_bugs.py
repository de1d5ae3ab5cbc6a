"""Planted bugs in stateful nodes of tables, found by the scripts of ``scenarios/sql``.

They are no theme of the catalogue: its runs measure the built-in families, which scripts are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from onceproof.engine.table.nodes.group_aggregate import Groups
from onceproof.engine.table.nodes.join import RegularJoin
from onceproof.engine.table.nodes.top_n_updates import RetractedTopN
from onceproof.engine.table.values import ADDS
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

_SCRIPTS: Final = Path(__file__).parents[2] / "scenarios" / "sql"
TOTALS: Final = str(_SCRIPTS / "totals.sql")
LEADERS: Final = str(_SCRIPTS / "leaders.sql")


@mutant(
    id="restored-rank-loses-a-retraction",
    breaks="exactly_once",
    summary="the first change that a restored rank gets is dropped where it retracts a row",
    families=(LEADERS,),
)
def restored_rank_loses_a_retraction(reached: Reached) -> Iterator[None]:
    """Without a restore the first change of a rank adds a row."""
    process = RetractedTopN.process

    def forgetting(self: Any, kind: int, row: Any, emit: Any) -> None:
        is_first = not getattr(self, "has_begun", False)
        self.has_begun = True
        if is_first and not ADDS[kind]:
            reached()
            return
        process(self, kind, row, emit)

    with replaced(RetractedTopN, "process", forgetting):
        yield


@mutant(
    id="rank-keeps-only-rows-in-range",
    breaks="exactly_once",
    summary="a rank over changes keeps no more rows than it shows, so none moves up when one leaves",
    families=(LEADERS,),
)
def rank_keeps_only_rows_in_range(reached: Reached) -> Iterator[None]:
    """The sort keys beyond the range are cut off."""
    process = RetractedTopN.process

    def cutting(self: Any, kind: int, row: Any, emit: Any) -> None:
        process(self, kind, row, emit)
        tree, kept = self._tree.value() or [], 0
        for place, (_, count) in enumerate(tree):
            kept += count
            if kept >= self.spec.size and place + 1 < len(tree):
                reached()
                for key, _ in tree[place + 1 :]:
                    self._data.remove(key)
                self._tree.update(tree[: place + 1])
                return

    with replaced(RetractedTopN, "process", cutting):
        yield


@mutant(
    id="join-forgets-right-rows-that-met-nothing",
    breaks="exactly_once",
    summary="a join does not keep a right row that no left row has met yet",
    families=(LEADERS,),
)
def join_forgets_right_rows(reached: Reached) -> Iterator[None]:
    """A left row that comes later finds nothing."""
    process = RegularJoin.process_second

    def forgetting(self: Any, kind: int, row: Any, emit: Any) -> None:
        process(self, kind, row, emit)
        if ADDS[kind] and not self._of_right(row):
            reached()
            self._right.retract(row)

    with replaced(RegularJoin, "process_second", forgetting):
        yield


@mutant(
    id="restored-group-begins-anew",
    breaks="exactly_once",
    summary="an aggregate takes the first group that it meets after a restore for a new one",
    families=(TOTALS,),
)
def restored_group_begins_anew(reached: Reached) -> Iterator[None]:
    """What was added before the restore is not in its results."""
    stored = Groups.stored

    def forgetting(self: Any) -> Any:
        group = stored(self)
        is_first = not getattr(self, "has_begun", False)
        self.has_begun = True
        if group is not None and is_first:
            reached()
            return None
        return group

    with replaced(Groups, "stored", forgetting):
        yield
