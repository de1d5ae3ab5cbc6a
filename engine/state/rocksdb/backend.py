"""The keyed backend with tables in a database on disk (Flink: EmbeddedRocksDBStateBackend).

The rules this module lives by:

- The database is opened when the first state is registered or restored. The descriptions of all its states
  go into every snapshot, including states that the job no longer registers.
- The synchronous part of a snapshot is RocksDB's own checkpoint: it flushes memory and links the files.
- SST files that the last completed checkpoint has stored are not read again for their checksum; with
  incremental checkpoints they are not stored again either, so each checkpoint costs what has changed.
- A restore opens the largest of the stored databases, deletes key groups of other subtasks, and copies the
  own key groups of the other databases into it. Tables of a hashmap backend are written into it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.state.descriptors import LIST, MAP
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.key_blocks import KeyGroupCache
from onceproof.engine.state.keyed import KeyedStateBackend, Registered, unit_of
from onceproof.engine.state.restoring import Reader, check_stored, no_clock
from onceproof.engine.state.rocksdb.database_tables import (
    REMEMBERED_ENTRIES,
    DatabaseTable,
    ElementNumbers,
    ListTable,
    MapTable,
    ValueTable,
)
from onceproof.engine.state.rocksdb.databases import OpenDatabase
from onceproof.engine.state.rocksdb.layout import EntryLayout, Keys
from onceproof.engine.state.rocksdb.transfer import (
    clip,
    export_checkpoint,
    given_or_rocksdb,
    import_table,
    merge,
    open_part,
)
from onceproof.engine.state.snapshot import KeyedSnapshot, NativeSnapshot
from onceproof.engine.state.stored import EncodedTable, NativePart, TableDescription
from onceproof.engine.state.ttl_states import Cleanup, TtlState
from onceproof.engine.types import TypeInformation
from onceproof.engine.types.composite import MapType
from onceproof.engine.types.evolution import migration_of


class RocksDBStateBackend(KeyedStateBackend):
    """Keyed state in a database (Flink: RocksDBKeyedStateBackend)."""

    __slots__ = (
        "_database",
        "_descriptions",
        "_keys",
        "_sequence",
        "_settings",
        "_snapshots",
        "_stored_files",
    )

    def __init__(
        self,
        max_parallelism: int,
        key_group_range: tuple[int, int],
        key_type: TypeInformation | None = None,
        clock: Callable[[], int] | None = None,
        settings: StateBackendSettings | None = None,
    ) -> None:
        super().__init__(max_parallelism, key_group_range, key_type, clock)
        self._settings = StateBackendSettings() if settings is None else settings
        self._keys = Keys(self.key_type, max_parallelism)
        self._sequence = ElementNumbers()
        self._database: OpenDatabase | None = None
        self._descriptions: dict[str, TableDescription] = {}
        """The descriptions of all states in the database, registered or not."""
        self._snapshots: dict[int, NativeSnapshot | None] = {}
        self._stored_files: dict[str, Any] = {}
        """The SST files that the last completed checkpoint has stored, by name."""

    def restore(
        self,
        encoded: Mapping[str, EncodedTable],
        native: Sequence[NativePart] = (),
        *,
        allow_pickle: bool = False,
    ) -> None:
        """Take over the databases as they are, and the tables of a hashmap backend by entry."""
        self.allow_pickle = allow_pickle
        low, high = self.key_group_range
        if native:
            self._take_over(native)
        for name, table in encoded.items():
            own = table.within(low, high)
            self._describe(name, own.described())
            import_table(self._opened(), name, own, self.max_parallelism, self._sequence)

    def snapshot(self, checkpoint_id: int | None = None) -> KeyedSnapshot | NativeSnapshot:
        """Flush memory, and link the files of the database."""
        database = self._database
        if database is None or database.is_empty:
            if checkpoint_id is not None:
                # This checkpoint refers to no file, so it does not keep earlier files stored.
                self._snapshots[checkpoint_id] = None
            return KeyedSnapshot(self.max_parallelism, self.key_type, [], {}, KeyGroupCache())
        descriptions = dict(self._descriptions)
        files = database.checkpoint()
        exported = partial(
            export_checkpoint,
            files,
            descriptions,
            self.key_group_range,
            self.max_parallelism,
            self._settings,
            self.databases,
        )
        taken = NativeSnapshot(
            descriptions,
            self._sequence.next,
            files,
            self._known_files,
            exported,
            self._settings.incremental,
            self._keys.merges_equal,
        )
        if checkpoint_id is not None:
            self._snapshots[checkpoint_id] = taken
        return taken

    @property
    def _known_files(self) -> dict[str, Any]:
        """The SST files, by name, that stay stored until a snapshot taken now has completed.

        While a checkpoint of an empty database is pending there are none: once it completes, no retained
        checkpoint refers to the files any more.
        """
        return {} if None in self._snapshots.values() else self._stored_files

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Remember which files the checkpoint has stored, and forget older checkpoints."""
        if checkpoint_id in self._snapshots:
            completed = self._snapshots[checkpoint_id]
            self._stored_files = {} if completed is None else completed.stored
        self._snapshots = {number: each for number, each in self._snapshots.items() if number > checkpoint_id}

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the checkpoint: the coordinator deletes its files."""
        self._snapshots.pop(checkpoint_id, None)

    def close(self) -> None:
        """Close the database and remove its folder."""
        if self._database is not None:
            self._database.close()

    def _opened(self) -> OpenDatabase:
        if self._database is None:
            self._database = given_or_rocksdb(self.databases).fresh(self._settings)
        return self._database

    def _take_over(self, parts: Sequence[NativePart]) -> None:
        """Open the largest of the stored databases, and copy the others into it."""
        base = max(parts, key=NativePart.length)
        database = self._database = open_part(base, self._settings, False, self.databases)
        clip(database, base.low, base.high)
        self._stored_files = {
            name: file
            for name, file in base.files.items()
            if file.is_shared or not self._settings.incremental
        }
        if any(part.state.merges_equal_keys for part in parts):
            # Its keys do not tell the numbers apart, so the job that goes on with it does not either.
            self._keys = Keys(self.key_type, self.max_parallelism, merges_equal=True)
        for part in parts:
            for name, table in part.state.tables.items():
                self._describe(name, table)
            self._sequence.next = max(self._sequence.next, part.state.next_sequence)
            if part is not base:
                merge(database, part, self._settings, self.databases)

    def _describe(self, name: str, table: TableDescription) -> None:
        if self._descriptions.setdefault(name, table) != table:
            raise StateError(
                f"state {name!r} has another type in one file of the checkpoint than in another: "
                "restore another checkpoint"
            )

    def _open_table(self, registered: Registered) -> DatabaseTable:
        name = registered.name
        reader: Reader | None = None
        if name in self._descriptions:
            stored = self._descriptions[name]
            reader = check_stored(stored, registered, self.key_type, self.allow_pickle, self._clock)
        namespace = registered.namespace_type
        layout = EntryLayout(name, registered.kind, self._keys, namespace)
        low, high = self.key_group_range
        limit = REMEMBERED_ENTRIES // (len(self._registered) + 1)
        stored_type = registered.stored_type
        unit = unit_of(registered.kind, stored_type)
        common = (self._opened(), layout, unit, range(low, high + 1), limit, self.allow_pickle)
        table: DatabaseTable
        if registered.kind == LIST:
            table = ListTable(self._sequence, *common)
        elif registered.kind == MAP:
            assert isinstance(stored_type, MapType)
            table = MapTable(stored_type.key, *common)
        else:
            table = ValueTable(*common)
        if reader is not None and reader.migrate is not None:
            before, after = unit_of(registered.kind, reader.kind), unit
            way = migration_of(before, after, self._clock or no_clock)
            if way is not None:
                table.rewrite(table.decoder_of(before), way)
        self._descriptions[name] = TableDescription(
            registered.kind,
            self.key_type.descriptor,
            stored_type.descriptor,
            None if namespace is None else namespace.descriptor,
        )
        return table

    def _begin_cleanup(self, registered: Registered, state: TtlState) -> None:
        assert registered.ttl is not None
        assert registered.lifetime is not None
        strategy = registered.ttl.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy()
        if strategy is None:
            return
        entries = strategy.get_query_time_after_num_entries()
        table: DatabaseTable = registered.table
        registered.cleanup = Cleanup(table.next_entries, state.drop_expired, entries, entries)
        registered.lifetime.accessed = registered.cleanup.access
