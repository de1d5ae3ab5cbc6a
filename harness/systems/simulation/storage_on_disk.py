"""The simulated checkpoint storage on a disk that loses power: the engine's own storage over simulated calls.

The rules this module lives by:

- Only a scenario with a power cut has a disk, because its calls cost more than a dict. Everywhere else a file
  is durable as it is written.
- A power cut keeps what the engine has synced, and draws what else survives: of file contents, of names, of
  deletions (`disk/volatile_disk.py`). The draws follow from the scenario alone.
- A call of the storage is a step: the power is cut between two calls, not in the middle of one. Cuts between
  any two calls of the operating system are those of real files (`tests/harness/systems/local/power_cuts.py`).
"""

from __future__ import annotations

from random import Random
from typing import Final

from onceproof.engine.runtime.storage import LocalCheckpointStorage, MissingFile
from onceproof.harness.model.chance import derived_seed
from onceproof.harness.systems.simulation.clock import Clock
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage, no_fault
from onceproof.harness.systems.volatile_disk import PowerCut, VolatileDisk

ROOT: Final = "/simulated-disk"
"""There is no such folder: no call reaches the machine."""


class StorageOnDisk(SimulatedStorage):
    """Files in the folder of a disk with a volatile cache."""

    __slots__ = ("_disk", "_power_cuts", "_seed", "_storage", "undeleted")

    def __init__(self, seed: int, clock: Clock) -> None:
        self.fault_of = no_fault
        self._clock = clock
        self._listed_until = {}
        self._disk = VolatileDisk(ROOT)
        self._storage = LocalCheckpointStorage(ROOT, calls=self._disk)
        self._seed = seed
        self._power_cuts = 0
        self.undeleted: set[str] = set()

    @property
    def files(self) -> dict[str, bytes]:  # type: ignore[override]
        """All files as processes see them, by path."""
        return {path: content for path, content in self._disk.live().items() if content is not None}

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises as SimulatedStorage does."""
        self._suffer("read", path)
        try:
            return self._storage.read(path)
        except MissingFile:
            raise self._missing(path) from None

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, and sync it."""
        self._storage.write(path, data)

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store the local file ``source``; link ``earlier`` if it is stored there."""
        self._storage.adopt(path, source, earlier)

    def tear(self, path: str, data: bytes) -> None:
        """Store the first half of a file, as a crash in the middle of a write does."""
        self._storage.write(path, data[: len(data) // 2])

    def paths(self, prefix: str) -> list[str]:
        """Return all paths that begin with ``prefix``, sorted, whatever fault there is."""
        return self._storage.list(prefix)

    def delete(self, path: str) -> None:
        """Delete a file, without a sync; do nothing if it does not exist. Raises StorageUnavailable."""
        self._suffer("deletion", path)
        self._storage.delete(path)

    def exists(self, path: str) -> bool:
        return self._storage.exists(path)

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file, atomically, and sync it. Return False if it exists already."""
        return self._storage.create_exclusive(path, data)

    def make_durable(self, path: str) -> None:
        """Sync the name of a file, which a dead process may not have done."""
        self._storage.make_durable(path)

    def lose_power(self) -> None:
        """Become the disk as it is found after a power cut."""
        self._power_cuts += 1
        before = self.files.keys()
        self._disk.lose_power(PowerCut(Random(derived_seed("power cut", self._seed, self._power_cuts))))
        self.undeleted |= self.files.keys() - before
