"""What goes into the job master besides messages and the coordinator's events, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from engine.checkpoint.events import CheckpointPlan, CoordinatorEffect, CoordinatorEvent
from engine.checkpoint.metadata import CheckpointMetadata
from engine.messages import AttemptId, TaskFailed


@dataclass(frozen=True, slots=True)
class StartJob:
    """The process is up and what its predecessors left has been read."""


@dataclass(frozen=True, slots=True)
class AttemptDeployed:
    """The tasks of the attempt exist and are restoring themselves."""

    plan: CheckpointPlan


@dataclass(frozen=True, slots=True)
class DeploymentFailed:
    """The attempt cannot be deployed, and no other could be: a damaged checkpoint, a job that does not fit it."""

    cause: str


@dataclass(frozen=True, slots=True)
class RestartDue:
    """The restart strategy's delay after the failure of ``attempt`` is over."""

    attempt: AttemptId


MasterEvent: TypeAlias = (
    StartJob | AttemptDeployed | DeploymentFailed | RestartDue | TaskFailed | CoordinatorEvent
)


@dataclass(frozen=True, slots=True)
class Deploy:
    """Effect: make the tasks of a new attempt and restore them from ``restored``, or afresh if None.

    Answered by AttemptDeployed or DeploymentFailed.
    """

    attempt: AttemptId
    restored: CheckpointMetadata | None


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """Effect: end every task of the attempt. Nothing of it may run once a later Deploy is carried out."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StartRestartTimer:
    """Effect: hand ``event`` back at ``due_ms``."""

    due_ms: int
    event: RestartDue


@dataclass(frozen=True, slots=True)
class JobFinished:
    """Effect: every task has finished, all output is committed."""


@dataclass(frozen=True, slots=True)
class JobFailed:
    """Effect: the job has ended for good, for a reason of one line."""

    cause: str


MasterEffect: TypeAlias = (
    CoordinatorEffect | Deploy | CancelTasks | StartRestartTimer | JobFinished | JobFailed
)
