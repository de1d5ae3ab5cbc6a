"""Which job a program is: a name stands for one job in its checkpoint directory, and is guarded.

The rules this module lives by:

- A job with a name goes on from the checkpoints under its name, or does nothing where it has finished. Before
  any file changes, the program is compared with the one in the registry (job_fingerprint.py). Another one is
  refused with what differs, and with the ways to go on.
- There is nothing to guard where nothing can be restored: a program that failed before its first checkpoint
  may be changed at will.
- A job that runs or was suspended by its record, and whose folder has not even the claim of a process, has
  lost its folder. To begin anew would write all its output again: it is refused until its user decides.
- Who names a checkpoint to restore has decided what to go on from: the name then belongs to the new program.
- A job without a name gets a new id at each submission, so it begins anew; it says where the checkpoints of
  the program's last run are.
- The record is written under the claim of the process: one that was superseded writes it no more. A record
  that cannot be written keeps a job from beginning, but does not change how it ends.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final, Protocol

from msgspec.structs import replace

from onceproof.engine.api.submission import current_program, submissions
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.graph import JobGraph
from onceproof.engine.locations import join_location, location
from onceproof.engine.messages import checkpoint_folder
from onceproof.engine.runtime.checkpoint_history import find_record
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS
from onceproof.engine.runtime.job_clients import Runnable
from onceproof.engine.runtime.job_fingerprint import (
    States,
    differences,
    encodable,
    fingerprint_of,
    printable,
    prints_of,
    states_of,
)
from onceproof.engine.runtime.job_registry import (
    CANCELLED,
    ENDED,
    FAILED,
    RUNNING,
    SUSPENDED,
    JobRecord,
    JobRegistry,
    JobState,
    ListedJob,
)
from onceproof.engine.runtime.job_requests import JobRequest, Respond
from onceproof.engine.runtime.job_result import JobCancelled, JobExecutionFailed, JobExecutionResult
from onceproof.engine.runtime.recovery import (
    INCARNATION,
    METADATA,
    RecoverableStorage,
    is_finished,
    starting_point_of,
)
from onceproof.engine.runtime.restore_point import OWN, NoRestorePoint, place_of, read_restore_point
from onceproof.engine.state.file_envelope import DamagedFile

MOST_SHOWN: Final = 3
"""How many differences a message has."""
MOST_UNNAMED: Final = 100
"""How many jobs without a name the registry keeps after their end."""

_logger = logging.getLogger(__name__)


class OtherProgram(UnrecoverableError):
    """The name of the job belongs to another program. The message is one line."""


class FolderLost(UnrecoverableError):
    """The checkpoint folder of a job that has not ended is gone. The message is one line."""


class DrivenRun(Runnable, Protocol):
    """A run whose process has claimed the job."""

    @property
    def is_superseded(self) -> bool:
        """Whether another process has claimed the job since."""
        ...


def check_identity(graph: JobGraph, storage: RecoverableStorage) -> None:
    """Raise OtherProgram if the checkpoints under the job's name are those of another program.

    ``storage`` is that of the job's folder. Raises DamagedFile for a record that cannot be read.
    """
    directory = graph.settings.directory
    if directory is None:
        return
    found = _Found(storage, join_location(location(directory), graph.job_id))
    if not found.has_claim:
        _refuse_lost_folder(graph, directory)
    if not (found.has_finished or found.last):
        return
    chosen = graph.settings.recovery.path
    if chosen is not None and found.last == place_of(chosen):
        return
    record = JobRegistry(directory).read(graph.job_id)
    metadata = found.metadata()
    states: States | None
    if metadata is not None:
        states = states_of(metadata)
        operators = prints_of(metadata) if record is None else record.operators
    elif record is not None:
        states, operators = record.states, record.operators
    else:
        return
    different = differences(
        operators,
        states,
        fingerprint_of(graph),
        is_exact=record is not None and (found.has_finished or record.program != _program()),
        allows_unclaimed=graph.settings.recovery.ignore_unclaimed_state,
    )
    _refuse(graph, list(different), record, found.last)


def _refuse_lost_folder(graph: JobGraph, directory: str) -> None:
    """Raise FolderLost if the registry knows an unfinished run of the job, whose folder is empty or new."""
    registry = JobRegistry(directory)
    record = None
    with suppress(DamagedFile):
        # With nothing to restore, nothing else is read of it.
        record = registry.read(graph.job_id)
    if record is None or record.state not in (RUNNING, SUSPENDED) or not record.incarnation:
        return
    raise FolderLost(
        f"job {graph.identity or graph.name!r} has run before and has not ended, but its checkpoint folder"
        f" {join_location(registry.root, graph.job_id)} was deleted or moved, and all its output would be"
        " written again: bring the folder back or restore a savepoint (--from,"
        f" execution.state-recovery.path), or delete {registry.place_of(graph.job_id)} to begin anew"
    )


def _program() -> str:
    return encodable(current_program().path)


def _refuse(graph: JobGraph, different: list[str], record: JobRecord | None, last: str) -> None:
    """Raise OtherProgram if there is any difference; ``last`` is the last checkpoint of the other program."""
    if not different:
        return
    what = "; ".join(different[:MOST_SHOWN])
    if len(different) > MOST_SHOWN:
        what += f"; and {len(different) - MOST_SHOWN} more"
    whose = "" if record is None else f" (program {printable(record.program)})"
    way = f", or restore that state on purpose (--from {last}, execution.state-recovery.path)" if last else ""
    where = f"the name {graph.identity or graph.name!r} belongs to another job in {graph.settings.directory}"
    raise OtherProgram(f"{where}{whose}: {what}: give this job another name{way}")


class _Found:
    """What a job's folder holds to go on from.

    ``last`` is the folder of its last checkpoint or savepoint; "" if there is none, or the job has finished.
    """

    def __init__(self, storage: RecoverableStorage, folder: str) -> None:
        paths = storage.list("")
        matches = [OWN.fullmatch(path.removesuffix(f"/{METADATA}")) for path in paths]
        last_id = max([int(match[1]) for match in matches if match is not None], default=0)
        self.has_claim = any(path.startswith(INCARNATION) for path in paths)
        record = find_record(storage, paths)
        point = starting_point_of(storage, paths, record)
        self.has_finished = is_finished(paths, point, record)
        self.last = ""
        if self.has_finished:
            return
        if point.path and point.last_id >= last_id:
            self.last = point.path
        elif last_id:
            self.last = join_location(folder, checkpoint_folder(last_id))

    def metadata(self) -> CheckpointMetadata | None:
        """Return the metadata of the last checkpoint; None if there is none, or recovery will report it."""
        if self.last:
            with suppress(OSError, DamagedFile, NoRestorePoint):
                return read_restore_point(self.last).metadata
        return None


def registered(graph: JobGraph, run: DrivenRun, incarnation: int) -> Runnable:
    """Write the job's record, and return the run that writes it again at its end. Raises StorageError.

    The command line that has submitted the job learns that it begins.
    """
    directory = graph.settings.directory
    recorded = run if directory is None else _recorded(graph, directory, run, incarnation)
    for submission in submissions():
        if submission.begins is not None:
            submission.begins(graph.job_id)
    return recorded


def _recorded(graph: JobGraph, directory: str, run: DrivenRun, incarnation: int) -> RegisteredRun:
    registry = JobRegistry(directory)
    if not graph.identity:
        _announce_unnamed(graph, registry)
    record = JobRecord(
        graph.job_id,
        encodable(graph.name),
        RUNNING,
        _program(),
        max(0, SYSTEM_CLOCKS.wall_ms()),
        incarnation,
        fingerprint_of(graph),
        encodable(graph.identity),
    )
    registry.write(record)
    return RegisteredRun(registry, record, run)


class RegisteredRun:
    """A run of a job that writes how it has ended into the registry."""

    def __init__(self, registry: JobRegistry, record: JobRecord, run: DrivenRun) -> None:
        self.master = run.master
        self._registry = registry
        self._record = record
        self._run = run

    def submit(self, request: JobRequest, respond: Respond) -> None:
        """Submit a request from another thread."""
        self._run.submit(request, respond)

    def run(self) -> JobExecutionResult:
        """Run until the job has ended. A process that dies leaves the record as it is."""
        try:
            result = self._run.run()
        except JobCancelled:
            self._ended(CANCELLED)
            raise
        except KeyboardInterrupt:
            self._ended(SUSPENDED)
            raise
        except JobExecutionFailed as error:
            self._ended(FAILED, failure=str(error))
            raise
        self._ended(SUSPENDED if result.stopped_with else ENDED, stopped_with=result.stopped_with)
        return result

    def _ended(self, state: JobState, *, failure: str = "", stopped_with: str = "") -> None:
        latest = self._run.master.coordinator.latest
        record = replace(
            self._record,
            state=state,
            states=None if latest is None else states_of(latest),
            failure=encodable(failure),
            stopped_with=encodable(stopped_with),
            ended_ms=max(0, SYSTEM_CLOCKS.wall_ms()),
        )
        try:
            if not self._run.is_superseded:
                self._registry.write(record)
        except OSError as error:
            _logger.warning("job %r: its end is not in the registry: %s", self._record.name, error)


def _announce_unnamed(graph: JobGraph, registry: JobRegistry) -> None:
    """Log the new id, and where the checkpoints of the program's last run without a name are."""
    try:
        listed = registry.jobs()
    except OSError as error:
        # What it would say is a courtesy; the job's own folder has been claimed.
        _logger.warning("job %r has no name, and its last run cannot be looked for: %s", graph.name, error)
        return
    unnamed = [job for job in listed if job.record is not None and not job.record.identity]
    _forget_ended(registry, unnamed)
    left = [job for job in unnamed if job.record and job.record.program == _program() and _is_open(job)]
    if not left:
        _logger.info("job %r has no name: its id %s is new at each start", graph.name, graph.job_id)
        return
    _logger.warning(
        "job %r has no name, so it begins anew, with the id %s; to resume the last run (id %s, %s)"
        " restore %s (--from, execution.state-recovery.path); execute(NAME) resumes by itself;"
        " see docs/troubleshooting.md#has-no-name-so-it-begins-anew",
        graph.name,
        graph.job_id,
        left[-1].job_id,
        left[-1].state,
        left[-1].last_checkpoint,
    )


def _is_open(job: ListedJob) -> bool:
    return bool(job.last_checkpoint) and job.state != ENDED


def _forget_ended(registry: JobRegistry, unnamed: list[ListedJob]) -> None:
    """Delete the oldest jobs that have ended without a checkpoint: no other job gets their ids."""
    ended = [job for job in unnamed if job.state in (ENDED, CANCELLED) and not job.last_checkpoint]
    for job in ended[:-MOST_UNNAMED]:
        try:
            registry.forget(job.job_id)
        except OSError as error:
            _logger.warning("the record of an ended job stays: %s", error)
