"""The events of the job master, besides messages and the coordinator's events, and its effects."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from onceproof.engine.checkpoint.events import CheckpointPlan, CoordinatorEffect, CoordinatorEvent
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import AttemptId, TaskFailed


class StartJob(Struct, frozen=True):
    """The process is up and what its predecessors left has been read.

    ``orphans`` is how many tasks of earlier job masters still run. The first attempt waits for their end.
    """

    orphans: int = 0


class OrphanEnded(Struct, frozen=True):
    """A task of an earlier job master has ended."""


class AttemptDeployed(Struct, frozen=True):
    """The tasks of the attempt exist and are restoring themselves."""

    plan: CheckpointPlan


class DeploymentFailed(Struct, frozen=True):
    """The attempt cannot be deployed: its checkpoint cannot be read, or the job does not fit it.

    ``may_pass``: the storage failed, and may answer at the next attempt.
    """

    cause: str
    may_pass: bool = False


class RestartDue(Struct, frozen=True):
    """The restart strategy's delay after the failure of ``attempt`` is over."""

    attempt: AttemptId


class StopRequested(Struct, frozen=True):
    """The job shall end with a savepoint, as if its input had ended where it ``drains``.

    RequestResolved reports the savepoint under ``number``, JobFinished the end.
    """

    number: int
    drains: bool = False


class StopOverdue(Struct, frozen=True):
    """The savepoint with which the job ends is long complete, and tasks of ``attempt`` still live."""

    attempt: AttemptId


class CancelRequested(Struct, frozen=True):
    """The job shall end at once: nothing that is under way is waited for.

    With a ``number`` it ends when a savepoint is complete, which RequestResolved reports under it.
    """

    number: int = 0


class RescaleRequested(Struct, frozen=True):
    """The job shall go on with another graph: from its latest checkpoint, in a new attempt, at once."""


MasterEvent: TypeAlias = (
    StartJob
    | OrphanEnded
    | AttemptDeployed
    | DeploymentFailed
    | RestartDue
    | StopRequested
    | StopOverdue
    | CancelRequested
    | RescaleRequested
    | TaskFailed
    | CoordinatorEvent
)


class Deploy(Struct, frozen=True):
    """Effect: make the tasks of a new attempt and restore them from ``restored``, or afresh if None.

    Answered by AttemptDeployed or DeploymentFailed.
    """

    attempt: AttemptId
    restored: CheckpointMetadata | None


class CancelTasks(Struct, frozen=True):
    """Effect: end every task of the attempt. Nothing of it may run once a later Deploy is carried out."""

    attempt: AttemptId


class StartRestartTimer(Struct, frozen=True):
    """Effect: hand ``event`` back at ``due_ms``."""

    due_ms: int
    event: RestartDue | StopOverdue


class JobFinished(Struct, frozen=True):
    """Effect: every task has finished, all output is committed.

    ``stopped``: not because its input had ended, but with the savepoint from which it can go on.
    """

    stopped: bool = False


class JobCanceled(Struct, frozen=True):
    """Effect: the job has ended because a user cancelled it."""


class JobFailed(Struct, frozen=True):
    """Effect: the job has ended for good, for a reason of one line."""

    cause: str


MasterEffect: TypeAlias = (
    CoordinatorEffect | Deploy | CancelTasks | StartRestartTimer | JobFinished | JobFailed | JobCanceled
)
