"""A job's storage as the job sees it: one folder, in which some names lead to other places.

The rules this module lives by:

- The first part of a path decides: where a place is mounted under it, the rest is a path there; else the
  whole path is one in the job's own folder. Every place is a storage of its own, of any kind: a job in a
  folder takes its savepoint to ``s3://``, and one in memory goes on from a folder.
- A place that is mounted is not made: it comes with the first file in it, and goes with the last.
- What is stored in one place is copied to another only from the local file that it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from onceproof.engine.runtime.locations import location, scheme_of
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.runtime.storage import CheckpointStorage, LocalCheckpointStorage


def open_storage(at: str, *, stands_in: bool = False) -> CheckpointStorage:
    """The storage at a place; see LocalCheckpointStorage. Raises StorageError where it cannot be used."""
    return RemoteCheckpointStorage(at) if scheme_of(at) else LocalCheckpointStorage(at, stands_in=stands_in)


class MountedStorage:
    """A storage, and others under names of their own in it."""

    def __init__(self, own: CheckpointStorage, mounts: Mapping[str, str] | None = None) -> None:
        self._own = own
        self.mounts: dict[str, str] = {}
        """By the first part of a path, the place that it leads to."""
        self._mounted: dict[str, CheckpointStorage] = {}
        for name, at in (mounts or {}).items():
            self.mount(name, at)

    @property
    def root(self) -> str:
        """That of the job's own folder."""
        return self._own.root

    def mount(self, name: str, at: str) -> None:
        """Let paths that begin with ``name`` lead to a place."""
        where = self.mounts[name] = location(at)
        self._mounted[name] = open_storage(where, stands_in=True)

    def write(self, path: str, data: bytes) -> None:
        """Write a file durably."""
        storage, there = self._find(path)
        storage.write(there, data)

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store a local file; what was stored of it before helps only in the same place."""
        storage, there = self._find(path)
        if earlier is not None:
            before, earlier = self._find(earlier)
            if before is not storage:
                earlier = None
        storage.adopt(there, source, earlier)

    def publish(self, path: str, data: bytes) -> None:
        """Write a file durably, so that it is seen whole or not at all."""
        storage, there = self._find(path)
        storage.publish(there, data)

    def read(self, path: str) -> bytes:
        """Give the content of a file."""
        storage, there = self._find(path)
        return storage.read(there)

    def delete(self, path: str) -> None:
        """Delete a file."""
        storage, there = self._find(path)
        storage.delete(there)

    def list(self, prefix: str) -> list[str]:
        """Give the paths of all files that begin with ``prefix``, sorted; all in the same place."""
        storage, there = self._find(prefix)
        if storage is self._own:
            return storage.list(prefix)
        name = prefix.partition("/")[0]
        return [f"{name}/{path}" for path in storage.list(there)]

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        storage, there = self._find(path)
        return storage.exists(there)

    def create_exclusive(self, path: str) -> bool:
        """Create an empty file durably; False where it exists already."""
        storage, there = self._find(path)
        return storage.create_exclusive(there)

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the job's own folder."""
        return self._own.exclusive()

    def place_of(self, path: str) -> str:
        """Where a file lies, for messages."""
        storage, there = self._find(path)
        return storage.place_of(there)

    def _find(self, path: str) -> tuple[CheckpointStorage, str]:
        name, slash, rest = path.partition("/")
        if slash and name in self._mounted:
            return self._mounted[name], rest
        return self._own, path
