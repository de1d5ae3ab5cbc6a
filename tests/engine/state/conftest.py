"""Backends under test: what one holds goes through its stored form into others, of any key groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from engine.key_groups import key_group_of, key_group_range, operator_index
from engine.state.hashmap import HashMapStateBackend
from engine.state.keyed import KeyedStateBackend
from engine.state.snapshot import OperatorSnapshot, TaskSnapshot, decode_task_snapshot, encode_task_snapshot
from engine.types import TypeInformation

MAX_PARALLELISM = 16


class Backends:
    """Makes backends of one kind, and restores them from each other."""

    def __init__(self) -> None:
        self.now = 0
        """What the backends take for the processing time."""

    def make(
        self, *, subtask: int = 0, parallelism: int = 1, key_type: TypeInformation | None = None
    ) -> KeyedStateBackend:
        """A backend without state."""
        key_groups = key_group_range(MAX_PARALLELISM, parallelism, subtask)
        return HashMapStateBackend(MAX_PARALLELISM, key_groups, key_type, lambda: self.now)

    def stored(self, snapshot: Any) -> Any:
        """What a restore receives of a snapshot."""
        encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(snapshot)}))
        return decode_task_snapshot(encoded.data, "file", encoded.sha256)["op"].keyed

    def restored(self, backend: KeyedStateBackend, **settings: Any) -> KeyedStateBackend:
        """A backend for the same key groups that goes on from a snapshot taken now."""
        return self.restored_from(backend.snapshot(), key_type=backend.key_type, **settings)

    def restored_from(
        self, snapshot: Any, key_type: TypeInformation | None = None, **settings: Any
    ) -> KeyedStateBackend:
        """A backend for all key groups that goes on from a snapshot."""
        target = self.make(key_type=key_type)
        target.restore(self.stored(snapshot), **settings)
        return target

    def rescaled(self, backends: Sequence[KeyedStateBackend], parallelism: int) -> list[KeyedStateBackend]:
        """Backends of another parallelism that go on from snapshots of all."""
        files = [self.stored(backend.snapshot()) for backend in backends]
        targets = []
        for subtask in range(parallelism):
            target = self.make(subtask=subtask, parallelism=parallelism, key_type=backends[0].key_type)
            low, high = target.key_group_range
            merged: dict[str, Any] = {}
            for file in files:
                for name, table in file.items():
                    part = table.within(low, high)
                    found = merged.get(name, part)
                    merged[name] = replace(
                        part, counts=found.counts | part.counts, groups=found.groups | part.groups
                    )
            target.restore(merged)
            targets.append(target)
        return targets

    def owner(self, backends: Sequence[KeyedStateBackend], key: Any) -> KeyedStateBackend:
        """The backend that owns a key."""
        group = key_group_of(key, MAX_PARALLELISM, backends[0].key_type)
        return backends[operator_index(MAX_PARALLELISM, len(backends), group)]


@pytest.fixture
def backends() -> Backends:
    return Backends()


@pytest.fixture(scope="session")
def backends_of_each() -> Callable[[], Backends]:
    """For property tests: a new one for each example."""
    return Backends


@pytest.fixture
def at() -> Callable[[KeyedStateBackend, Any], None]:
    """Make a key the current one."""

    def set_key(backend: KeyedStateBackend, key: Any) -> None:
        backend.current_key = key

    return set_key
