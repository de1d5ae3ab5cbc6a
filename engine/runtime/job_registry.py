"""The registry: which jobs have used a checkpoint directory, each with a file ``jobs/<id>.json``.

Rules:

- The process that runs a job writes its record when it begins and when the job ends. A process that was
  killed leaves ``running``; the lock on the job's folder shows that it is gone. An object store has no
  lock: the last sign of life is when its last checkpoint was completed, or else when it claimed the job.
- Which checkpoints a job has, its folder says, not the record: a record that is out of date restores nothing.
- A record is replaced atomically and durably, as a checkpoint's metadata are.
- A record may be forged, so it proves nothing: its size, its fields and its id are checked, and no path in it
  is followed. A record that cannot be read is an error, never the same as none.
- A list of jobs has each of them, also where one has a record or a folder that cannot be read: that one has
  the reason.
- Only the process that has the job may complete checkpoints, commit and delete. So the claim is checked
  before a checkpoint is published and again before its output is committed, before tasks are deployed and
  before files are deleted.
- It is lost where another process has claimed the job (recovery.py), and where the job's folder is no longer
  the one that was locked (storage.py): another process may begin in the folder that is now at its path.
- A run that has lost the job ends. No restart helps, and it must not go on without commits until its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from onceproof.engine.file_calls import SYSTEM_CALLS
from onceproof.engine.graph import JobGraph
from onceproof.engine.locations import join_location, location, scheme_of
from onceproof.engine.messages import checkpoint_folder
from onceproof.engine.runtime.deletion import Superseded
from onceproof.engine.runtime.job_fingerprint import OperatorPrint
from onceproof.engine.runtime.lease import JobLost
from onceproof.engine.runtime.mounted_storage import open_storage
from onceproof.engine.runtime.recovery import (
    FINISHED,
    INCARNATION,
    METADATA,
    RecoverableStorage,
    Recovered,
    is_claimed_by,
)
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.runtime.request_folder import is_running
from onceproof.engine.runtime.storage import CheckpointStorage, LocalCheckpointStorage, MissingFile
from onceproof.engine.state.file_envelope import LARGEST_NUMBER, DamagedFile

CLAIM_LOOKS: Final = 3
"""How often a process looks whether it still has the job before the storage's error counts."""
TAKEN_OVER: Final = (
    "another process has taken job {!r} over, or its claim was deleted from the checkpoint folder"
)
FOLDER_GONE: Final = (
    "the checkpoint folder of job {!r} was deleted, moved or replaced while it ran, so nothing is committed"
    " any more: bring {}/{} back, and start the job again"
)


class JobClaim:
    """The claim of one process on a job."""

    def __init__(self, graph: JobGraph, storage: RecoverableStorage, recovered: Recovered) -> None:
        self._graph = graph
        self._storage = storage
        self._recovered = recovered

    @property
    def is_lost(self) -> bool:
        """Whether another process has claimed the job, whose files are its own then. Raises OSError."""
        for _ in range(CLAIM_LOOKS - 1):
            try:
                return not self._is_held()
            except OSError:
                continue
        return not self._is_held()

    def _is_held(self) -> bool:
        return is_claimed_by(self._storage, self._recovered.incarnation, self._recovered.token)

    def check(self) -> None:
        """Raise Superseded if the claim is lost."""
        self.check_folder()
        if self.is_lost:
            raise Superseded(TAKEN_OVER.format(self._graph.name))

    def check_folder(self) -> None:
        """Raise Superseded if the job's folder is no longer the one that this process holds."""
        if not self._storage.is_in_place:
            directory, job_id = self._graph.settings.directory, self._graph.job_id
            raise Superseded(FOLDER_GONE.format(self._graph.name, directory, job_id))

    @contextmanager
    def ends_the_run(self) -> Iterator[None]:
        """Raise JobLost where the body raises Superseded."""
        try:
            yield
        except Superseded as error:
            raise JobLost(f"job {self._graph.name!r} has ended in this process: {error}") from error


REGISTRY: Final = "jobs"
MOST_BYTES: Final = 1 << 24
"""The most that is read of a record."""
FORMAT_VERSION: Final = 1
RUNNING: Final = "running"
ENDED: Final = "finished"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
SUSPENDED: Final = "suspended"
"""The process was killed, or stopped with a savepoint: the job goes on when it is started again."""

JobState: TypeAlias = Literal["running", "finished", "failed", "cancelled", "suspended"]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_NUMBER - 1)]

_ID: Final = "[0-9a-f]{32}"
_FOLDERS_OF_A_JOB: Final = 2
"""How many folders a path of this module is in: that of the job, and that of a checkpoint."""
_JOB: Final = re.compile(_ID)
_RECORD: Final = re.compile(rf"{REGISTRY}/({_ID})\.json")
_COMPLETE: Final = re.compile(rf"({_ID})/chk-(0|[1-9][0-9]{{0,17}})/{METADATA}")
_CLAIM: Final = re.compile(rf"({_ID})/{INCARNATION}(0|[1-9][0-9]{{0,17}})")
_FINISHED: Final = re.compile(rf"({_ID})/{FINISHED}")
_MEND: Final = (
    "delete this file if nothing else is known of it; the job is then compared with its last checkpoint only"
)


class JobRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the registry holds of a job; times are in milliseconds since 1970."""

    job_id: str
    name: str
    state: JobState
    program: str
    """The file of the program that ran it last."""
    submitted_ms: Number
    incarnation: Number
    """Of the process that wrote the record."""
    operators: tuple[OperatorPrint, ...]
    identity: str = ""
    """The name under which it goes on; "": it has none."""
    states: dict[str, dict[str, str]] | None = None
    """By operator id, the kind of each state in the last checkpoint; None: unknown."""
    stopped_with: str = ""
    """The savepoint with which it was stopped."""
    failure: str = ""
    ended_ms: Number = 0
    format_version: Literal[1] = FORMAT_VERSION


_DECODER: Final = msgspec.json.Decoder(JobRecord)


class ListedJob(msgspec.Struct, frozen=True):
    """A job of a checkpoint directory; a job from before the registry has no record."""

    job_id: str
    record: JobRecord | None
    state: str
    last_checkpoint: str
    """The folder of its last complete checkpoint or savepoint; "": there is none."""
    damage: str = ""
    """Why its record or its folder cannot be read."""
    last_sign_ms: int | None = None
    """Of a running job in an object store, whose process may have been killed: when it showed the last sign
    of life, in milliseconds since 1970, or 0; None: it certainly runs, or does not."""


class JobRegistry:
    """The records of a checkpoint directory, which need not exist until one is written."""

    def __init__(self, directory: str) -> None:
        self._storage: CheckpointStorage = open_storage(location(directory), stands_in=True)

    @property
    def root(self) -> str:
        """The checkpoint directory."""
        return self._storage.root

    def place_of(self, job_id: str) -> str:
        """Return the full path of a job's record."""
        return self._storage.place_of(_path_of(job_id))

    def read(self, job_id: str) -> JobRecord | None:
        """Return the record of a job, or None. Raises DamagedFile and StorageError."""
        path = _path_of(job_id)
        place = self._storage.place_of(path)
        storage = self._storage
        if isinstance(storage, RemoteCheckpointStorage):
            size = storage.size_of(path)
        else:
            size = SYSTEM_CALLS.size_of(place)
        if size is not None and size > MOST_BYTES:
            raise DamagedFile(place, f"forged or damaged: a record of a job has no {size} bytes", _MEND)
        try:
            data = self._storage.read(path)
        except MissingFile:
            return None
        try:
            record = _DECODER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedFile(place, f"the record of a job cannot be read ({error})", _MEND) from error
        if record.job_id != job_id:
            raise DamagedFile(place, "forged or damaged: it is the record of another job", _MEND)
        return record

    def write(self, record: JobRecord) -> None:
        """Replace the record of a job, durably and atomically. Raises StorageError."""
        self._storage.publish(_path_of(record.job_id), msgspec.json.encode(record))

    def jobs(self) -> list[ListedJob]:
        """Return all jobs of the directory, the one submitted last at the end. Raises StorageError."""
        storage = self._storage
        # The folder may be a large one that is no checkpoint directory at all.
        unreadable: dict[str, str] = {}
        if isinstance(storage, LocalCheckpointStorage):
            paths, unreadable = storage.list_readable(_FOLDERS_OF_A_JOB)
        else:
            paths = storage.list("")
        damages = {path.partition("/")[0]: why for path, why in sorted(unreadable.items(), reverse=True)}
        last: dict[str, int] = {}
        known: set[str] = set()
        claims: dict[str, int] = {}
        finished: set[str] = set()
        for path in paths:
            if match := _COMPLETE.fullmatch(path):
                last[match[1]] = max(int(match[2]), last.get(match[1], 0))
            elif match := _RECORD.fullmatch(path):
                known.add(match[1])
            elif match := _CLAIM.fullmatch(path):
                claims[match[1]] = max(int(match[2]), claims.get(match[1], 0))
            elif match := _FINISHED.fullmatch(path):
                finished.add(match[1])
        jobs = [
            self._listed(each, last.get(each), claims.get(each), each in finished, damages.get(each, ""))
            for each in {*known, *last, *finished, *filter(_JOB.fullmatch, damages)}
        ]
        return sorted(jobs, key=lambda job: (job.record.submitted_ms if job.record else 0, job.job_id))

    def _listed(
        self, job_id: str, last_id: int | None, claim: int | None, has_finished: bool, damage: str
    ) -> ListedJob:
        record = None
        try:
            record = self.read(job_id)
        except DamagedFile as error:
            damage = damage or f"{error.what}: {error.mend}"
        except OSError as error:
            damage = damage or str(error)
        last = "" if last_id is None else join_location(self.root, job_id, checkpoint_folder(last_id))
        if record is not None and record.state == SUSPENDED and record.stopped_with:
            last = record.stopped_with
        state = self._state(job_id, record, has_finished)
        sign = None
        if state == RUNNING and isinstance(self._storage, RemoteCheckpointStorage):
            signs = [0 if record is None else record.submitted_ms]
            paths = [] if last_id is None else [f"{job_id}/{checkpoint_folder(last_id)}/{METADATA}"]
            if claim is not None:
                paths.append(f"{job_id}/{INCARNATION}{claim}")
            for path in paths:
                try:
                    signs.append(self._storage.modified_ms(path))
                except MissingFile:
                    # Deleted since the listing: the job has a newer one, which the next listing shows.
                    continue
                except OSError as error:
                    damage = damage or str(error)
            sign = max(signs)
        return ListedJob(job_id, record, state, last, damage, sign)

    def _state(self, job_id: str, record: JobRecord | None, has_finished: bool) -> str:
        is_remote = bool(scheme_of(self.root))
        if not is_remote and is_running(Path(self.root, job_id)):
            return RUNNING
        if has_finished:
            return ENDED
        if record is None:
            return SUSPENDED
        # No lock shows whether the process of a job in a remote directory lives.
        return SUSPENDED if record.state == RUNNING and not is_remote else record.state

    def forget(self, job_id: str) -> None:
        """Delete a job that never runs again: its files, then its record. Raises StorageError."""
        for path in self._storage.list(f"{job_id}/"):
            self._storage.delete(path)
        self._storage.delete(_path_of(job_id))


def _path_of(job_id: str) -> str:
    return f"{REGISTRY}/{job_id}.json"
