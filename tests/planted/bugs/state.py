"""Mutants of snapshot isolation: the snapshot shares objects with the running job.

A snapshot is encoded some time after it was taken. Objects that it shares with live state may have changed by
then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.state.hashmap import HeapMaps
from onceproof.engine.state.operator import OperatorListState
from onceproof.engine.state.snapshot import ListSnapshot
from onceproof.engine.types import TypeInformation
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


@mutant(
    id="FLINK-9269",
    breaks="exactly_once",
    summary="the snapshot of a keyed state is the live table itself",
    families=SMALL_JOBS,
)
def keyed_table_is_not_copied(reached: Reached) -> Iterator[None]:
    """Records that arrive before the snapshot is encoded are in it, and are replayed after a restore."""

    def live(self: TypeInformation, table: dict[Any, Any]) -> dict[Any, Any]:
        if table:
            reached()
        return table

    with replaced(TypeInformation, "copy_table", live):
        yield


@mutant(
    id="keyed-values-are-shared",
    breaks="exactly_once",
    summary="the snapshot of a keyed state copies the table, but not the lists and dicts that are its values",
)
def keyed_values_are_shared(reached: Reached) -> Iterator[None]:
    """It shows only if values are changed in place."""

    def shallow(self: TypeInformation, table: dict[Any, Any]) -> dict[Any, Any]:
        if table and not self.immutable:
            reached()
        return table.copy()

    with replaced(TypeInformation, "copy_table", shallow):
        yield


@mutant(
    id="FLINK-9263",
    breaks="exactly_once",
    summary="the snapshot of an operator's list state shares its list and its elements",
    families=SMALL_JOBS,
)
def operator_state_snapshot_is_shallow(reached: Reached) -> Iterator[None]:
    """Elements that are added or changed before the snapshot is encoded are in it."""

    def shared(self: OperatorListState) -> ListSnapshot:
        if self._elements:
            reached()
        return ListSnapshot(self.name, self.mode, self.element_type, self._elements)

    with replaced(OperatorListState, "snapshot", shared):
        yield


@mutant(
    id="removed-from-the-snapshot-as-well",
    breaks="exactly_once",
    summary="a key that is removed from a map is also removed from a snapshot that shares the map",
    families=("textbook_two_phase_commit",),
)
def removed_from_the_snapshot_as_well(reached: Reached) -> Iterator[None]:
    """What an actor has noted before a barrier and sends behind it is not in the log that is restored."""
    sound = HeapMaps.remove

    def in_place(self: HeapMaps, entry: Any, key: Any) -> None:
        found = self.entries.get(entry, {})
        if key not in found or len(found) == 1:
            sound(self, entry, key)
            return
        if self._own is not None and entry not in self._own:
            reached()
        del found[key]

    with replaced(HeapMaps, "remove", in_place):
        yield
