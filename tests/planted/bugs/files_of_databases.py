"""Mutants of databases: files that checkpoints share, and reads that do not see what was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry, UnknownSharedFile
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.state.rocksdb.database_tables import MapTable
from onceproof.engine.state.snapshot import KeyedSnapshot, NativeSnapshot
from onceproof.engine.state.stored import StateFile
from onceproof.engine.task.events import TaskEffect, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.engine.types import TypeInformation
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="slow-snapshot-names-files-deleted-meanwhile",
    origin="SPARK-55892",
    breaks="no_error",
    summary="a checkpoint refers to a shared file that was deleted after its snapshot had been taken",
    unseen="needs two checkpoints at a time of a database that merges its files, which is rare",
)
def slow_snapshot_names_files_deleted_meanwhile(reached: Reached) -> Iterator[None]:
    """The file was unused when the snapshot was stored, and it is not looked for again."""
    unregister, placed = SharedStateRegistry.unregister_unused, SharedStateRegistry.placed
    deleted: dict[str, str] = {}

    def remembering(self: SharedStateRegistry, lowest_checkpoint_id: int) -> list[str]:
        before = {content: entry.path for content, entry in self._entries.items()}
        unused = unregister(self, lowest_checkpoint_id)
        deleted.update({content: path for content, path in before.items() if content not in self._entries})
        return unused

    def where_it_was(self: SharedStateRegistry, file: StateFile) -> StateFile:
        try:
            return placed(self, file)
        except UnknownSharedFile:
            if file.sha256 not in deleted:
                raise
            reached()
            return replace(file, path=deleted[file.sha256])

    with (
        replaced(SharedStateRegistry, "unregister_unused", remembering),
        replaced(SharedStateRegistry, "placed", where_it_was),
    ):
        yield


@mutant(
    id="uploads-known-over-a-restore",
    origin="SPARK-47036",
    breaks="exactly_once",
    summary="a database that went back takes a new file for one of that name, uploaded before it went back",
)
def uploads_known_over_a_restore(reached: Reached) -> Iterator[None]:
    """Its numbers of files begin again where the restored checkpoint had them."""
    keyed_backend, snapshot = OperatorContext.keyed_backend, RocksDBStateBackend.snapshot
    running: dict[Any, RocksDBStateBackend] = {}
    former: dict[int, tuple[RocksDBStateBackend, dict[str, Any]]] = {}
    taken: dict[int, list[NativeSnapshot]] = {}

    def resumed(self: OperatorContext, key_type: TypeInformation | None) -> KeyedStateBackend:
        backend = keyed_backend(self, key_type)
        if not isinstance(backend, RocksDBStateBackend) or not backend._settings.incremental:
            return backend
        process = self.attempt.partition(".")[0]
        place = process, self.operator_id, self.subtask, self.parallelism
        before = running.get(place)
        running[place] = backend
        if before is not None:
            uploaded = dict(before._stored_files)
            for each in taken.get(id(before), ()):
                uploaded.update(each.stored)
            stale = {name: file for name, file in uploaded.items() if name not in backend._stored_files}
            former[id(backend)] = backend, stale
            backend._stored_files = {**stale, **backend._stored_files}
        return backend

    def taking(self: RocksDBStateBackend, checkpoint_id: int | None = None) -> KeyedSnapshot | NativeSnapshot:
        made = snapshot(self, checkpoint_id)
        if isinstance(made, NativeSnapshot):
            taken.setdefault(id(self), []).append(made)
            stale = former[id(self)][1] if id(self) in former else {}
            if any(name in stale and made.known.get(name) is stale[name] for name in made.checkpoint.tables):
                reached()
        return made

    with (
        replaced(OperatorContext, "keyed_backend", resumed),
        replaced(RocksDBStateBackend, "snapshot", taking),
    ):
        yield


@mutant(
    id="map-is-read-as-it-was-before-the-batch",
    origin="SPARK-38684",
    breaks="exactly_once",
    summary="who goes through a map in a database again within a batch does not see what was written since",
)
def map_is_read_as_it_was_before_the_batch(reached: Reached) -> Iterator[None]:
    """One iterator serves a batch, and it shows the database as of when it was made."""
    handle, items = Task.handle, MapTable.items
    seen: dict[tuple[int, Any], list[tuple[Any, Any]]] = {}

    def in_a_batch(self: Task, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        seen.clear()
        return handle(self, event, now)

    def as_of_the_first_time(self: MapTable, entry: Any) -> list[tuple[Any, Any]]:
        place = id(self), entry
        now = items(self, entry)
        if seen.setdefault(place, now) != now:
            reached()
        return list(seen[place])

    with replaced(Task, "handle", in_a_batch), replaced(MapTable, "items", as_of_the_first_time):
        yield
