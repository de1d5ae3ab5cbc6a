"""What goes into the job master besides messages and the coordinator's events, and what comes out of it."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from engine.checkpoint.events import CheckpointPlan, CoordinatorEffect, CoordinatorEvent
from engine.checkpoint.metadata import CheckpointMetadata
from engine.messages import AttemptId, TaskFailed


class StartJob(Struct, frozen=True):
    """The process is up and what its predecessors left has been read."""


class AttemptDeployed(Struct, frozen=True):
    """The tasks of the attempt exist and are restoring themselves."""

    plan: CheckpointPlan


class DeploymentFailed(Struct, frozen=True):
    """No attempt can be deployed: the checkpoint is damaged, or the job does not fit it."""

    cause: str


class RestartDue(Struct, frozen=True):
    """The restart strategy's delay after the failure of ``attempt`` is over."""

    attempt: AttemptId


class RescaleRequested(Struct, frozen=True):
    """The job shall go on with another graph: from its latest checkpoint, in a new attempt, at once."""


MasterEvent: TypeAlias = (
    StartJob
    | AttemptDeployed
    | DeploymentFailed
    | RestartDue
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
    event: RestartDue


class JobFinished(Struct, frozen=True):
    """Effect: every task has finished, all output is committed."""


class JobFailed(Struct, frozen=True):
    """Effect: the job has ended for good, for a reason of one line."""

    cause: str


MasterEffect: TypeAlias = (
    CoordinatorEffect | Deploy | CancelTasks | StartRestartTimer | JobFinished | JobFailed
)
