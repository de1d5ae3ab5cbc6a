"""timeliness: the job waits no longer than its settings say, and reports a failed write at once.

Liveness looks at the end of a run. A job that begins its checkpoints twenty times too late, or restarts after
an hour, finishes all the same. So each wait is judged when it begins. What a schedule adds to it does not
count: the wait is what the job master asks of its clock.

Anomalies:

- late restart: after a failure the job waits longer than the delay of its restart strategy.
- late checkpoint: the next periodic checkpoint is due later than interval and pause allow. While tasks
  decline because they sort their input (BATCH mode), the interval doubles each time, up to 16 times itself.
- late expiry: a checkpoint may stay under way for longer than its time-out.
- no checkpoint: after the last fault none completes within PATIENCE times interval, pause and time-out.
  Time counts from the first wait after the last fault, start of an attempt or checkpoint, and only once the
  schedule is fair: before that it may hold a checkpoint up for as long as it likes. It is not asked of a job
  whose watermarks come faster than it can pass them on: there barriers queue behind them. Nor is it asked of
  a job whose graph is drawn: a join in it may give twenty times as many records as it gets, and barriers that
  cannot overtake queue behind them until they expire.
- silent failure: the storage refuses a write of a checkpoint under way, and neither does the task decline the
  checkpoint nor the coordinator abort it in that step. It would last until its time-out.
- unlogged failure: a checkpoint fails, or the job restarts, and its log says nothing of it in that step. Of
  events that repeat within a second it may leave some out once it has logged a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_ABORTED,
    CHECKPOINT_COMPLETED,
    CHECKPOINT_DECLINED,
    CHECKPOINT_TRIGGERED,
    EXPIRY_WAIT,
    FAULT_FIRED,
    INTERVAL_WAIT,
    JOB_STOPPED,
    LOGGED,
    RESTART_WAIT,
    SAVEPOINT_COMPLETED,
    WAIT_BEGUN,
    WRITE_REFUSED,
    History,
)
from onceproof.harness.model.scenario import COORDINATOR, Scenario

LATE_RESTART: Final = "late restart"
LATE_CHECKPOINT: Final = "late checkpoint"
LATE_EXPIRY: Final = "late expiry"
NO_CHECKPOINT: Final = "no checkpoint"
SILENT_FAILURE: Final = "silent failure"
UNLOGGED: Final = "unlogged failure"

EXPIRED: Final = "CHECKPOINT_EXPIRED"

IN_BATCH: Final = "CHECKPOINT_DECLINED_IN_BATCH"
MOST_DOUBLINGS: Final = 4

PATIENCE: Final = 4
"""A checkpoint that is under way may have to expire, and the next one as well; sound runs stay below two."""

_LATE: Final = {
    RESTART_WAIT: LATE_RESTART,
    INTERVAL_WAIT: LATE_CHECKPOINT,
    EXPIRY_WAIT: LATE_EXPIRY,
}

_REFUSED: Final = "refused"
_PERIOD_STEPS: Final = 1000
_LOGGED_IN_A_PERIOD: Final = 5
_BEGINS_ANEW: Final = frozenset(
    {ATTEMPT_STARTED, FAULT_FIRED, CHECKPOINT_COMPLETED, SAVEPOINT_COMPLETED, JOB_STOPPED}
)


class Timeliness:
    """Compares each wait with the settings, and each refused write with what follows it."""

    property = "timeliness"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the violations in the order of their steps."""
        interval_ms = max(scenario.checkpoint_interval_ms, scenario.checkpoint_mode.min_pause_ms)
        restarts, delay_ms = scenario.restarts, scenario.restart_delay_ms
        longest_ms = {
            RESTART_WAIT: delay_ms if restarts is UNSET else restarts.longest_delay_ms(delay_ms),
            INTERVAL_WAIT: interval_ms,
            EXPIRY_WAIT: scenario.checkpoint_timeout_ms,
        }
        violations = [*self._without_checkpoint(scenario, history, oracle), *self._unlogged(history)]
        under_way: set[int] = set()
        refused: list[tuple[int, int, str]] = []
        for step, kind, subject, payload in history.events:
            if refused and refused[0][0] != step:
                violations += self._silent(refused)
            if kind == WAIT_BEGUN:
                allowed_ms = longest_ms[subject]
                waits_ms = payload["ms"]
                if waits_ms > allowed_ms:
                    witness = {"step": step, "waits_ms": waits_ms, "allowed_ms": allowed_ms}
                    violations.append(Violation(self.property, _LATE[subject], f"step {step}", witness))
            elif kind == CHECKPOINT_TRIGGERED:
                under_way.add(subject)
            elif kind in (CHECKPOINT_COMPLETED, SAVEPOINT_COMPLETED):
                under_way.discard(subject)
            elif kind == CHECKPOINT_ABORTED:
                under_way.discard(subject)
                refused = [each for each in refused if each[1:] != (subject, COORDINATOR)]
                if payload["reason"] == IN_BATCH:
                    longest_ms[INTERVAL_WAIT] = _backed_off(longest_ms[INTERVAL_WAIT], interval_ms)
            elif kind == ATTEMPT_STARTED:
                longest_ms[INTERVAL_WAIT] = interval_ms
            elif kind == WRITE_REFUSED:
                if payload["checkpoint"] in under_way:
                    refused.append((step, payload["checkpoint"], subject))
            elif kind == CHECKPOINT_DECLINED:
                refused = [each for each in refused if each[1:] != (payload["checkpoint"], subject)]
        return violations + self._silent(refused)

    def _without_checkpoint(self, scenario: Scenario, history: History, oracle: Oracle) -> list[Violation]:
        """Return a violation for the first stretch of time in which a checkpoint should have completed."""
        pause_ms, timeout_ms = scenario.checkpoint_mode.min_pause_ms, scenario.checkpoint_timeout_ms
        interval_ms = max(scenario.checkpoint_interval_ms, pause_ms)
        wait_ms = scenario.checkpoint_interval_ms
        since_ms: int | None = None
        if oracle.is_drawn or not scenario.takes_checkpoints or not _keeps_up(scenario):
            return []
        for step, kind, _, payload in history.events:
            if kind == CHECKPOINT_ABORTED and payload["reason"] == IN_BATCH:
                wait_ms = _backed_off(wait_ms, interval_ms)
                since_ms = None
            elif kind in _BEGINS_ANEW or step < scenario.schedule.horizon:
                if kind == ATTEMPT_STARTED:
                    wait_ms = scenario.checkpoint_interval_ms
                since_ms = None
            elif kind == WAIT_BEGUN:
                now_ms = payload["now_ms"]
                allowed_ms = PATIENCE * (wait_ms + pause_ms + timeout_ms)
                if since_ms is None:
                    since_ms = now_ms
                elif now_ms - since_ms > allowed_ms:
                    witness = {"step": step, "waited_ms": now_ms - since_ms, "allowed_ms": allowed_ms}
                    return [Violation(self.property, NO_CHECKPOINT, f"step {step}", witness)]
        return []

    def _unlogged(self, history: History) -> list[Violation]:
        """Return a violation for the first failure that the log leaves out.

        Only the simulation records waits and logs: a step there is at least a millisecond.
        """
        logged: list[int] = []
        refused: set[int] = set()
        failed: list[tuple[int, str]] = []
        is_recorded = False
        for step, kind, subject, payload in history.events:
            if kind == LOGGED:
                logged.append(step)
            elif kind == WRITE_REFUSED:
                refused.add(payload["checkpoint"])
            elif kind == WAIT_BEGUN:
                is_recorded = True
                if subject == RESTART_WAIT:
                    failed.append((step, "the restart of the job"))
            elif kind == CHECKPOINT_ABORTED:
                reason = payload["reason"]
                # A failover or a later checkpoint may have ended it first; that is a code of Flink's.
                if reason == EXPIRED or (subject in refused and _REFUSED in reason):
                    failed.append((step, f"the failure of checkpoint {subject}"))
        for step, what in failed if is_recorded else ():
            recent = [each for each in logged if step - _PERIOD_STEPS <= each <= step]
            if step not in recent and len(recent) < _LOGGED_IN_A_PERIOD:
                return [Violation(self.property, UNLOGGED, f"step {step}", {"step": step, "what": what})]
        return []

    def _silent(self, refused: list[tuple[int, int, str]]) -> list[Violation]:
        """Return a violation for each refused write that nothing has followed, and clear the list."""
        found = []
        for step, checkpoint, task in refused:
            witness: dict[str, Any] = {"step": step, "task": task, "checkpoint": checkpoint}
            found.append(Violation(self.property, SILENT_FAILURE, f"task {task}, step {step}", witness))
        refused.clear()
        return found


def _backed_off(wait_ms: int, interval_ms: int) -> int:
    """Return how long the next checkpoint waits after one more refusal of a task that sorts its input."""
    return min(2 * max(wait_ms, interval_ms), interval_ms << MOST_DOUBLINGS)


def _keeps_up(scenario: Scenario) -> bool:
    """Return whether watermarks leave the job time for records and barriers.

    Each takes a step of a millisecond in each channel; jobs have up to two keyed operators behind each other.
    """
    source, keyed, sink = scenario.parallelisms()
    return scenario.watermark_interval > 2 * keyed * (source + keyed + sink)
