"""Runs a job from attempt to attempt (Flink: JobMaster with the scheduler's failover).

Rules:

- The restart scope is the whole job: if any task fails, all are cancelled and a new attempt is deployed from
  the latest completed checkpoint. Flink restarts pipelined regions; a job of keyed edges is one region.
- The first attempt is deployed once no task of an earlier job master runs any more.
- Nothing is restored while the outcome of a checkpoint is open (see the coordinator).
- Attempts are named ``incarnation.number``. The incarnation is drawn by the process from durable storage, so
  two attempts never share a name, however often the process died.
- When every task has finished, all output is committed: the job has finished, whatever becomes of a
  checkpoint still under way.
- Errors of user code that repeat in the same way end the job, whatever the strategy says (EqualErrors). They
  count only if no checkpoint could complete in between.
- Only recoverable failures are retried. A checkpoint that is damaged is not recoverable; one that the storage
  cannot read now is, so the restart strategy decides about it.
- While the job ends with a savepoint (end_with_savepoint.py), no other checkpoint begins. When a stop has
  failed, tasks that read no more are left, so a new attempt takes over; when it has succeeded, an attempt
  that fails before all is committed is followed by one that does nothing but commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

from onceproof.engine.checkpoint.coordinator import TASK_FINISHED, CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    AttemptEnded,
    AttemptStarted,
    RequestResolved,
    Shutdown,
    StartScheduler,
    StopScheduler,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.job.end_with_savepoint import (
    JOB_HAS_FINISHED,
    JOB_IS_ENDING,
    JOB_IS_NOT_RUNNING,
    NO_SAVEPOINT_IN_BATCH,
    EndWithSavepoint,
)
from onceproof.engine.job.events import (
    AttemptDeployed,
    CancelRequested,
    CancelTasks,
    Deploy,
    DeploymentFailed,
    JobCanceled,
    JobFailed,
    JobFinished,
    MasterEffect,
    MasterEvent,
    OrphanEnded,
    RescaleRequested,
    RestartDue,
    StartJob,
    StartRestartTimer,
    StopOverdue,
    StopRequested,
)
from onceproof.engine.job.restart_strategies import EqualErrors, RestartStrategy
from onceproof.engine.messages import (
    SAVEPOINT,
    SYNC_SAVEPOINT,
    AcknowledgeCheckpoint,
    AttemptId,
    TaskFailed,
    TaskFinished,
    TaskId,
    TaskRunning,
)


class JobState(Enum):
    """Where a job is in its life (Flink: JobStatus)."""

    CREATED = "created"
    RUNNING = "running"
    FAILING = "failing"
    """The attempt is over, but the outcome of a checkpoint is open."""
    RESTARTING = "restarting"
    CANCELLING = "cancelling"
    """Like FAILING, and no attempt follows."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Return whether the job is over."""
        return not TRANSITIONS[self]


# Names of their own: reading a member off its enumeration costs more than a function call.
_CREATED, _RUNNING, _FAILING, _RESTARTING, _CANCELLING, _FINISHED, _FAILED, _CANCELED = JobState

TRANSITIONS: Final[dict[JobState, frozenset[JobState]]] = {
    _CREATED: frozenset((_RUNNING, _CANCELED)),
    # Running again: at another parallelism, or to commit the savepoint with which the job ends.
    _RUNNING: frozenset(JobState) - {_CREATED},
    _FAILING: frozenset((_RESTARTING, _CANCELLING, _CANCELED)),
    _RESTARTING: frozenset((_RUNNING, _CANCELED)),
    _CANCELLING: frozenset((_CANCELED,)),
    **dict.fromkeys((_FINISHED, _FAILED, _CANCELED), frozenset()),
}


