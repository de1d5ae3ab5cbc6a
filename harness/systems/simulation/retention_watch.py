"""Watches that the checkpoint directory holds what the job must keep, at random moments and at rest.

The rules this module lives by:

- A checkpoint must be there until as many newer ones are complete as the job retains. Savepoints do not
  count; each must be there for ever, unless the job has claimed it.
- The directory is looked at when a checkpoint is triggered, and when the job has ended and not yet deleted
  its checkpoints: between the completion of a checkpoint and that, the job deletes what it replaces.
- Each look finds the files that are gone. A run whose checkpoints are restored later keeps the directory of
  the last look at which a checkpoint had to be there, which lacks whatever was deleted too early before.
- Metadata that the job does not know of yet (their writer is dead) count as a completed checkpoint.
- When the job goes on from a savepoint, it need not keep what was before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import CHECKPOINT, SYNC_SAVEPOINT
from onceproof.engine.runtime.checkpoint_history import HISTORY, recorded_starting_point
from onceproof.engine.runtime.recovery import METADATA, files_of, metadata_path
from onceproof.engine.runtime.starting_point import STARTING_POINT, StartingPoint
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage

_METADATA: Final = re.compile(r"chk-(\d+)/_metadata")
_RECORDS: Final = (HISTORY, STARTING_POINT)


class RetentionWatch:
    """Watches the checkpoint directory of one run."""

    __slots__ = (
        "_complete",
        "_last_seen",
        "_lost",
        "_retained",
        "_starting_point",
        "_storage",
        "keeps_files",
    )

    def __init__(self, storage: SimulatedStorage, retained: int) -> None:
        """Watch for a job that retains so many checkpoints."""
        self.keeps_files = False
        """Whether each look keeps the directory for later restores."""
        self._storage = storage
        self._retained = retained
        self._complete: list[tuple[CheckpointMetadata, Sequence[str]]] = []
        """The checkpoints since the job began from nothing or a savepoint, latest last, with their files."""
        self._starting_point: StartingPoint | None = None
        self._last_seen: dict[int, Mapping[str, bytes]] = {}
        self._lost: set[str] = set()

    def completed(self, metadata: CheckpointMetadata) -> None:
        """Take note of a complete checkpoint or savepoint."""
        self._forget_before_starting_point()
        begins_from = self._starting_point
        if begins_from is not None and metadata.checkpoint_id <= begins_from.last_id:
            # The savepoint from which the job begins, found by a new process, is not among its checkpoints.
            return
        if metadata.kind == CHECKPOINT:
            self._complete.append((metadata, needed_files(metadata)))
        elif metadata.kind == SYNC_SAVEPOINT:
            # The job ends with it, and what comes after begins from it.
            self._complete.clear()

    def look(self) -> Iterator[str]:
        """Yield the files of checkpoints that must be there now and are not, each once in a run."""
        self._forget_before_starting_point()
        due = self._due()
        files = self._storage.files
        for _, needed in due:
            for path in needed:
                if path not in files and path not in self._lost:
                    self._lost.add(path)
                    yield path
        if due and self.keeps_files:
            seen = dict(files)
            self._last_seen.update({each.checkpoint_id: seen for each, _ in due})

    def held(self, savepoint_ids: Iterable[int]) -> dict[int, Mapping[str, bytes]]:
        """Return by id of a checkpoint the files that a restore from it finds; called at the end of a run.

        Of other checkpoints than the one to restore there are none: the job would take a newer one.

        Args:
            savepoint_ids: the savepoints that belong to the user.
        """
        at_rest = self._storage.files
        return {
            **{each: _without_others(files, each) for each, files in self._last_seen.items()},
            **dict.fromkeys(savepoint_ids, at_rest),
        }

    def _due(self) -> Sequence[tuple[CheckpointMetadata, Sequence[str]]]:
        newest = self._complete[-1][0].checkpoint_id if self._complete else 0
        named = [path for path in self._storage.files if path.endswith(METADATA)]
        found = [match for match in map(_METADATA.fullmatch, named) if match is not None]
        unknown = sum(int(match[1]) > newest for match in found)
        count = self._retained - unknown
        return self._complete[-count:] if count > 0 else ()

    def _forget_before_starting_point(self) -> None:
        held = {path: data for path, data in self._storage.files.items() if path.startswith(_RECORDS)}
        starting_point = recorded_starting_point(_Held(held)) if held else None
        if starting_point != self._starting_point:
            self._starting_point = starting_point
            self._complete.clear()


class _Held:
    """The files of a storage, read without its faults."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def read(self, path: str) -> bytes:
        return self._files[path]

    def list(self, prefix: str) -> list[str]:
        return sorted(path for path in self._files if path.startswith(prefix))


def lost_files(metadata: CheckpointMetadata, files: Mapping[str, bytes]) -> list[str]:
    """Return the files that a checkpoint needs and the directory lacks, its metadata first."""
    return [path for path in needed_files(metadata) if path not in files]


def needed_files(metadata: CheckpointMetadata) -> Sequence[str]:
    """Return the files that a checkpoint needs, its metadata first."""
    return (metadata_path(metadata.checkpoint_id, metadata.kind), *sorted(files_of(metadata)))


def _without_others(files: Mapping[str, bytes], checkpoint_id: int) -> dict[str, bytes]:
    own = f"chk-{checkpoint_id}/"
    return {path: data for path, data in files.items() if path.startswith(own) or not path.startswith("chk-")}
