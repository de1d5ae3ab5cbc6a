"""Mutants of databases: a snapshot holds other state than its task, or files are deleted that are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from onceproof.engine.checkpoint import snapshot_files
from onceproof.engine.checkpoint.snapshot_files import SnapshotStorage
from onceproof.engine.state.descriptors import LIST, MAP
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.state.snapshot import KeyedSnapshot, NativeSnapshot, TaskSnapshot
from onceproof.engine.state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

ROUNDED_TO_MS: Final = 10


@mutant(
    id="timers-in-databases-are-rounded",
    breaks="state_equivalence",
    summary="the snapshot of a database holds the times of timers in hundredths of a second",
    on_databases=True,
    families=("page_windows", "percentiles", "alarms", "visits"),
)
def timers_in_databases_are_rounded(reached: Reached) -> Iterator[None]:
    """The timers that run are right; those of a restored job fire at other times."""
    snapshot = RocksDBStateBackend.snapshot

    def rounding(
        self: RocksDBStateBackend, checkpoint_id: int | None = None
    ) -> KeyedSnapshot | NativeSnapshot:
        moved: list[tuple[Any, Any, Any]] = []
        for name, registered in self._registered.items():
            if not name.startswith((EVENT_TIMERS, PROCESSING_TIMERS)):
                continue
            for entry in list(registered.table):
                rounded = _rounded(entry)
                if rounded != entry and rounded not in registered.table:
                    reached()
                    del registered.table[entry]
                    registered.table[rounded] = True
                    moved.append((registered.table, entry, rounded))
        try:
            return snapshot(self, checkpoint_id)
        finally:
            for table, entry, rounded in moved:
                del table[rounded]
                table[entry] = True

    with replaced(RocksDBStateBackend, "snapshot", rounding):
        yield


def _rounded(entry: Any) -> Any:
    key, timer = entry
    if isinstance(timer, tuple):
        return key, (timer[0] - timer[0] % ROUNDED_TO_MS, *timer[1:])
    return key, timer - timer % ROUNDED_TO_MS


@mutant(
    id="last-pair-of-a-map-is-not-in-the-snapshot",
    breaks="state_equivalence",
    summary="the snapshot of a database lacks the last pair of each map that has several",
    on_databases=True,
    families=("average_by_map", "page_windows", "rich_functions"),
)
def last_pair_of_a_map_is_not_in_the_snapshot(reached: Reached) -> Iterator[None]:
    """The end of a range of keys is taken for exclusive."""
    snapshot = RocksDBStateBackend.snapshot

    def lacking(
        self: RocksDBStateBackend, checkpoint_id: int | None = None
    ) -> KeyedSnapshot | NativeSnapshot:
        removed: list[tuple[Any, Any, Any, Any]] = []
        for registered in self._registered.values():
            if registered.kind != MAP:
                continue
            table = registered.table
            for entry in list(table):
                pairs = table.items(entry)
                if len(pairs) > 1:
                    reached()
                    table.remove(entry, pairs[-1][0])
                    removed.append((table, entry, *pairs[-1]))
        try:
            return snapshot(self, checkpoint_id)
        finally:
            for table, entry, key, value in removed:
                table.put(entry, key, value)

    with replaced(RocksDBStateBackend, "snapshot", lacking):
        yield


@mutant(
    id="lists-in-databases-are-sorted",
    breaks="state_equivalence",
    summary="the snapshot of a database holds the elements of lists in the order of their text",
    on_databases=True,
    families=("average_by_list", "percentiles"),
)
def lists_in_databases_are_sorted(reached: Reached) -> Iterator[None]:
    """No row of these families shows it: what they compute has no order."""
    snapshot = RocksDBStateBackend.snapshot

    def sorting(
        self: RocksDBStateBackend, checkpoint_id: int | None = None
    ) -> KeyedSnapshot | NativeSnapshot:
        changed: list[tuple[Any, Any, list[Any]]] = []
        for registered in self._registered.values():
            if registered.kind != LIST:
                continue
            table = registered.table
            for entry in list(table):
                elements = table.get(entry)
                in_order = sorted(elements, key=repr)
                if in_order != elements:
                    reached()
                    table.put(entry, in_order)
                    changed.append((table, entry, elements))
        try:
            return snapshot(self, checkpoint_id)
        finally:
            for table, entry, elements in changed:
                table.put(entry, elements)

    with replaced(RocksDBStateBackend, "snapshot", sorting):
        yield


@mutant(
    id="failed-upload-deletes-what-it-refers-to",
    origin="FLINK-25395",
    breaks="no_error",
    summary="a task whose upload failed deletes the shared files that its snapshot refers to, with its own",
    on_databases=True,
)
def failed_upload_deletes_what_it_refers_to(reached: Reached) -> Iterator[None]:
    """They belong to the last complete checkpoint."""
    delete = snapshot_files.delete_unstored

    def with_all_its_files(storage: SnapshotStorage, path: str, snapshot: TaskSnapshot) -> None:
        delete(storage, path, snapshot)
        for operator in snapshot.operators.values():
            known = operator.keyed.known if isinstance(operator.keyed, NativeSnapshot) else {}
            for file in known.values():
                if file.is_shared and file.path:
                    reached()
                    with suppress(OSError):
                        storage.delete(file.path)

    with replaced(snapshot_files, "delete_unstored", with_all_its_files):
        yield
