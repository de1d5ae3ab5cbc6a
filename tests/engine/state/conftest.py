"""Backends under test: what one holds goes through its stored form into others, of any range and kind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.checkpoint.redistribution import RestoredState, Vertex, read_assignment, redistribute
from onceproof.engine.checkpoint.snapshot_files import store_snapshot
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.key_groups import key_group_of, key_group_range, operator_index
from onceproof.engine.runtime.storage import MemoryCheckpointStorage
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot
from onceproof.engine.types import TypeInformation

MAX_PARALLELISM = 16

KINDS = ("hashmap", "rocksdb", "rocksdb after hashmap", "hashmap after rocksdb")
"""What restores after what has stored: the same backend, or the other one."""


class Backends:
    """Makes backends, and restores them from each other as a job does."""

    def __init__(self, kind: str = "hashmap", directory: str | None = None) -> None:
        self.first, _, before = kind.partition(" after ")
        self.restoring = self.first
        self.first = before or self.first
        self.settings = StateBackendSettings(
            "rocksdb", directory, block_cache_bytes=1 << 20, write_buffer_bytes=1 << 20
        )
        self.now = 0
        """What the backends take for the processing time."""
        self.storage = MemoryCheckpointStorage()
        self._checkpoints = 0

    def make(
        self,
        *,
        subtask: int = 0,
        parallelism: int = 1,
        key_type: TypeInformation | None = None,
        kind: str | None = None,
    ) -> KeyedStateBackend:
        """A backend without state."""
        key_groups = key_group_range(MAX_PARALLELISM, parallelism, subtask)
        common = (MAX_PARALLELISM, key_groups, key_type, lambda: self.now)
        if (kind or self.first) == "hashmap":
            return HashMapStateBackend(*common)
        return RocksDBStateBackend(*common, self.settings)

    def store(self, snapshot: Any) -> StateHandle:
        """A snapshot as files."""
        self._checkpoints += 1
        path = f"chk-{self._checkpoints}/op"
        return store_snapshot(self.storage, path, TaskSnapshot({"op": OperatorSnapshot(snapshot)}))

    def stored(self, *snapshots: Any, parallelism: int = 1) -> list[RestoredState]:
        """What each subtask of a restore receives of the snapshots of all subtasks."""
        subtasks = tuple([SubtaskState(self.store(snapshot), False) for snapshot in snapshots])
        operator = OperatorMetadata("op", "op", "op", len(subtasks), MAX_PARALLELISM, subtasks)
        checkpoint = CheckpointMetadata(1, "job", "job", 0, "checkpoint", "1.1", (operator,))
        dealt = redistribute(checkpoint, [Vertex("op", parallelism, MAX_PARALLELISM, True)])
        return [read_assignment(dealt["op", subtask], self.storage.read) for subtask in range(parallelism)]

    def restored(self, backend: KeyedStateBackend, **settings: Any) -> KeyedStateBackend:
        """A backend for the same key groups that goes on from a snapshot taken now."""
        return self.restored_from(backend.snapshot(), key_type=backend.key_type, **settings)

    def restored_from(
        self, snapshot: Any, key_type: TypeInformation | None = None, **settings: Any
    ) -> KeyedStateBackend:
        """A backend for all key groups that goes on from a snapshot."""
        target = self.make(key_type=key_type, kind=self.restoring)
        (state,) = self.stored(snapshot)
        target.restore(state.keyed, state.native, **settings)
        return target

    def rescaled(self, backends: Sequence[KeyedStateBackend], parallelism: int) -> list[KeyedStateBackend]:
        """Backends of another parallelism that go on from snapshots of all, and replace them."""
        states = self.stored(*[backend.snapshot() for backend in backends], parallelism=parallelism)
        targets = []
        for subtask, state in enumerate(states):
            target = self.make(
                subtask=subtask,
                parallelism=parallelism,
                key_type=backends[0].key_type,
                kind=self.restoring,
            )
            target.restore(state.keyed, state.native)
            targets.append(target)
        for backend in backends:
            backend.close()
        # Every other restore is by the other backend, where two take turns.
        self.first, self.restoring = self.restoring, self.first
        return targets

    def owner(self, backends: Sequence[KeyedStateBackend], key: Any) -> KeyedStateBackend:
        """The backend that owns a key."""
        group = key_group_of(key, MAX_PARALLELISM, backends[0].key_type)
        return backends[operator_index(MAX_PARALLELISM, len(backends), group)]


@pytest.fixture(scope="session")
def directory() -> Iterator[str]:
    """Where databases lie: in memory where the machine has such a folder, as disks are slow at it."""
    shared_memory = Path("/dev/shm")
    parent = str(shared_memory) if os.access(shared_memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="onceproof-tests-", dir=parent) as path:
        yield path


@pytest.fixture(params=KINDS)
def backends(request: pytest.FixtureRequest, directory: str) -> Backends:
    return Backends(request.param, directory)


@pytest.fixture
def heap() -> Backends:
    """Backends in memory, for what only they do."""
    return Backends("hashmap")


@pytest.fixture
def database(directory: str) -> Backends:
    """Backends on disk, for what only they do."""
    return Backends("rocksdb", directory)


@pytest.fixture(scope="session", params=KINDS)
def backends_of_each(request: pytest.FixtureRequest, directory: str) -> Callable[[], Backends]:
    """For property tests: a new one for each example."""
    return lambda: Backends(request.param, directory)


@pytest.fixture
def at() -> Callable[[KeyedStateBackend, Any], None]:
    """Make a key the current one."""

    def set_key(backend: KeyedStateBackend, key: Any) -> None:
        backend.current_key = key

    return set_key
