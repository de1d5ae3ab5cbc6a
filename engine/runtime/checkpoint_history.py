"""The history of a job: which checkpoints count when several processes have run it, perhaps at the same time.

In an object store nothing keeps a second process out, and nothing stops the first: it may be paused at any
call, its requests may arrive after it was given up, and a client that repeats a request may perform it twice.
The names of files keep such processes apart:

- ``incarnation-<n>``: a process claims the job by creating the marker with the next number, which only one
  can. The highest marker has the job; it is never deleted. A claim is checked by listing the markers.
- ``chk-<n>/_metadata`` is created where there is none yet, never overwritten. It names the attempt that took
  the checkpoint, and so the incarnation.
- ``history-<incarnation>-<number>`` is a record: which checkpoints of earlier processes this one goes on
  from, its starting point, the first id that a later process may use, and whether the job has finished. It
  is created once, too. The highest record decides. A checkpoint counts if it is of the record's incarnation,
  or if the record accepts it; any other is of a process that had lost the job.

Why one history wins, and needs nothing of a loser's, if listings are strong (as in S3, Google Cloud Storage
and Azure Blob Storage):

1. A process creates its metadata (or a record), then checks its claim, and only then acts on
   it: commits, deletes. A successor creates its marker, and only then lists. So if the metadata appeared too
   late for the listing, the marker was there before, and the check fails: nothing of it is committed. If the
   check holds, the metadata is in the listing, and the successor goes on from it.
2. A successor writes its record before it completes or deletes anything, also before it deletes what a
   finished job has left, and checks its claim once more. So the highest record is that of the latest process
   which may have changed anything. What appears later is neither accepted by it nor of its incarnation, and
   counts for no reader.
3. No two processes write the same file. Names of state files hold the attempt, records and markers the
   incarnation. Metadata could meet by their id: then the second create is refused, its checkpoint fails, and
   nothing is overwritten.
4. No late delete strikes a successor's file. A process lists, checks its claim, and deletes only what it had
   listed; the successor writes only afterwards. Where names could repeat, in metadata, a successor begins
   above every id that it finds and above its predecessor's ``first_id``, and deletes concern lower ids only.
5. Metadata whose create failed may still appear. Before the failure is reported, a record declares the
   checkpoint void. If that fails, too, the outcome is unknown: the process ends, and the next one reads it.

In a local folder a lock keeps the second process out and no write is late. There the files themselves are the
history: a record is written only for a starting point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.runtime.starting_point import (
    FROM_NOTHING,
    STARTING_POINT,
    StartingPoint,
    read_starting_point,
)
from onceproof.engine.runtime.storage import StorageError
from onceproof.engine.state.file_envelope import LARGEST_NUMBER, DamagedFile

HISTORY: Final = "history-"
FORMAT_VERSION: Final = 1
_NUMBER: Final = "(0|[1-9][0-9]{0,17})"
_RECORD: Final = re.compile(f"{HISTORY}{_NUMBER}-{_NUMBER}")

Taken: TypeAlias = tuple[int, str]
"""A checkpoint by its id and the attempt that took it: an id alone may have been used twice."""


class OutcomeUnknown(UnrecoverableError):
    """Whether a checkpoint is complete can be neither read nor decided. The message is one line."""


class ReadableHistory(Protocol):
    """The part of a checkpoint storage that a reader of the history needs."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Return the sorted paths that begin with a prefix."""
        ...


class HistoryStorage(ReadableHistory, Protocol):
    """The part of a checkpoint storage that a writer of the history needs."""

    @property
    def writes_may_be_late(self) -> bool:
        """Whether a write may appear after its process was given up."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it is not there."""
        ...

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file; return False if it exists."""
        ...


class HistoryRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """What a process declares of the history; the highest record decides."""

    accepted: tuple[Taken, ...] = ()
    """The checkpoints of earlier processes that count."""
    counts_own: bool = True
    """Whether checkpoints of the record's own incarnation count; not once it has given them up."""
    void: tuple[Taken, ...] = ()
    """Checkpoints of its own that have failed, whatever appears of them."""
    first_id: int = 1
    """The first checkpoint id that a later process may use."""
    is_finished: bool = False
    starting_point: StartingPoint = FROM_NOTHING
    format_version: int = FORMAT_VERSION


class FoundRecord(Struct, frozen=True):
    """The highest record in a storage, with its incarnation and number."""

    incarnation: int
    number: int
    record: HistoryRecord

    def counts(self, metadata: CheckpointMetadata) -> bool:
        """Return whether a checkpoint belongs to the history."""
        taken = (metadata.checkpoint_id, metadata.attempt)
        if taken in self.record.accepted:
            return True
        is_own = metadata.attempt.partition(".")[0] == str(self.incarnation)
        return is_own and self.record.counts_own and taken not in self.record.void


