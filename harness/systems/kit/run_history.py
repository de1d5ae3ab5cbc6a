"""What the histories of all jobs in real processes have in common: attempts, strikes, recoveries, the end.

Rules:

- The history of a system has a RunHistory and adds to it what its processes log. It does not inherit from it.
- The number of an event is its step: real processes have no other.
- A recovery begins with the strike of a fault. The next attempt says from which checkpoint it resumes, and
  new rows end it. What a dying attempt still commits is not a recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from onceproof.harness.model.faults import FAULTS, KILLS
from onceproof.harness.model.history import History, Recovery
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.fault_clock import ClockState
from onceproof.harness.systems.recording import event_log

NO_FILES: Final[Mapping[str, bytes]] = {}
OUTSIDE: Final = "outside"
"""The point of a kill that no fault of the scenario sent: it can strike anywhere."""


class RunHistory:
    """The history of one job so far, and what its next process needs of it.

    Args:
        faults: those of the run.
        lengths: by split, the number of records.
        parallelism: of the first attempt.
        is_death: whether the job has to recover from a fault of a kind.
        position: how many records had been read at a death, by what the victim knew; None where unknown.
        sees_input: whether the readers of the job's input log how far they have come.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        lengths: Mapping[str, int],
        parallelism: int,
        is_death: Callable[[str], bool] = KILLS.__contains__,
        position: Callable[[Mapping[str, int]], int | None] | None = None,
        sees_input: bool = False,
    ) -> None:
        self.history = History()
        self.faults = faults
        self.lengths = dict(lengths)
        self.parallelism = parallelism
        """Of the attempt that runs, or ran last."""
        self.next_parallelism = parallelism
        """Of the next one: what the last rescale asked for."""
        self.step = 0
        self.attempt = ""
        self.complete: dict[int, dict[str, int]] = {}
        """By complete checkpoint, its cut."""
        self.recovering: list[tuple[Recovery, int, Mapping[str, int]]] = []
        """Recoveries that wait for rows, when each began, and how far each split had been read then."""
        self.points: dict[str, int] = {}
        """How often the process whose log is added has passed each point."""
        self.split_read: dict[str, int] = {}
        """By split, how far the attempt that runs is known to have read, where readers log that."""
        self.cause_of_death = "killed"
        """Why the process whose log was added last has ended, if it was not by itself."""
        self.is_over = False
        self.waiting = ClockState()
        """How far the faults had come, by the last one that struck."""
        self.death_was_planned = False
        """Whether a fault killed the process whose log was added last."""
        self.has_stopped = False
        """Whether the process whose log was added last has ended with a savepoint, to be started again."""
        self.has_given_up = False
        """Whether it has ended because a server was away that a fault had struck."""
        self._is_death = is_death
        self._sees_input = sees_input
        self._position = position or self._known_position

    def next_step(self) -> int:
        """Go to the next step, and return it."""
        self.step += 1
        return self.step

    def log_begins(self) -> None:
        """The log of another process follows."""
        self.death_was_planned = self.has_stopped = self.has_given_up = False
        self.cause_of_death = "killed"
        self.points = {}

    def add_event(self, event: dict[str, Any]) -> None:
        """Add an event that has the same meaning on every system. Raises ValueError for another one."""
        match event["kind"]:
            case event_log.FAULT_STRUCK:
                self.fault_struck(event)
            case event_log.TASK_FAILED:
                self.task_failed(event, event["attempt"])
            case event_log.ERROR:
                self.error(event["where"], event["type"], event["function"], event["text"])
            case event_log.JOB_FINISHED:
                self.points = event["points"]
                self.says_success()
            case event_log.JOB_FAILED:
                self.history.job_failed(self.step, event["cause"])
                self.is_over = True
            case unknown:
                raise ValueError(f"the event log has an event of the unknown kind {unknown!r}")

    # Attempts and checkpoints.

    def attempt_started(
        self,
        attempt: str,
        parallelism: int,
        restored: int | None,
        *,
        by_supervisor: bool = False,
        counts_replayed: bool = True,
    ) -> None:
        """Add an attempt; ``counts_replayed``: the checkpoint that it restores says what it reads again."""
        self.attempt = attempt
        self.parallelism = self.next_parallelism = parallelism
        self.history.attempt_started(self.step, attempt, parallelism, restored, by_supervisor=by_supervisor)
        self.history.statistics.attempts += 1
        for recovery, _, read in self.recovering:
            # A recovery that died again before anything became visible keeps its first checkpoint.
            if not recovery.parallelism_after:
                self.record_recovery(recovery, restored, read if counts_replayed else {})

    def record_recovery(self, recovery: Recovery, restored: int | None, read: Mapping[str, int]) -> None:
        """Record from which checkpoint a task or job recovers, and how many records it reads again.

        ``read`` is how far each split was read when it died.
        """
        cut = self.complete.get(restored or 0, {})
        recovery.restored = restored
        recovery.parallelism_after = self.parallelism
        recovery.replayed = sum([max(0, position - cut.get(split, 0)) for split, position in read.items()])
        self.history.statistics.records_replayed += recovery.replayed

    def checkpoint_completed(
        self, number: int, cut: dict[str, int], transactions: Sequence[str], in_flight: int = 0
    ) -> None:
        """Add a checkpoint of the attempt that runs."""
        self.complete[number] = cut
        self.history.checkpoint_completed(
            self.step, number, self.attempt, cut, transactions, (self.attempt,), in_flight
        )

    def job_commits_again(self, at: int) -> None:
        """End the wait for a commit: there is a new transaction, with rows or without."""
        for recovery, since, _ in self.recovering:
            if recovery.parallelism_after and recovery.commit_seconds is None:
                recovery.commit_seconds = (at - since) / 1e9

    def job_came_back(self, at: int) -> None:
        """End the recoveries: new rows can be read."""
        for recovery, since, _ in self.recovering:
            if recovery.parallelism_after:
                recovery.seconds = (at - since) / 1e9
        self.recovering = [each for each in self.recovering if not each[0].parallelism_after]

    # Faults and failures.

    def fault_struck(self, event: dict[str, Any], struck: str = "") -> None:
        """Add a strike; ``struck`` names what it hit, if not the task of the event."""
        self.waiting = msgspec.convert(event["waiting"], ClockState)
        self.points = event["points"]
        fault = self.faults[event["number"]]
        if event.get("again"):
            # The fault strikes repeatedly; only its first strike begins a recovery.
            self.history.fault_fired(
                self.step, fault.kind, fault.point, event["task"], fault.means, server=fault.server
            )
            return
        self.death_was_planned |= FAULTS[fault.kind].strikes == "process"
        self.next_parallelism = fault.rescale_to or self.next_parallelism
        self._fired(fault.kind, fault.point, struck or event["task"], event["at"], event["read"], fault.means)

    def task_failed(self, event: dict[str, Any], attempt: str) -> None:
        """Add the failure of a task of an attempt."""
        self.history.task_failed(self.step, event["task"], attempt, event["cause"], event["injected"])

    def error(self, where: str, kind: str, function: str, text: str) -> None:
        """Add an error of the job or of its system, which ends the run."""
        self.history.error(self.step, where, kind, function, text)
        self.is_over = True

    def _fired(
        self, kind: str, point: str, task: str, at: int, read: Mapping[str, int], means: str = ""
    ) -> None:
        self.history.fault_fired(self.step, kind, point, task, means)
        statistics = self.history.statistics
        statistics.count_strike(kind, point, means)
        if self._is_death(kind):
            recovery = Recovery(kind, point, task, self.parallelism, self._position(read), means=means)
            statistics.recoveries.append(recovery)
            self.recovering.append((recovery, at, read))

    def _known_position(self, read: Mapping[str, int]) -> int | None:
        # A task that dies in a restore knows only the sources that were restored before.
        return sum(read.values()) if read.keys() == self.lengths.keys() else None

    # The end of a process, and of the job.

    def killed(self, at: int) -> None:
        """Add the kill of the process; a fault that killed it is in its log already."""
        self.next_step()
        if not self.death_was_planned:
            self._fired("kill_process", OUTSIDE, "*", at, {})
        self.history.task_failed(self.step, "process", self.attempt, self.cause_of_death, injected=True)

    def left_behind(self, what: str, name: str) -> None:
        """Add something that is left behind, or is gone that should be there."""
        self.history.leak(self.step, what, name)

    def says_success(self) -> None:
        """Add that the job, or its process, says that all is done; and how much of the input was read."""
        self.history.job_finished(self.step)
        if self._sees_input:
            self.history.input_read(self.step, self.split_read, self.lengths)
        self.is_over = True

    def out_of_time(self) -> None:
        """Add that the job did not end within its time."""
        self.history.budget_exhausted(self.next_step())
        self.is_over = True

    def cannot_begin(self, what: str) -> None:
        """Add a process that ended without a log; ``what`` is what it printed last."""
        self.next_step()
        self.error("process", "ProcessEnded", "main", what)


class HistoryBuilder(Protocol):
    """Turns the event logs of one process after another into the history of a job."""

    @property
    def run(self) -> RunHistory:
        """The history so far."""

    def add_process_log(self, events: list[dict[str, Any]]) -> None:
        """Add the event log of one process, once it and all its children are dead."""

    def at_rest(self, checkpoints: Path, neighbour: Mapping[str, bytes] = NO_FILES) -> None:
        """Add what was left behind, once the job is over: transactions that were not ended, and files.

        ``checkpoints`` is the folder of checkpoints, unless they are in an object store. ``neighbour`` are
        the hidden files of another job in the output folder.
        """
