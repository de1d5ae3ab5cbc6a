"""What somebody wants of a running job: a savepoint, or its end; and what he is told.

The rules this module lives by:

- Whoever asks, a thread of this process or a command of another, asks by the same values, and is answered
  once: when the savepoint is complete, or when the job has ended if it was the end that he asked for.
- A savepoint has a folder of its own below the one that was named: ``savepoint-<job>-<random>``, as in Flink.
- A savepoint with which the job ends becomes the job's starting point before it is reported as complete
  (starting_point.py): until then nothing that it lists is committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from secrets import token_hex
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from onceproof.engine.checkpoint.events import CheckpointTriggered, RequestResolved, TriggerRequested
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.job.events import CancelRequested, StopRequested
from onceproof.engine.messages import CHECKPOINT, SAVEPOINT, checkpoint_folder
from onceproof.engine.runtime.locations import join_location, location, scheme_of
from onceproof.engine.runtime.recovery import metadata_path
from onceproof.engine.runtime.restore_point import published_form
from onceproof.engine.runtime.starting_point import (
    PointStorage,
    StartingPoint,
    put_back,
    write_starting_point,
)

RequestKind: TypeAlias = Literal["savepoint", "stop", "cancel", "cancel_with_savepoint"]

NO_FOLDER: Final = "no folder for the savepoint: name one, or set execution.checkpointing.savepoint-dir"
SHORT_JOB_ID: Final = 6
RANDOM_BYTES: Final = 6


class JobRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What is wanted. ``directory`` is where the savepoint goes, "" where the configuration says."""

    kind: RequestKind
    directory: str = ""
    drains: bool = False
    """Of a stop: as if the input had ended, so that windows and timers fire."""


class JobAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What came of it: the folder of the savepoint, if it was to be one, or an ``error`` in one line."""

    savepoint: str = ""
    error: str = ""


Respond: TypeAlias = Callable[[JobAnswer], None]


class _Open(Struct):
    request: JobRequest
    respond: Respond
    folder: str
    is_complete: bool = False


class OpenRequests:
    """The requests of one process's run of a job that are not answered yet."""

    def __init__(self, job_id: str, savepoint_directory: str | None) -> None:
        self._job_id = job_id
        self._savepoint_directory = savepoint_directory
        self._open: dict[int, _Open] = {}
        self._ending: dict[int, str] = {}
        """By checkpoint id, the folders of savepoints with which the job is to end."""
        self._numbers = 0
        self.stopped_with = ""
        """The folder of the savepoint with which the job has ended."""

    def take(
        self, request: JobRequest, respond: Respond
    ) -> TriggerRequested | StopRequested | CancelRequested | None:
        """Enter a request; give what the job master is to be told, None where it was refused."""
        folder = ""
        if request.kind != "cancel":
            directory = request.directory or self._savepoint_directory
            if directory is None:
                respond(JobAnswer(error=NO_FOLDER))
                return None
            name = f"savepoint-{self._job_id[:SHORT_JOB_ID]}-{token_hex(RANDOM_BYTES)}"
            folder = join_location(location(directory), name)
            try:
                if not scheme_of(folder):
                    os.makedirs(folder)
            except OSError as error:
                # Before the job could fail of it.
                said = f"folder {folder} cannot be made: {error.strerror}: name another one"
                respond(JobAnswer(error=said))
                return None
        self._numbers += 1
        number = self._numbers
        self._open[number] = _Open(request, respond, folder)
        if request.kind == "savepoint":
            return TriggerRequested(SAVEPOINT, number)
        if request.kind == "stop":
            return StopRequested(number, request.drains)
        return CancelRequested(number if folder else 0)

    @property
    def latest_number(self) -> int:
        """That of the last request that was taken."""
        return self._numbers

    def begun(self, effect: CheckpointTriggered) -> tuple[str, str] | None:
        """Note the id of a savepoint; give the folder of the job's storage, and where that must lead."""
        asked = self._open.get(effect.number)
        if effect.kind == CHECKPOINT or asked is None:
            return None
        if asked.request.kind != "savepoint":
            self._ending[effect.checkpoint_id] = asked.folder
        return checkpoint_folder(effect.checkpoint_id, effect.kind), asked.folder

    def starting_point(self, metadata: CheckpointMetadata) -> StartingPoint | None:
        """What the job must go on from once this checkpoint is complete; None where that does not change."""
        folder = self._ending.get(metadata.checkpoint_id)
        return None if folder is None else StartingPoint(folder, metadata.checkpoint_id)

    def resolved(self, effect: RequestResolved) -> None:
        """A savepoint has come to its outcome."""
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
        """The job is over: all that is open is answered. ``error`` says why, if it has failed."""
        still_open, self._open = self._open, {}
        for asked in still_open.values():
            asked.respond(self._last_answer(asked, error))

    def _last_answer(self, asked: _Open, error: str) -> JobAnswer:
        if asked.request.kind != "cancel" and not asked.is_complete:
            return JobAnswer(error=f"there is no savepoint: {error or 'the job has ended before'}")
        if asked.request.kind == "stop" and error:
            return JobAnswer(
                error=f"the savepoint {asked.folder} is complete, but the job failed before all of it was"
                f" committed ({error}): start it again, it goes on from there"
            )
        return JobAnswer(asked.folder)


def publish_metadata(
    storage: PointStorage,
    metadata: CheckpointMetadata,
    begins_from: StartingPoint | None,
    before: StartingPoint,
) -> None:
    """Make a checkpoint complete, and with ``begins_from`` what the job goes on from; ``before`` is replaced.

    Raises OSError; then the checkpoint is certainly not there.
    """
    path = metadata_path(metadata.checkpoint_id, metadata.kind)
    try:
        storage.publish(path, published_form(metadata))
        if begins_from is not None:
            write_starting_point(storage, begins_from)
    except OSError:
        if begins_from is not None:
            put_back(storage, before)
        storage.delete(path)
        raise
