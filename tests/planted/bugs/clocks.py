"""Mutants of time: what the job master waits for is measured by the wall clock, which can be set.

Each asks, when its timer is due, whether the wall clock shows the time at which it should be. While nothing
sets that clock, it does. An hour after it was set back, it still does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onceproof.engine.checkpoint.events import CheckpointExpired, IntervalElapsed, StartTimer
from onceproof.engine.job.events import MasterEffect, MasterEvent, RestartDue, StartRestartTimer
from onceproof.engine.job.master import JobMaster
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


@contextmanager
def by_the_wall_clock(awaited: type, reached: Reached) -> Iterator[None]:
    """Have the job master take an event only once the wall clock shows the time at which it is due."""
    handle = JobMaster.handle
    due: dict[Any, int] = {}
    """By job master and event, when it is due by the wall clock."""

    def handle_by_the_wall(self: JobMaster, event: MasterEvent, now: int) -> Sequence[MasterEffect]:
        ahead_ms = self.coordinator._wall_clock.ahead_ms
        if type(event) is awaited:
            left_ms = due.get((id(self), event), 0) - now - ahead_ms
            if left_ms > 0:
                reached()
                timer = StartRestartTimer if awaited is RestartDue else StartTimer
                return (timer(now + left_ms, event),)  # type: ignore[arg-type]
        effects = handle(self, event, now)
        for effect in effects:
            if isinstance(effect, StartTimer | StartRestartTimer) and type(effect.event) is awaited:
                due[id(self), effect.event] = effect.due_ms + ahead_ms
        return effects

    with replaced(JobMaster, "handle", handle_by_the_wall):
        yield


@mutant(
    id="interval-by-the-wall-clock",
    breaks="timeliness",
    summary="the interval of checkpoints is measured by the wall clock",
)
def interval_by_the_wall_clock(reached: Reached) -> Iterator[None]:
    """No checkpoint begins for an hour after the clock was set back by one."""
    with by_the_wall_clock(IntervalElapsed, reached):
        yield


@mutant(
    id="expiry-by-the-wall-clock",
    breaks="timeliness",
    summary="the time-out of checkpoints is measured by the wall clock",
)
def expiry_by_the_wall_clock(reached: Reached) -> Iterator[None]:
    """A checkpoint that can never complete keeps others from beginning for an hour."""
    with by_the_wall_clock(CheckpointExpired, reached):
        yield


@mutant(
    id="restart-by-the-wall-clock",
    breaks="timeliness",
    summary="the delay of the restart strategy is measured by the wall clock",
    families=SMALL_JOBS,
)
def restart_by_the_wall_clock(reached: Reached) -> Iterator[None]:
    """The job stays down for an hour."""
    with by_the_wall_clock(RestartDue, reached):
        yield