_DECODER: Final = msgspec.json.Decoder(HistoryRecord)


def find_record(storage: ReadableHistory, paths: Iterable[str]) -> FoundRecord | None:
    """Return the highest record among listed paths, or None. Raises DamagedFile."""
    found = [(int(match[1]), int(match[2])) for path in paths if (match := _RECORD.fullmatch(path))]
    if not found:
        return None
    incarnation, number = max(found)
    path = _path(incarnation, number)
    try:
        record = _DECODER.decode(storage.read(path))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFile(
            path,
            f"it cannot be read ({error})",
            "name the checkpoint to resume from in execution.state-recovery.path and another job name",
        ) from error
    if not 0 < record.first_id < LARGEST_NUMBER:
        raise DamagedFile(path, f"forged or damaged: {record.first_id} is not an id of a checkpoint")
    return FoundRecord(incarnation, number, record)


def record_incarnation(path: str) -> int:
    """Return the incarnation of a record by its path; 0 for any other file."""
    match = _RECORD.fullmatch(path)
    return 0 if match is None else int(match[1])


def recorded_starting_point(storage: ReadableHistory) -> StartingPoint | None:
    """Return the starting point that the storage records, or None. Raises DamagedFile."""
    found = find_record(storage, storage.list(HISTORY))
    if found is not None:
        return found.record.starting_point
    return read_starting_point(storage) if STARTING_POINT in storage.list(STARTING_POINT) else None


class JobHistory:
    """The records that one process writes."""

    def __init__(
        self, storage: HistoryStorage, incarnation: int, record: HistoryRecord, number: int = 0
    ) -> None:
        self.incarnation = incarnation
        self.record = record
        """The latest record of this process; what it goes on from if it has written none."""
        self.number = number
        """How many records this process has written."""
        self._storage = storage

    @property
    def is_needed(self) -> bool:
        """Whether the files alone do not say what counts."""
        return self.number > 0 or self._storage.writes_may_be_late

    def write(self, record: HistoryRecord) -> None:
        """Write the next record.

        Raises OSError; then the record may appear later, and is outranked by the next one.
        """
        self.number += 1
        path, data = _path(self.incarnation, self.number), msgspec.json.encode(record)
        if not self._storage.create_exclusive(path, data) and self._storage.read(path) != data:
            raise StorageError(f"{path} is another process's: start the job again")
        self.record = record

    def begin_from(self, point: StartingPoint) -> None:
        """Record a new starting point. Raises OSError, and then the old one is recorded again."""
        before = self.record
        try:
            self.write(replace(before, starting_point=point))
        except OSError as error:
            self._decide(before, error)
            raise

    def declare_void(self, metadata: CheckpointMetadata, error: OSError) -> None:
        """Record that a checkpoint does not count, although its metadata may appear.

        Raises OutcomeUnknown if the storage refuses, with ``error`` as the cause.
        """
        taken = (metadata.checkpoint_id, metadata.attempt)
        record = self.record
        first_id = max(record.first_id, metadata.checkpoint_id + 1)
        self._decide(replace(record, void=(*record.void, taken), first_id=first_id), error)

    def finish(self) -> None:
        """Record that the job has finished."""
        if self.is_needed:
            self.write(replace(self.record, is_finished=True))

    def close(self, next_id: int) -> None:
        """Record that no checkpoint counts any more; a later process begins from nothing at ``next_id``."""
        if self.is_needed:
            self.write(HistoryRecord(counts_own=False, first_id=max(next_id, self.record.first_id)))
        self._storage.delete(STARTING_POINT)

    def forget(self) -> None:
        """Delete the records that the latest one of this process outranks."""
        for path in self._storage.list(HISTORY):
            match = _RECORD.fullmatch(path)
            if match is not None and (int(match[1]), int(match[2])) < (self.incarnation, self.number):
                self._storage.delete(path)

    def forget_earlier(self, paths: Iterable[str]) -> None:
        """Delete those of the listed records that this process's first one outranks."""
        for path in paths:
            match = _RECORD.fullmatch(path)
            if path == STARTING_POINT or (match is not None and int(match[1]) < self.incarnation):
                self._storage.delete(path)

    def _decide(self, record: HistoryRecord, error: OSError) -> None:
        try:
            self.write(record)
        except OSError as second:
            raise OutcomeUnknown(
                f"whether a checkpoint is complete is unknown ({error}; {second}): start the job"
                " again; it resumes from the latest complete one"
            ) from second


def _path(incarnation: int, number: int) -> str:
    return f"{HISTORY}{incarnation}-{number}"
