"""Situations: named patterns of a run's history, counted so that a campaign knows where it has been.

A fault that strikes at a point says little of what the job was in at the time. Bugs of recovery survive where
recoveries follow each other, where restoring itself is killed, where a job stops, where answers come late.
Each of these is a situation. A campaign that was never in one has proved nothing of it.

The rules this module lives by:

- A situation is recognised from the visible events of a run, in one pass, for every run: so it costs a few
  hundredths of what the run costs. It judges nothing.
- It is counted once for each scenario, however often the run was in it.
- The names stand in outcomes and reports. They are never renamed.
- A large campaign fails for a situation that it was never in; one that it was in less often than once in
  RARE scenarios is a warning, with the family to ask for it. It is not asked for one that the generator
  draws less often than once in some thousand scenarios: such a hole is named in harness/docs/power.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from onceproof.harness.model.faults import KILLS, row_of
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_ABORTED,
    CHECKPOINT_COMPLETED,
    CHECKPOINT_DECLINED,
    CHECKPOINT_TRIGGERED,
    COMMIT_FAILED,
    FAULT_FIRED,
    JOB_FAILED,
    JOB_RESCALED,
    JOB_STOPPED,
    SAVEPOINT_COMPLETED,
    STOP_FAILED,
    TRANSACTION_VISIBLE,
    WRITE_REFUSED,
    History,
)
from onceproof.harness.model.scenario import Scenario

RARE: Final = 500
"""A situation that fewer than one in so many scenarios were in is rare."""

EXPIRED: Final = "CHECKPOINT_EXPIRED"
SUBSUMED: Final = "CHECKPOINT_SUBSUMED"
"""The reasons of the coordinator, written a second time: the judge does not import the accused."""


class Situation(Struct, frozen=True):
    """One pattern of a run's history."""

    name: str
    purpose: str
    """Which bugs show there and nowhere else."""
    family: str = "word_count"
    """The built-in family that is in it most often."""
    drawn: bool = True
    """Whether the generator draws it often enough that a large campaign must have been in it."""


SITUATIONS: Final = (
    Situation("restored", "what one recovery loses or repeats"),
    Situation("restored from two checkpoints", "what a restored job forgets to store again"),
    Situation("restored from three checkpoints", "what is handed on from one recovery to the next"),
    Situation("same checkpoint restored again", "a restore that takes what the one before it began for done"),
    Situation("restored from nothing", "leftovers of an attempt that completed no checkpoint"),
    Situation("killed while restoring", "a restore that was done in part"),
    Situation("killed at completion, then while restoring", "commits that only the restore would repeat"),
    Situation("killed before its first checkpoint", "what a restored attempt does before it has progress"),
    Situation("three attempts without progress", "what counts attempts, or gives a checkpoint up"),
    Situation("one checkpoint for each attempt", "a chain of recoveries, each from the one before"),
    Situation("rescaled down", "state of subtasks that are gone"),
    Situation("rescaled up", "state for subtasks that are new"),
    Situation("rescaled twice", "state that was dealt out is dealt out again"),
    Situation("rescaled while it runs", "tasks that are closed in order, and not killed, before a restore"),
    Situation("rescaled while transactions are open", "what a sink does with rows that no checkpoint has"),
    Situation("key groups came back", "what a subtask keeps of key groups that it had before"),
    Situation("restored with something prepared", "transactions that only the restore can commit"),
    Situation("restored when some was committed", "a commit that is repeated for a part of a checkpoint"),
    Situation("commit failed", "a sink that takes an error for success"),
    Situation("commit failed at a restore", "a restore that goes on though it could not commit"),
    Situation("notification lost, then restored", "output that no later notification has committed"),
    Situation("records in flight restored", "what an unaligned checkpoint stores beside state"),
    Situation("records in flight restored twice", "records in flight that are stored again, or not"),
    Situation("records in flight rescaled", "which subtask gets which record in flight"),
    Situation("ended subtasks restored", "a subtask that must not begin again"),
    Situation("ended subtasks rescaled", "what is dealt out of subtasks that have stored nothing"),
    Situation("killed behind the end of the data", "the last checkpoint, whose loss no later one repairs"),
    Situation("expired, then completed", "answers that come for a checkpoint that was given up"),
    Situation("declined, then completed", "what a task keeps of a checkpoint that it could not take"),
    Situation("write refused, then completed", "what the storage keeps of a write that failed"),
    Situation("two checkpoints at a time", "what belongs to which of them"),
    Situation("checkpoint subsumed", "a checkpoint that ends because a newer one is complete"),
    Situation("id of a checkpoint used again", "late messages and files of the one that had it before"),
    Situation("found complete by the next process", "metadata of which no task was notified"),
    Situation("more than nine checkpoints", "numbers that are compared as text"),
    Situation("more than nine attempts", "names of attempts that are compared as text"),
    Situation("more than nine processes", "names of processes that are compared as text"),
    Situation("job master lost", "tasks that outlive the master to which they answer"),
    Situation("power cut, then restored", "files that were not synced"),
    Situation("clock set back between checkpoints", "what is ordered by the wall clock"),
    Situation("late put", "a write that is performed when its writer is gone"),
    Situation("deletion failed, then another process", "files that should not be there any more"),
    Situation("upload discarded, then completed", "files that were deleted as failed, and are needed"),
    Situation("savepoint between checkpoints", "a savepoint that is taken for a checkpoint"),
    Situation("cancelled with a savepoint", "output that is left to the job that is started from it"),
    Situation("restored behind a savepoint", "output that a savepoint must not commit"),
    Situation("stopped and started again", "what a savepoint holds, and what is committed at a stop"),
    Situation("stopped and rescaled", "a savepoint that is dealt out anew"),
    Situation("stop failed", "a job that goes on when it could not be stopped"),
    Situation("stopped with something prepared", "output of a checkpoint that only the stop commits"),
    Situation("killed while stopping", "a stop whose savepoint is complete, and not committed"),
    Situation("record late after a restore", "event time that a restored job begins anew", "window_sum"),
    Situation("incremental checkpoint restored", "files that several checkpoints share"),
    Situation("failed for good, then submitted again", "what a job leaves that ends by its restart strategy"),
    Situation("parallelism limit left to the checkpoint", "key groups of a limit that no job has set"),
    Situation("function left", "an exit that is taken for the end of the job"),
    Situation("restored from a changed input", "positions in an input that is another one by now"),
    Situation("changed input reported", "a job that goes on where it has to give up"),
    Situation(
        "visible output taken away before a restore",
        "a commit that is repeated, and finds nothing",
        "files_rolling",
        drawn=False,
    ),
)

