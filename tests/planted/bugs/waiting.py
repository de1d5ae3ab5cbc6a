"""Mutants of waiting and silence: the job does what it should long after it should, or says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    CheckpointExpired,
    CheckpointPlan,
    CoordinatorEffect,
    IntervalElapsed,
    StartTimer,
)
from onceproof.engine.job.restart_strategies import FixedDelayRestart
from onceproof.engine.runtime.job_log import JobLog
from onceproof.engine.task.events import SnapshotFailed, TaskEffect
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant

LATER = 20
REQUESTS = 300
PAUSES = 10
SLOWER = 50


@mutant(
    id="interval-grows-after-failover",
    breaks="timeliness",
    summary=f"after a failover the first checkpoint waits for {LATER} intervals",
)
def interval_grows(reached: Reached) -> Iterator[None]:
    """Each failure reads far more records again than the interval promises."""
    begin = CheckpointCoordinator._begin_scheduling

    def later(self: CheckpointCoordinator, effects: list[CoordinatorEffect]) -> None:
        begin(self, effects)
        timer = effects[-1] if effects else None
        if len(self._attempts) > 1 and isinstance(timer, StartTimer):
            reached()
            self._periodic_due_ms = self._now + LATER * (timer.due_ms - self._now)
            effects[-1] = replace(timer, due_ms=self._periodic_due_ms)

    with replaced(CheckpointCoordinator, "_begin_scheduling", later):
        yield


@mutant(
    id="expiry-pauses-checkpoints",
    breaks="timeliness",
    summary=f"after a checkpoint has expired the next one waits for {PAUSES} intervals",
)
def expiry_pauses(reached: Reached) -> Iterator[None]:
    """The timer that is under way comes too early, and is taken for a stale one."""
    expired = CheckpointCoordinator.checkpoint_expired

    def pausing(self: CheckpointCoordinator, event: CheckpointExpired) -> Sequence[CoordinatorEffect]:
        effects = expired(self, event)
        interval_ms = self._settings.interval_ms
        plan: CheckpointPlan | None = self._plan
        if effects and plan is not None and interval_ms is not None:
            reached()
            self._periodic_due_ms = self._now + PAUSES * interval_ms
            return [*effects, StartTimer(self._periodic_due_ms, IntervalElapsed(plan.attempt))]
        return effects

    with replaced(CheckpointCoordinator, "checkpoint_expired", pausing):
        yield


@mutant(
    id="restart-delay-grows",
    breaks="timeliness",
    summary=f"the restart strategy waits {SLOWER} times as long as its settings say",
)
def restart_delay_grows(reached: Reached) -> Iterator[None]:
    """The job is down for minutes instead of seconds."""
    backoff_ms = FixedDelayRestart.backoff_ms

    def slower(self: FixedDelayRestart, now: int) -> int:
        reached()
        return SLOWER * backoff_ms(self, now)

    with replaced(FixedDelayRestart, "backoff_ms", slower):
        yield


@mutant(
    id="failed-write-is-not-declined",
    breaks="timeliness",
    summary="a task whose snapshot could not be stored says nothing",
    families=SMALL_JOBS,
)
def failed_write_is_silent(reached: Reached) -> Iterator[None]:
    """The checkpoint stays under way until its time-out, and no other one begins."""

    def silent(self: Task, event: SnapshotFailed) -> Sequence[TaskEffect]:
        if self._in_flight.pop(event.checkpoint_id, None) is not None:
            reached()
        return ()

    with replaced(Task, "snapshot_failed", silent):
        yield


@mutant(
    id="requests-dropped-after-failover",
    breaks="timeliness",
    summary=f"after a failover the first {REQUESTS} periodic requests are dropped, one at each interval",
)
def requests_are_dropped(reached: Reached) -> Iterator[None]:
    """Each interval is as long as it should be, and no checkpoint begins."""
    elapsed = CheckpointCoordinator.interval_elapsed
    dropped: dict[tuple[int, str], int] = {}

    def forgetful(self: CheckpointCoordinator, event: IntervalElapsed) -> Sequence[CoordinatorEffect]:
        plan, interval_ms = self._plan, self._settings.interval_ms
        if plan is None or interval_ms is None or event.attempt != plan.attempt:
            return elapsed(self, event)
        if len(self._attempts) > 1 and self._is_scheduling and self._now >= self._periodic_due_ms:
            key = (id(self), event.attempt)
            dropped[key] = dropped.get(key, 0) + 1
            if dropped[key] <= REQUESTS:
                reached()
                return [self._start_interval(plan, self._periodic_due_ms + interval_ms)]
        return elapsed(self, event)

    with replaced(CheckpointCoordinator, "interval_elapsed", forgetful):
        yield


@mutant(
    id="failed-checkpoint-is-not-logged",
    breaks="timeliness",
    summary="a checkpoint fails, and neither the log nor the result of the job says so",
)
def failed_checkpoint_is_not_logged(reached: Reached) -> Iterator[None]:
    """The operator learns of the full disk when the job has to restart from an old checkpoint."""

    def silent(self: JobLog, checkpoint_id: int, reason: str, now: int) -> None:
        reached()

    with replaced(JobLog, "checkpoint_aborted", silent):
        yield


@mutant(
    id="restart-is-not-logged",
    breaks="timeliness",
    summary="the job restarts, and its log does not say why",
)
def restart_is_not_logged(reached: Reached) -> Iterator[None]:
    """It restarts for ever, and looks as if it ran."""

    def silent(
        self: JobLog, attempt: str, cause: str, delay_ms: int, latest_id: int | None, now: int
    ) -> None:
        reached()

    with replaced(JobLog, "restart_planned", silent):
        yield