class JobMaster:
    """One job in one process, as a machine; the driver carries its effects out."""

    __slots__ = (
        "_attempt_number",
        "_equal_errors",
        "_finished",
        "_incarnation",
        "_is_batch",
        "_orphans",
        "_restart",
        "_stop_timeout_ms",
        "_tasks",
        "attempt",
        "coordinator",
        "ending",
        "last_failure",
        "state",
    )

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        restart: RestartStrategy,
        incarnation: int,
        stop_timeout_ms: int = 600_000,
        max_equal_errors: int = 0,
        *,
        is_batch: bool = False,
    ) -> None:
        self.coordinator = coordinator
        self._is_batch = is_batch
        """Whether the job runs in BATCH mode, and so takes no savepoints."""
        self._restart = restart
        self._equal_errors = EqualErrors(max_equal_errors)
        self._incarnation = incarnation
        self._stop_timeout_ms = stop_timeout_ms
        self._attempt_number = 0
        self.attempt: AttemptId | None = None
        self.state = _CREATED
        self.ending: EndWithSavepoint | None = None
        """The savepoint with which a user ends the job, or None."""
        self.last_failure = ""
        """Why the latest attempt that failed has failed."""
        self._orphans = 0
        """Number of tasks of earlier job masters that still run."""
        self._tasks = 0
        self._finished: set[TaskId] = set()

    def handle(self, event: MasterEvent, now: int) -> Sequence[MasterEffect]:
        """Process one event at ``now`` (milliseconds of the driver's clock) and return its effects."""
        own = _HANDLERS.get(type(event))
        if own is not None:
            return own(self, event, now)
        # The coordinator handles the rest; then the job draws its conclusions.
        effects = self.coordinator.handle(event, now)  # type: ignore[arg-type]
        if self.ending is not None:
            return self._while_ending(self.ending, event, effects, now)
        if not effects and type(event) in _ONLY_NOTED:
            return effects
        return self._follow(event, effects, now)

    def _follow(
        self, event: MasterEvent, effects: Sequence[MasterEffect], now: int
    ) -> Sequence[MasterEffect]:
        """Draw the job's conclusions from an event that the coordinator has handled."""
        state = self.state
        if state is _RUNNING:
            if type(event) is TaskFinished and event.attempt == self.attempt:
                self._finished.add(event.task)
            if self._all_have_finished:
                # What is still being written is waited for, and fails nothing.
                if self.coordinator.is_finalizing:
                    return effects
                self._enter(_FINISHED)
                return [*effects, JobFinished(self.coordinator.stopped_with is not None)]
            too_many = _too_many_failures(effects)
            if too_many is not None:
                return [*effects, *self._end_attempt(too_many.reason, now)]
        elif state is _FAILING and not self.coordinator.is_finalizing:
            return [*effects, *self._schedule_restart(now)]
        elif state is _CANCELLING and not self.coordinator.is_finalizing:
            return [*effects, *self._canceled(now)]
        return effects

    def start(self, event: StartJob, now: int) -> Sequence[MasterEffect]:
        """Deploy the first attempt, once no task of an earlier job master runs."""
        self._orphans = event.orphans
        return () if self._orphans else self.deploy()

    def orphan_ended(self, event: OrphanEnded, now: int) -> Sequence[MasterEffect]:
        """Deploy the first attempt after the last task of an earlier job master."""
        self._orphans -= 1
        return self.deploy() if self.state is _CREATED and not self._orphans else ()

    def attempt_deployed(self, event: AttemptDeployed, now: int) -> Sequence[MasterEffect]:
        """Begin the checkpoints of an attempt whose tasks are known."""
        self._tasks = len(event.plan.upstreams)
        self._finished.clear()
        effects = self.coordinator.handle(AttemptStarted(event.plan), now)
        if self.ending is not None and self.ending.is_complete:
            return [*effects, *self.coordinator.handle(StopScheduler(), now)]
        return effects

    def deployment_failed(self, event: DeploymentFailed, now: int) -> Sequence[MasterEffect]:
        """Restart the job, or fail it for good."""
        if event.may_pass:
            return self._end_attempt(event.cause, now)
        self._enter(_FAILED)
        return (JobFailed(event.cause),)

    def restart_due(self, event: RestartDue, now: int) -> Sequence[MasterEffect]:
        """Deploy the next attempt, if the job still waits for it."""
        if self.state is _RESTARTING and event.attempt == self.attempt:
            return self.deploy()
        return ()

    @property
    def goes_on(self) -> bool:
        """Whether the job runs, and does not end with a savepoint."""
        return self.state is _RUNNING and self.ending is None

    @property
    def only_commits(self) -> bool:
        """Whether the attempt does nothing but commit the savepoint with which the job stops."""
        return self.ending is not None and self.ending.only_commits

    @property
    def is_rescalable(self) -> bool:
        """Whether a rescale would take effect now; not while the outcome of a checkpoint is open."""
        return self.goes_on and not self.coordinator.is_finalizing

    def rescale_requested(self, event: RescaleRequested, now: int) -> Sequence[MasterEffect]:
        """Redeploy without asking the restart strategy; ignored where the job is not rescalable."""
        return self.redeploy(now) if self.is_rescalable else ()

    def redeploy(self, now: int) -> Sequence[MasterEffect]:
        """Replace the attempt by a new one at once."""
        assert self.attempt is not None
        return (CancelTasks(self.attempt), *self.coordinator.handle(AttemptEnded(), now), *self.deploy())

    def task_failed(self, event: TaskFailed, now: int) -> Sequence[MasterEffect]:
        """End the attempt of a task that failed; the restart strategy decides what follows."""
        if event.attempt != self.attempt or self.state is not _RUNNING:
            return ()
        latest = self.coordinator.latest
        latest_id = 0 if latest is None else latest.checkpoint_id
        is_hopeless = self._equal_errors.notify_failure(
            event.task.vertex, event.error, event.taken, latest_id
        )
        return self._end_attempt(event.cause, now, unrecoverable=event.unrecoverable, is_hopeless=is_hopeless)

    def deploy(self) -> Sequence[MasterEffect]:
        """Begin a new attempt from the latest completed checkpoint."""
        self._attempt_number += 1
        self.attempt = AttemptId(f"{self._incarnation}.{self._attempt_number}")
        self._enter(_RUNNING)
        self._tasks = 0
        return (Deploy(self.attempt, self.coordinator.latest),)

    def _end_attempt(
        self, cause: str, now: int, *, unrecoverable: bool = False, is_hopeless: bool = False
    ) -> Sequence[MasterEffect]:
        assert self.attempt is not None
        self.last_failure = cause
        effects: list[MasterEffect] = [CancelTasks(self.attempt)]
        effects.extend(self.coordinator.handle(AttemptEnded(), now))
        if self.ending is not None:
            if self.ending.outcome_in(effects) is not None:
                # The savepoint was aborted with the attempt, so the request is void for the next one.
                self.ending = None
            else:
                self.ending.only_commits = self.ending.is_complete
        self._restart.notify_failure(now)
        if unrecoverable or not self._restart.can_restart(now):
            effects.extend(self._fail(cause, now))
        elif self.coordinator.is_finalizing:
            # The checkpoint may complete, which is progress.
            self._enter(_FAILING)
        elif is_hopeless:
            effects.extend(self._fail(self._equal_errors.message(cause), now))
        else:
            effects.extend(self._schedule_restart(now))
        return effects

    def _fail(self, cause: str, now: int) -> Sequence[MasterEffect]:
        self._enter(_FAILED)
        return (*self.coordinator.handle(Shutdown(), now), JobFailed(cause))

    def _schedule_restart(self, now: int) -> Sequence[MasterEffect]:
        assert self.attempt is not None
        self._enter(_RESTARTING)
        return (StartRestartTimer(now + self._restart.backoff_ms(now), RestartDue(self.attempt)),)

    # The end that a user requests.

    def trigger_requested(self, event: TriggerRequested, now: int) -> Sequence[MasterEffect]:
        """Trigger a checkpoint, but none while the job ends: some tasks have stopped already."""
        if event.number and self._is_batch:
            return (RequestResolved(event.number, None, NO_SAVEPOINT_IN_BATCH),)
        if self.ending is None:
            return self._follow(event, self.coordinator.handle(event, now), now)
        return (RequestResolved(event.number, None, JOB_IS_ENDING),) if event.number else ()

    def stop_requested(self, event: StopRequested, now: int) -> Sequence[MasterEffect]:
        """End the job with a savepoint that the sinks commit."""
        request = TriggerRequested(SYNC_SAVEPOINT, event.number, event.drains)
        return self.begin_ending(EndWithSavepoint(event.number, request, stops=True), now)

    def cancel_requested(self, event: CancelRequested, now: int) -> Sequence[MasterEffect]:
        """Cancel the job, after a savepoint if one is asked for."""
        if event.number:
            request = TriggerRequested(SAVEPOINT, event.number)
            return self.begin_ending(EndWithSavepoint(event.number, request, stops=False), now)
        return () if self.state is _CANCELLING or self.state.is_terminal else self._cancel(now)

    def begin_ending(self, ending: EndWithSavepoint, now: int) -> Sequence[MasterEffect]:
        """Request the savepoint; until its outcome is known no other checkpoint begins."""
        if self._is_batch:
            return (RequestResolved(ending.number, None, NO_SAVEPOINT_IN_BATCH),)
        if not self.goes_on:
            reason = JOB_IS_NOT_RUNNING if self.ending is None else JOB_IS_ENDING
            return (RequestResolved(ending.number, None, reason),)
        effects = [
            *self.coordinator.handle(StopScheduler(), now),
            *self.coordinator.handle(ending.request, now),
        ]
        if ending.outcome_in(effects) is not None:
            return [*effects, *self.coordinator.handle(StartScheduler(), now)]
        self.ending = ending
        return effects

    def _while_ending(
        self, ending: EndWithSavepoint, event: MasterEvent, effects: Sequence[MasterEffect], now: int
    ) -> Sequence[MasterEffect]:
        if ending.is_complete:
            if self.state is _RUNNING and ending.only_commits and self.coordinator.all_run:
                return [*effects, *self._stopped(now)]
            return self._follow(event, effects, now)
        outcome = ending.outcome_in(effects)
        if outcome is None:
            return self._follow(event, effects, now)
        if outcome.checkpoint_id is None:
            self.ending = None
            if self.state is not _RUNNING:
                return self._follow(event, effects, now)
            if outcome.reason == TASK_FINISHED or self._all_have_finished:
                return self._ask_again(ending, event, effects, now)
            return [*effects, *self._not_ended(ending, outcome, effects, now)]
        ending.is_complete = True
        if not ending.stops:
            return [*effects, *self._cancel(now)]
        assert self.attempt is not None
        overdue = StartRestartTimer(now + self._stop_timeout_ms, StopOverdue(self.attempt))
        if self.state is _FAILING:
            ending.only_commits = True
        return [*self._follow(event, effects, now), overdue]

    def _ask_again(
        self, ending: EndWithSavepoint, event: MasterEvent, effects: Sequence[MasterEffect], now: int
    ) -> Sequence[MasterEffect]:
        """Request the savepoint again: a task finished before it acknowledged. Not if all have finished."""
        others = [each for each in effects if each is not ending.outcome_in([each])]
        followed = self._follow(event, others, now)
        if self.state is not _RUNNING or self._all_have_finished:
            return [*followed, RequestResolved(ending.number, None, JOB_HAS_FINISHED)]
        again = self.coordinator.handle(ending.request, now)
        refused = ending.outcome_in(again)
        if refused is not None:
            return [*followed, *again, *self._not_ended(ending, refused, again, now)]
        self.ending = ending
        return [*followed, *again]

    @property
    def _all_have_finished(self) -> bool:
        return 0 < self._tasks == len(self._finished)

    def _not_ended(
        self, ending: EndWithSavepoint, outcome: RequestResolved, effects: Sequence[MasterEffect], now: int
    ) -> Sequence[MasterEffect]:
        if ending.stops:
            return self._end_attempt(f"the savepoint to stop with failed: {outcome.reason}", now)
        too_many = _too_many_failures(effects)
        if too_many is not None:
            return self._end_attempt(too_many.reason, now)
        return self.coordinator.handle(StartScheduler(), now)

    def stop_overdue(self, event: StopOverdue, now: int) -> Sequence[MasterEffect]:
        """Redeploy from the savepoint to commit it: some task missed the notification that it is complete."""
        if self.state is not _RUNNING or event.attempt != self.attempt or self.ending is None:
            return ()
        self.ending.only_commits = True
        return self.redeploy(now)

    def _stopped(self, now: int) -> Sequence[MasterEffect]:
        """Finish the job: all tasks are restored, which committed the savepoint's output."""
        assert self.attempt is not None
        self._enter(_FINISHED)
        return (
            CancelTasks(self.attempt),
            *self.coordinator.handle(Shutdown(), now),
            JobFinished(stopped=True),
        )

    def _cancel(self, now: int) -> Sequence[MasterEffect]:
        effects: list[MasterEffect] = []
        if self.attempt is not None:
            effects.append(CancelTasks(self.attempt))
        effects.extend(self.coordinator.handle(AttemptEnded(), now))
        if self.coordinator.is_finalizing:
            self._enter(_CANCELLING)
            return effects
        return [*effects, *self._canceled(now)]

    def _canceled(self, now: int) -> Sequence[MasterEffect]:
        self._enter(_CANCELED)
        return (*self.coordinator.handle(Shutdown(), now), JobCanceled())

    def _enter(self, state: JobState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"a job that is {self.state.value} becomes {state.value}")
        self.state = state

    def validate(self) -> None:
        """Check what must hold between any two events; raises AssertionError naming what does not."""
        if self.coordinator.pending:
            self.coordinator.validate()
        if self.state is _RESTARTING:
            assert not self.coordinator.pending, "a restart is planned while a checkpoint is pending"