NAMES: Final = tuple(situation.name for situation in SITUATIONS)
"""The names, in the order of reports."""

_RESTORING: Final = frozenset(("restoring", "restored"))
_NO_PAYLOAD: Final[Mapping[str, Any]] = {}


class _Watch:
    """What was seen of a run so far; one method for each kind of event."""

    __slots__ = (
        "attempts",
        "barren",
        "chain",
        "checkpoints",
        "clock_back",
        "completed",
        "completions",
        "declined",
        "deletion_failed",
        "died_at",
        "discarded",
        "earlier_parallelisms",
        "ended",
        "expired",
        "first_process",
        "found",
        "has_ended_process",
        "has_failed",
        "in_attempt",
        "in_flight_restores",
        "input_changed",
        "latest",
        "notification_lost",
        "other_process_restored",
        "output_taken",
        "parallelism",
        "pending",
        "power_cut",
        "refused",
        "restored",
        "restored_ids",
        "restores",
        "savepoint",
        "savepoint_since",
        "stopped",
        "stopping",
        "triggered",
        "visible",
        "was_rescaled",
    )

    def __init__(self, history: History) -> None:
        self.found: set[str] = set()
        self.completions = history.statistics.completions
        self.ended: dict[int, int] = {}
        self.completed: dict[int, Mapping[str, Any]] = {}
        self.visible: set[str] = set()
        self.triggered: set[int] = set()
        self.pending: set[int] = set()
        self.restored_ids: set[int] = set()
        self.earlier_parallelisms: set[int] = set()
        self.attempts = self.restores = self.in_flight_restores = 0
        self.barren = self.chain = self.checkpoints = self.in_attempt = self.savepoint = 0
        self.parallelism = 0
        self.restored: int | None = None
        self.first_process = ""
        self.died_at = ""
        """The point of the last kill of the attempt."""
        self.expired = self.declined = self.refused = self.savepoint_since = False
        self.has_ended_process = self.clock_back = self.notification_lost = self.stopped = False
        self.power_cut = self.deletion_failed = self.stopping = self.discarded = False
        self.was_rescaled = False
        """Whether the attempt is over because its user has rescaled the job."""
        self.input_changed = self.output_taken = self.has_failed = self.other_process_restored = False
        self.latest: Mapping[str, Any] = _NO_PAYLOAD

    def transaction_visible(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.visible.add(subject)

    def triggered_one(self, subject: int, payload: Mapping[str, Any]) -> None:
        if subject in self.triggered:
            self.found.add("id of a checkpoint used again")
        self.triggered.add(subject)
        self.pending.add(subject)
        if len(self.pending) > 1:
            self.found.add("two checkpoints at a time")

    def completed_one(self, subject: int, payload: Mapping[str, Any]) -> None:
        found = self.found
        place = self.checkpoints
        ended, stops = self.completions[place] if place < len(self.completions) else (0, False)
        if stops:
            self.stopping = True
            if any(each not in self.visible for each in self.latest.get("transactions", ())):
                found.add("stopped with something prepared")
        self.completed[subject] = self.latest = payload
        self.ended[subject] = ended
        self.pending.discard(subject)
        self.checkpoints += 1
        self.in_attempt += 1
        if self.expired:
            found.add("expired, then completed")
        if self.declined:
            found.add("declined, then completed")
        if self.refused:
            found.add("write refused, then completed")
        if self.discarded:
            found.add("upload discarded, then completed")
        if self.has_ended_process:
            found.add("found complete by the next process")
        if self.savepoint_since and self.checkpoints > 1:
            found.add("savepoint between checkpoints")
        self.savepoint_since = False
        if self.clock_back and self.checkpoints > 1:
            found.add("clock set back between checkpoints")
        self.clock_back = False
        if self.checkpoints == 10:
            found.add("more than nine checkpoints")

    def aborted_one(self, subject: int, payload: Mapping[str, Any]) -> None:
        self.pending.discard(subject)
        if payload["reason"] == EXPIRED:
            self.expired = True
        elif payload["reason"] == SUBSUMED:
            self.found.add("checkpoint subsumed")

    def declined_one(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.declined = True

    def write_refused(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.refused = True

    def commit_failed(self, subject: str, payload: Mapping[str, Any]) -> None:
        at_restore = self.restored is not None and not self.in_attempt
        self.found.add("commit failed at a restore" if at_restore else "commit failed")

    def savepoint_completed(self, subject: int, payload: Mapping[str, Any]) -> None:
        self.savepoint = subject
        self.savepoint_since = True

    def job_stopped(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.stopped = True
        if "cancelled" in payload:
            self.found.add("cancelled with a savepoint")

    def job_failed(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.has_failed = True
        if self.input_changed:
            self.found.add("changed input reported")

    def stop_failed(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.found.add("stop failed")

    def job_rescaled(self, subject: str, payload: Mapping[str, Any]) -> None:
        self.was_rescaled = True
        self.found.add("rescaled while it runs")
        if payload.get("open"):
            self.found.add("rescaled while transactions are open")

    def fault_fired(self, subject: str, payload: Mapping[str, Any]) -> None:
        point = payload["point"]
        if subject in KILLS:
            self._killed(subject, point)
        elif subject == "clock_back":
            self.clock_back = True
        elif subject == "lose_message":
            self.notification_lost = self.notification_lost or point == "notified"
        elif subject == "late_put":
            self.found.add("late put")
        elif subject == "write_error_after_success":
            self.discarded = True
        elif subject == "function_leaves":
            self.found.add("function left")
        elif subject == "change_input":
            self.input_changed = True
        elif subject == "move_output":
            self.output_taken = True
        elif subject == "fail_delete" or subject == "stale_list":
            self.deletion_failed = True

    def _killed(self, kind: str, point: str) -> None:
        if point in _RESTORING and not self.in_attempt:
            self.found.add("killed while restoring")
            if self.chain_began_at_completion():
                self.found.add("killed at completion, then while restoring")
        elif point == "end_of_data":
            self.found.add("killed behind the end of the data")
        self.died_at = point
        row = row_of(kind)
        if row is not None and not row.kills_tasks:
            self.has_ended_process = True
            if kind == "kill_master":
                self.found.add("job master lost")
            elif kind == "power_cut":
                self.power_cut = True

    def chain_began_at_completion(self) -> bool:
        """Return whether the attempt before this one died when a checkpoint was complete."""
        return self.restored is not None and self.died_at == "completed"

    def attempt_started(self, subject: str, payload: Mapping[str, Any]) -> None:
        found, restored, parallelism = self.found, payload["restored"], payload["parallelism"]
        self.attempts += 1
        self.first_process = self.first_process or subject.partition(".")[0]
        before = self.parallelism
        if self.attempts > 1:
            self._followed(restored)
            if parallelism != before:
                self._rescaled(before, parallelism, restored)
        if self.stopping and not self.stopped:
            found.add("killed while stopping")
        if self.has_failed:
            found.add("failed for good, then submitted again")
        if self.stopped:
            found.add("stopped and started again")
            if parallelism != before:
                found.add("stopped and rescaled")
        if restored is not None:
            self._restored(restored, parallelism != before)
            self.other_process_restored |= subject.partition(".")[0] != self.first_process
            if self.input_changed:
                found.add("restored from a changed input")
            if self.output_taken:
                found.add("visible output taken away before a restore")
        elif self.attempts > 1:
            found.add("restored from nothing")
        if self.attempts == 10:
            found.add("more than nine attempts")
        if len(subject.partition(".")[0]) > 1:
            found.add("more than nine processes")
        if self.deletion_failed and self.has_ended_process:
            found.add("deletion failed, then another process")
        self.parallelism = parallelism
        self.restored = restored
        self.in_attempt = 0
        self.pending.clear()
        self.expired = self.declined = self.refused = self.discarded = False
        self.has_ended_process = self.notification_lost = self.power_cut = False
        self.stopped = self.stopping = self.was_rescaled = False

    def _followed(self, restored: int | None) -> None:
        """Note how the attempt before this one went."""
        if self.in_attempt:
            self.barren = 0
            self.chain = self.chain + 1 if self.in_attempt == 1 and restored is not None else 0
            if self.chain == 3:
                self.found.add("one checkpoint for each attempt")
            return
        self.chain = 0
        if self.was_rescaled:
            # It did not fail.
            return
        self.barren += 1
        if self.restored is not None:
            self.found.add("killed before its first checkpoint")
        if self.barren == 3:
            self.found.add("three attempts without progress")

    def _rescaled(self, before: int, parallelism: int, restored: int | None) -> None:
        found = self.found
        if "rescaled down" in found or "rescaled up" in found:
            found.add("rescaled twice")
        found.add("rescaled down" if parallelism < before else "rescaled up")
        if self.in_attempt:
            # What the subtasks do with the key groups that they have for now is stored.
            if parallelism in self.earlier_parallelisms and restored is not None:
                found.add("key groups came back")
            self.earlier_parallelisms.add(before)

    def _restored(self, restored: int, is_rescaled: bool) -> None:
        found = self.found
        found.add("restored")
        self.restores += 1
        if restored == self.restored:
            found.add("same checkpoint restored again")
        elif restored not in self.restored_ids:
            self.restored_ids.add(restored)
            if len(self.restored_ids) == 2:
                found.add("restored from two checkpoints")
            elif len(self.restored_ids) == 3:
                found.add("restored from three checkpoints")
        if restored < self.savepoint and not self.stopped:
            found.add("restored behind a savepoint")
        if self.notification_lost:
            found.add("notification lost, then restored")
        if self.power_cut:
            found.add("power cut, then restored")
        payload = self.completed.get(restored, _NO_PAYLOAD)
        listed = payload.get("transactions")
        if listed:
            left = sum([each not in self.visible for each in listed])
            if left:
                found.add("restored with something prepared")
                if left < len(listed):
                    found.add("restored when some was committed")
        if payload.get("in_flight"):
            self.in_flight_restores += 1
            found.add("records in flight restored")
            if self.in_flight_restores == 2:
                found.add("records in flight restored twice")
            if is_rescaled:
                found.add("records in flight rescaled")
        if self.ended.get(restored):
            found.add("ended subtasks restored")
            if is_rescaled:
                found.add("ended subtasks rescaled")


_HANDLERS: Final[Mapping[str, Callable[[_Watch, Any, Mapping[str, Any]], None]]] = {
    TRANSACTION_VISIBLE: _Watch.transaction_visible,
    CHECKPOINT_TRIGGERED: _Watch.triggered_one,
    CHECKPOINT_COMPLETED: _Watch.completed_one,
    CHECKPOINT_ABORTED: _Watch.aborted_one,
    CHECKPOINT_DECLINED: _Watch.declined_one,
    WRITE_REFUSED: _Watch.write_refused,
    COMMIT_FAILED: _Watch.commit_failed,
    SAVEPOINT_COMPLETED: _Watch.savepoint_completed,
    JOB_STOPPED: _Watch.job_stopped,
    STOP_FAILED: _Watch.stop_failed,
    JOB_RESCALED: _Watch.job_rescaled,
    JOB_FAILED: _Watch.job_failed,
    FAULT_FIRED: _Watch.fault_fired,
    ATTEMPT_STARTED: _Watch.attempt_started,
}


def situations_of(scenario: Scenario, history: History) -> tuple[str, ...]:
    """Return the names of the situations that a run was in, sorted."""
    watch = _Watch(history)
    handlers = _HANDLERS
    for _, kind, subject, payload in history.events:
        handler = handlers.get(kind)
        if handler is not None:
            handler(watch, subject, payload)
    found = watch.found
    if history.statistics.stops_failed:
        found.add("stop failed")
    if history.statistics.late_after_restore:
        found.add("record late after a restore")
    if scenario.incremental is True and watch.restores:
        found.add("incremental checkpoint restored")
    if scenario.leaves_max_parallelism is True and watch.other_process_restored:
        found.add("parallelism limit left to the checkpoint")
    return tuple(sorted(found))
