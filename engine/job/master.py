"""Runs a job from attempt to attempt (Flink: JobMaster with the scheduler's failover).

The rules it lives by:

- The restart scope is the whole job: whichever task fails, all are cancelled and a new attempt is deployed
  from the latest completed checkpoint. Flink restarts pipelined regions; a job of keyed edges is one region.
- Nothing is restored while the outcome of a checkpoint is open (see the coordinator).
- Attempts are named ``incarnation.number``. The incarnation is drawn by the process from durable storage, so
  two attempts never share a name, however often the process died.
- Where every task has finished, all output is committed: whatever becomes of a checkpoint still under way,
  the job has finished.
- Only what the job can survive by trying again is tried again; a checkpoint that cannot be read is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from engine.checkpoint.coordinator import CheckpointCoordinator
from engine.checkpoint.events import AttemptEnded, AttemptStarted, Shutdown, TooManyFailures
from engine.job.events import (
    AttemptDeployed,
    CancelTasks,
    Deploy,
    DeploymentFailed,
    JobFailed,
    JobFinished,
    MasterEffect,
    MasterEvent,
    RescaleRequested,
    RestartDue,
    StartJob,
    StartRestartTimer,
)
from engine.job.restart import RestartStrategy
from engine.messages import AttemptId, TaskFailed, TaskFinished, TaskId


class JobState(Enum):
    """Where a job is in its life (Flink: JobStatus)."""

    CREATED = "created"
    RUNNING = "running"
    FAILING = "failing"
    """The attempt is over, but the outcome of a checkpoint is open."""
    RESTARTING = "restarting"
    FINISHED = "finished"
    FAILED = "failed"


_RUNNING: Final = JobState.RUNNING
_FAILING: Final = JobState.FAILING
_RESTARTING: Final = JobState.RESTARTING
"""Names of their own: reading a member off its enumeration costs more than a function call."""


class JobMaster:
    """One job in one process."""

    __slots__ = (
        "_attempt_number",
        "_finished",
        "_incarnation",
        "_restart",
        "_tasks",
        "attempt",
        "coordinator",
        "state",
    )

    def __init__(
        self, coordinator: CheckpointCoordinator, restart: RestartStrategy, incarnation: int
    ) -> None:
        self.coordinator = coordinator
        self._restart = restart
        self._incarnation = incarnation
        self._attempt_number = 0
        self.attempt: AttemptId | None = None
        self.state = JobState.CREATED
        self._tasks = 0
        self._finished: set[TaskId] = set()

    def handle(self, event: MasterEvent, now: int) -> Sequence[MasterEffect]:
        """Take one event at ``now`` (milliseconds)."""
        own = _METHODS.get(type(event))
        if own is not None:
            return getattr(self, own)(event, now)  # type: ignore[no-any-return]
        # The coordinator's business, and what follows from it for the job.
        effects = self.coordinator.handle(event, now)  # type: ignore[arg-type]
        state = self.state
        if state is _RUNNING:
            if type(event) is TaskFinished and event.attempt == self.attempt:
                self._finished.add(event.task)
            if len(self._finished) == self._tasks and self._tasks and not self.coordinator.is_finalizing:
                self.state = JobState.FINISHED
                return [*effects, JobFinished()]
            if effects and type(effects[-1]) is TooManyFailures:
                return [*effects, *self._end_attempt(effects[-1].reason, now)]
        elif state is _FAILING and not self.coordinator.is_finalizing:
            return [*effects, *self._schedule_restart(now)]
        return effects

    def _start(self, event: StartJob, now: int) -> Sequence[MasterEffect]:
        return self._deploy()

    def _attempt_deployed(self, event: AttemptDeployed, now: int) -> Sequence[MasterEffect]:
        self._tasks = len(event.plan.upstreams)
        self._finished.clear()
        return self.coordinator.handle(AttemptStarted(event.plan), now)

    def _deployment_failed(self, event: DeploymentFailed, now: int) -> Sequence[MasterEffect]:
        self.state = JobState.FAILED
        return (JobFailed(event.cause),)

    def _restart_due(self, event: RestartDue, now: int) -> Sequence[MasterEffect]:
        if self.state is _RESTARTING and event.attempt == self.attempt:
            return self._deploy()
        return ()

    def _rescale_requested(self, event: RescaleRequested, now: int) -> Sequence[MasterEffect]:
        """No failure: the restart strategy is not asked. Not while the outcome of a checkpoint is open."""
        if self.state is not _RUNNING or self.coordinator.is_finalizing:
            return ()
        assert self.attempt is not None
        return (CancelTasks(self.attempt), *self.coordinator.handle(AttemptEnded(), now), *self._deploy())

    def _task_failed(self, event: TaskFailed, now: int) -> Sequence[MasterEffect]:
        if event.attempt != self.attempt or self.state is not _RUNNING:
            return ()
        return self._end_attempt(event.cause, now, unrecoverable=event.unrecoverable)

    def _deploy(self) -> Sequence[MasterEffect]:
        self._attempt_number += 1
        self.attempt = AttemptId(f"{self._incarnation}.{self._attempt_number}")
        self.state = JobState.RUNNING
        self._tasks = 0
        return (Deploy(self.attempt, self.coordinator.store.latest),)

    def _end_attempt(self, cause: str, now: int, *, unrecoverable: bool = False) -> Sequence[MasterEffect]:
        assert self.attempt is not None
        effects: list[MasterEffect] = [CancelTasks(self.attempt)]
        effects.extend(self.coordinator.handle(AttemptEnded(), now))
        self._restart.notify_failure(now)
        if unrecoverable or not self._restart.can_restart(now):
            self.state = JobState.FAILED
            effects.extend(self.coordinator.handle(Shutdown(), now))
            effects.append(JobFailed(cause))
        elif self.coordinator.is_finalizing:
            self.state = JobState.FAILING
        else:
            effects.extend(self._schedule_restart(now))
        return effects

    def _schedule_restart(self, now: int) -> Sequence[MasterEffect]:
        assert self.attempt is not None
        self.state = JobState.RESTARTING
        return (StartRestartTimer(now + self._restart.backoff_ms(now), RestartDue(self.attempt)),)

    def validate(self) -> None:
        """What must hold between any two events.

        Raises AssertionError naming what does not.
        """
        if self.coordinator.pending:
            self.coordinator.validate()
        if self.state is _RESTARTING:
            assert not self.coordinator.pending, "a restart is planned while a checkpoint is pending"


_METHODS: Final[dict[type, str]] = {
    StartJob: "_start",
    AttemptDeployed: "_attempt_deployed",
    DeploymentFailed: "_deployment_failed",
    RestartDue: "_restart_due",
    RescaleRequested: "_rescale_requested",
    TaskFailed: "_task_failed",
}
"""What is the master's own business; everything else is the coordinator's first."""