def _too_many_failures(effects: Sequence[MasterEffect]) -> TooManyFailures | None:
    """Return the effect by which the coordinator fails the job, if it is among these."""
    for effect in effects:
        if type(effect) is TooManyFailures:
            return effect
    return None


_Handler: TypeAlias = Callable[[JobMaster, Any, int], Sequence[MasterEffect]]

# The events that the master handles before the coordinator. Each lambda looks the method up when it is
# called, so a subclass or a planted bug can replace it.
_HANDLERS: Final[dict[type, _Handler]] = {
    StartJob: lambda master, event, now: master.start(event, now),
    OrphanEnded: lambda master, event, now: master.orphan_ended(event, now),
    AttemptDeployed: lambda master, event, now: master.attempt_deployed(event, now),
    DeploymentFailed: lambda master, event, now: master.deployment_failed(event, now),
    RestartDue: lambda master, event, now: master.restart_due(event, now),
    RescaleRequested: lambda master, event, now: master.rescale_requested(event, now),
    TaskFailed: lambda master, event, now: master.task_failed(event, now),
    TriggerRequested: lambda master, event, now: master.trigger_requested(event, now),
    StopRequested: lambda master, event, now: master.stop_requested(event, now),
    StopOverdue: lambda master, event, now: master.stop_overdue(event, now),
    CancelRequested: lambda master, event, now: master.cancel_requested(event, now),
}

_ONLY_NOTED: Final = frozenset((AcknowledgeCheckpoint, TaskRunning))
"""Events that concern the job only if the coordinator has effects, which it mostly has not."""
