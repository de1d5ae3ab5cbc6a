"""Mutants of waiting: the job does what it should, long after it should."""

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
from onceproof.engine.checkpoint.triggering import CheckpointTriggering
from onceproof.engine.job.restart_strategies import FixedDelayRestart
from onceproof.engine.task.events import SnapshotFailed, TaskEffect
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

LATER = 20
PAUSES = 10
SLOWER = 50


@mutant(
    id="interval-grows-after-failover",
    breaks="timeliness",
    summary=f"after a failover the first checkpoint waits for {LATER} intervals",
)
def interval_grows(reached: Reached) -> Iterator[None]:
    """Each failure reads far more records again than the interval promises."""
    begin = CheckpointTriggering._begin_scheduling

    def later(self: CheckpointCoordinator, effects: list[CoordinatorEffect]) -> None:
        begin(self, effects)
        timer = effects[-1] if effects else None
        if len(self._attempts) > 1 and isinstance(timer, StartTimer):
            reached()
            self._periodic_due_ms = self._now + LATER * (timer.due_ms - self._now)
            effects[-1] = replace(timer, due_ms=self._periodic_due_ms)

    with replaced(CheckpointTriggering, "_begin_scheduling", later):
        yield


@mutant(
    id="expiry-pauses-checkpoints",
    breaks="timeliness",
    summary=f"after a checkpoint has expired the next one waits for {PAUSES} intervals",
)
def expiry_pauses(reached: Reached) -> Iterator[None]:
    """The timer that is under way comes too early, and is taken for a stale one."""
    expired = CheckpointCoordinator._expired

    def pausing(self: CheckpointCoordinator, event: CheckpointExpired) -> Sequence[CoordinatorEffect]:
        effects = expired(self, event)
        interval_ms = self._settings.interval_ms
        plan: CheckpointPlan | None = self._plan
        if effects and plan is not None and interval_ms is not None:
            reached()
            self._periodic_due_ms = self._now + PAUSES * interval_ms
            return [*effects, StartTimer(self._periodic_due_ms, IntervalElapsed(plan.attempt))]
        return effects

    with replaced(CheckpointCoordinator, "_expired", pausing):
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
)
def failed_write_is_silent(reached: Reached) -> Iterator[None]:
    """The checkpoint stays under way until its time-out, and no other one begins."""

    def silent(self: Task, event: SnapshotFailed) -> Sequence[TaskEffect]:
        if self._in_flight.pop(event.checkpoint_id, None) is not None:
            reached()
        return ()

    with replaced(Task, "_store_failed", silent):
        yield
