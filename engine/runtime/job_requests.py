"""Users' requests to a running job (savepoint, stop, cancel) and their answers.

The rules this module lives by:

- A thread of this process and a command in another process send the same values. Each request gets one
  answer: when the savepoint is complete or, for a stop or cancel, when the job has ended.
- A savepoint has a new folder below the requested one: ``savepoint-<job>-<random>``, as in Flink. Its name is
  made durable before anything is written into it.
- A savepoint that is tried again has a folder of its own: tasks may still write, and delete, the files of the
  first try, which have the same names.
- A savepoint with which the job stops becomes the job's starting point before it is reported as complete
  (starting_point.py). Until then nothing that it lists is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from onceproof.engine.checkpoint.events import CheckpointTriggered, RequestResolved, TriggerRequested
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.durable_files import open_folder
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.file_calls import SYSTEM_CALLS
from onceproof.engine.job.events import CancelRequested, StopRequested
from onceproof.engine.locations import join_location, location, parent_of, scheme_of
from onceproof.engine.messages import CHECKPOINT, SAVEPOINT, checkpoint_folder
from onceproof.engine.runtime.checkpoint_history import HistoryStorage, JobHistory, OutcomeUnknown
from onceproof.engine.runtime.mounted_storage import open_storage
from onceproof.engine.runtime.recovery import metadata_path
from onceproof.engine.runtime.restore_point import published_form
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.engine.runtime.storage import StorageError

RequestKind: TypeAlias = Literal["savepoint", "stop", "cancel", "cancel_with_savepoint"]

NO_FOLDER: Final = "no folder for the savepoint: name one, or set execution.checkpointing.savepoint-dir"
SHORT_JOB_ID: Final = 6
RANDOM_BYTES: Final = 6


class JobRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A user's request. ``directory`` is that of the savepoint; "": the configured one."""

    kind: RequestKind
    directory: str = ""
    drains: bool = False
    """For a stop: end the input first, so that windows and timers fire."""


class JobAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a request: the folder of the savepoint, if any, or an ``error`` in one line."""

    savepoint: str = ""
    error: str = ""


Respond: TypeAlias = Callable[[JobAnswer], None]


class _Open(Struct):
    request: JobRequest
    respond: Respond
    folder: str
    has_begun: bool = False
    is_complete: bool = False


class OpenRequests:
    """The open requests of one process's run of a job."""

    def __init__(self, job_id: str, savepoint_directory: str | None) -> None:
        self._job_id = job_id
        self._savepoint_directory = savepoint_directory
        self._open: dict[int, _Open] = {}
        self._ending: dict[int, str] = {}
        """The folders of savepoints with which the job is to stop, by checkpoint id."""
        self._numbers = 0
        self.stopped_with = ""
        """The folder of the savepoint with which the job has stopped."""

    def take(
        self, request: JobRequest, respond: Respond
    ) -> TriggerRequested | StopRequested | CancelRequested | None:
        """Enter a request, and return the event for the job master; None if the request was refused."""
        folder = ""
        if request.kind != "cancel":
            directory = request.directory or self._savepoint_directory
            if directory is None:
                respond(JobAnswer(error=NO_FOLDER))
                return None
            folder = self._new_folder(location(directory))
            try:
                if scheme_of(folder):
                    open_storage(folder, stands_in=True)
                else:
                    open_folder(SYSTEM_CALLS, folder)
            except (OSError, ValueError, UnrecoverableError, RecursionError) as error:
                # Refuse the request here, because later the error would fail the job.
                why = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
                respond(JobAnswer(error=f"folder {folder!r} cannot be made: {why}: name another one"))
                return None
        self._numbers += 1
        number = self._numbers
        self._open[number] = _Open(request, respond, folder)
        if request.kind == "savepoint":
            return TriggerRequested(SAVEPOINT, number)
        if request.kind == "stop":
            return StopRequested(number, request.drains)
        return CancelRequested(number if folder else 0)

    def _new_folder(self, directory: str) -> str:
        name = f"savepoint-{self._job_id[:SHORT_JOB_ID]}-{token_hex(RANDOM_BYTES)}"
        return join_location(directory, name)

    @property
    def latest_number(self) -> int:
        """The number of the latest accepted request."""
        return self._numbers

    def begun(self, effect: CheckpointTriggered) -> tuple[str, str] | None:
        """Note the checkpoint id of a savepoint; return its folder in the storage, and the place to mount."""
        asked = self._open.get(effect.number)
        if effect.kind == CHECKPOINT or asked is None:
            return None
        if asked.has_begun:
            asked.folder = self._new_folder(parent_of(asked.folder))
        asked.has_begun = True
        if asked.request.kind != "savepoint":
            self._ending[effect.checkpoint_id] = asked.folder
        return checkpoint_folder(effect.checkpoint_id, effect.kind), asked.folder

    def starting_point(self, metadata: CheckpointMetadata) -> StartingPoint | None:
        """Return the job's new starting point once this checkpoint is complete; None: it stays."""
        folder = self._ending.get(metadata.checkpoint_id)
        return None if folder is None else StartingPoint(folder, metadata.checkpoint_id)

    def resolved(self, effect: RequestResolved) -> None:
        """Answer the request of a savepoint that has completed or failed."""
        asked = self._open.get(effect.number)
        if asked is None:
            return
        if effect.checkpoint_id is None:
            del self._open[effect.number]
            asked.respond(JobAnswer(error=f"there is no savepoint: {effect.reason}"))
        elif asked.request.kind == "savepoint":
            del self._open[effect.number]
            asked.respond(JobAnswer(asked.folder))
        else:
            asked.is_complete = True
            self.stopped_with = asked.folder

    def ended(self, error: str = "") -> None:
        """Answer all open requests at the end of the job; ``error`` says why, if it has failed."""
        still_open, self._open = self._open, {}
        for asked in still_open.values():
            asked.respond(self._last_answer(asked, error))

    def _last_answer(self, asked: _Open, error: str) -> JobAnswer:
        if asked.request.kind != "cancel" and not asked.is_complete:
            return JobAnswer(error=f"there is no savepoint: {error or 'the job has ended before'}")
        if asked.request.kind == "stop" and error:
            return JobAnswer(
                error=f"the savepoint {asked.folder} is complete, but the job failed before all of it was"
                f" committed ({error}): start it again; it resumes from there"
            )
        return JobAnswer(asked.folder)


def publish_metadata(
    storage: HistoryStorage,
    history: JobHistory,
    metadata: CheckpointMetadata,
    begins_from: StartingPoint | None,
) -> None:
    """Publish the metadata of a checkpoint and, if given, the new starting point ``begins_from``.

    Raises OSError; then the checkpoint certainly does not count, and the starting point is the old one.
    Raises OutcomeUnknown if neither can be said.
    """
    path = metadata_path(metadata.checkpoint_id, metadata.kind)
    data = published_form(metadata)
    try:
        # A client may have repeated the request after it had been performed.
        is_ours = storage.create_exclusive(path, data) or storage.read(path) == data
    except OSError as error:
        _withdraw(storage, history, metadata, error)
        raise
    if not is_ours:
        refused = StorageError(
            f"checkpoint file {path} is there already, from a process that had lost the job"
        )
        if metadata.kind == CHECKPOINT and storage.writes_may_be_late:
            history.declare_void(metadata, refused)
        raise refused
    if begins_from is not None:
        try:
            history.begin_from(begins_from)
        except OSError:
            storage.delete(path)
            raise


def _withdraw(
    storage: HistoryStorage, history: JobHistory, metadata: CheckpointMetadata, error: OSError
) -> None:
    """Make sure that metadata whose write has failed do not count."""
    if metadata.kind == CHECKPOINT and storage.writes_may_be_late:
        history.declare_void(metadata, error)
        return
    # No other process writes here; a savepoint that appears late is in a folder that no answer names.
    path = metadata_path(metadata.checkpoint_id, metadata.kind)
    try:
        storage.delete(path)
    except OSError as second:
        if storage.exists(path):
            raise OutcomeUnknown(
                f"whether checkpoint {metadata.checkpoint_id} is complete is unknown ({error}; {second}):"
                " start the job again, it resumes from the latest complete one"
            ) from second
