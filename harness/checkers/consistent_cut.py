"""consistent_cut: the visible rows always consist of whole transactions of completed checkpoints.

Sink subtasks commit one after another, so at most moments the visible rows equal no cut of the input, even
when the engine is correct. These anomalies are checked at every commit:

- early commit: a transaction is visible, and no completed checkpoint lists it.
- out of order: of two transactions of one sink subtask, the later became visible first. Excused: a commit
  that the external system had answered with an error (the transactions after it are committed anyway), and
  batches of write-ahead sinks from an earlier attempt (a restore may give them to several subtasks). A batch
  of the running attempt is excused only where the later one was sent right behind a refusal: each completed
  checkpoint has all batches tried again, oldest first, and an error holds back those behind it
  (`sent_batches.py`).
- skipped commit: an attempt commits its own output while a transaction listed by the checkpoint that it was
  restored from is not visible. The restore should have committed it. Batches of write-ahead sinks are
  excused: a restore leaves them to the next completed checkpoint.
- stopped before its commits: the job says that it has stopped with a savepoint, and a transaction that a
  completed checkpoint lists is not visible.
- stale restore: an attempt is restored from a checkpoint that is not the latest completed one. Excused: a
  job whose checkpoints a fault has taken away begins anew while no row is visible.
- wrong cut: exactly the transactions listed by checkpoints up to n are visible, and their rows are not those
  of the input before cut n. If checkpoint n holds records in flight, their rows may be missing, but no row
  from after the cut may be visible. With at-least-once the rule is reversed: rows of records that overtook a
  barrier may be visible already, and no row may be missing.

``table_reads.py`` judges sinks that write by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle, RowCounts, count_rows
from onceproof.harness.checkers.sent_batches import SentBatches
from onceproof.harness.checkers.table_reads import TableReads
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    COMMIT_FAILED,
    FAULT_FIRED,
    JOB_STOPPED,
    ROWS_WRITTEN,
    TRANSACTION_VISIBLE,
    Cut,
    History,
    Row,
)
from onceproof.harness.model.scenario import Scenario

EARLY_COMMIT = "early commit"
OUT_OF_ORDER = "out of order"
SKIPPED_COMMIT = "skipped commit"
UNCOMMITTED_STOP = "stopped before its commits"
STALE_RESTORE = "stale restore"
WRONG_CUT = "wrong cut"


class ConsistentCut:
    """Checks the visible rows after each commit of a run."""

    property = "consistent_cut"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the violations in the order in which they became visible."""
        if not scenario.takes_checkpoints:
            # There is no cut; mode judges the rows of each attempt.
            return ()
        follower = _CommitFollower(oracle, history, scenario.is_exactly_once)
        has_rows = is_lost = False
        for step, kind, subject, payload in history.events:
            if kind == TRANSACTION_VISIBLE:
                has_rows |= bool(payload["rows"])
                follower.transaction_visible(step, subject, payload)
            elif kind == CHECKPOINT_COMPLETED:
                follower.checkpoint_completed(step, subject, payload)
            elif kind == ROWS_WRITTEN:
                has_rows = True
                follower.rows_written(step, subject, payload)
            elif kind == ATTEMPT_STARTED:
                if is_lost and not has_rows and payload["restored"] is None:
                    follower = _CommitFollower(oracle, history, scenario.is_exactly_once, follower.violations)
                follower.attempt_started(step, subject, payload["restored"])
            elif kind == COMMIT_FAILED:
                follower.failed_commits.add(subject)
                follower.batches.refused(subject, holds_back="holds_back" in payload)
            elif kind == FAULT_FIRED:
                follower.batches.fault_fired(subject)
                is_lost |= subject == "lose_folder"
            elif kind == JOB_STOPPED and "cancelled" not in payload:
                follower.job_stopped(step)
        return follower.violations


class _CommitFollower:
    """The completed checkpoints and visible transactions up to one event of the history.

    An "index" below is a position in ``checkpoints``.
    """

    __slots__ = (
        "batches",
        "checkpoints",
        "failed_commits",
        "first_listed",
        "highest_visible",
        "history",
        "is_exactly_once",
        "last_compared",
        "last_epochs",
        "listed_counts",
        "oracle",
        "restored_from",
        "rows",
        "running",
        "table_reads",
        "violations",
        "visible_counts",
    )

    def __init__(
        self,
        oracle: Oracle,
        history: History,
        is_exactly_once: bool,
        violations: Sequence[Violation] = (),
    ) -> None:
        self.oracle = oracle
        self.history = history
        self.is_exactly_once = is_exactly_once
        self.violations: list[Violation] = [*violations]
        self.rows: list[Row] = []
        self.checkpoints: list[tuple[int, Cut, int]] = []
        """The completed checkpoints in order: id, cut, number of records in flight."""
        self.first_listed: dict[str, int] = {}
        """By transaction, the index of the first checkpoint that lists it."""
        self.listed_counts: list[int] = []
        """By index, how many transactions that checkpoint was the first to list."""
        self.visible_counts: list[int] = []
        """By index, how many of those are visible."""
        self.highest_visible = -1
        """The highest index with a visible transaction."""
        self.last_compared = -1
        """The highest index whose cut was compared."""
        self.last_epochs: dict[tuple[str, str, int], int] = {}
        """By (attempt, sink, subtask), the epoch of its latest visible transaction."""
        self.failed_commits: set[str] = set()
        self.batches = SentBatches()
        self.restored_from: dict[str, int | None] = {}
        """By attempt that has committed nothing of its own yet, the index that it was restored from."""
        self.running = ""
        self.table_reads: TableReads | None = None
        """Set if the family's sink writes by key."""
        if oracle.table_keys:
            self.table_reads = TableReads(ConsistentCut.property, oracle, self.violations)

    def attempt_started(self, step: int, attempt: str, restored: int | None) -> None:
        self.running = attempt
        latest = self.checkpoints[-1][0] if self.checkpoints else None
        if restored != latest:
            witness = {"step": step, "attempt": attempt, "restored": restored, "latest": latest}
            self._violate(STALE_RESTORE, f"attempt {attempt}, step {step}", witness)
        self.restored_from[attempt] = len(self.checkpoints) - 1 if restored == latest else None

    def checkpoint_completed(self, step: int, checkpoint: int, payload: dict[str, Any]) -> None:
        if "outside" in payload:
            # Where transactions are not seen, it is only judged which checkpoint is restored.
            self.checkpoints.append((checkpoint, payload["cut"], payload["in_flight"]))
            return
        index = len(self.checkpoints)
        first_listed = self.first_listed
        new = [transaction for transaction in payload["transactions"] if transaction not in first_listed]
        for transaction in new:
            first_listed[transaction] = index
        self.batches.listed(new)
        self.checkpoints.append((checkpoint, payload["cut"], payload["in_flight"]))
        self.listed_counts.append(len(new))
        self.visible_counts.append(0)
        if self.table_reads is None or first_listed:
            self._compare_cuts(step)
        if self.table_reads is not None:
            self.table_reads.checkpoint_completed(step, checkpoint, payload["cut"], payload["in_flight"])

    def transaction_visible(self, step: int, transaction: str, payload: dict[str, Any]) -> None:
        self.rows += payload["rows"]
        index = self.first_listed.get(transaction)
        if index is None:
            witness = {"step": step, "transaction": transaction, "rows": _first_rows(payload["rows"])}
            self._violate(EARLY_COMMIT, f"transaction {transaction}, step {step}", witness)
            # Its rows are of no known cut, so no later cut is compared: each would differ for this reason.
            self.last_compared = len(self.checkpoints) + 1_000_000
            return
        attempt, epoch = payload["attempt"], payload["epoch"]
        writer = (attempt, payload.get("sink", ""), payload["subtask"])
        last = self.last_epochs.get(writer, -1)
        is_excused = transaction in self.failed_commits
        if "waits" in payload:
            # A restored batch may be in another subtask than those before and after it.
            is_excused = self.batches.sent(writer, epoch, transaction) or attempt != self.running
        if epoch > last:
            self.last_epochs[writer] = epoch
        elif epoch < last and not is_excused:
            witness = {"step": step, "transaction": transaction, "epoch": epoch, "already visible": last}
            self._violate(OUT_OF_ORDER, f"transaction {transaction}, step {step}", witness)
        if "waits" not in payload:
            self._check_restored_before(step, transaction, attempt)
        self.visible_counts[index] += 1
        if index > self.highest_visible:
            self.highest_visible = index
        self._compare_cuts(step)

    def job_stopped(self, step: int) -> None:
        """Check that everything that completed checkpoints list is visible."""
        if missing := sum(self.listed_counts) - sum(self.visible_counts):
            witness = {
                "step": step,
                "checkpoint": self.checkpoints[-1][0],
                "transactions not visible": missing,
            }
            self._violate(UNCOMMITTED_STOP, f"step {step}", witness)

    def rows_written(self, step: int, task: str, payload: dict[str, Any]) -> None:
        assert self.table_reads is not None, "a family whose sink writes by key has table_keys"
        self.table_reads.rows_written(step, task, payload["rows"])

    def _check_restored_before(self, step: int, transaction: str, attempt: str) -> None:
        """Check, at the first commit of an attempt's own output, that its restore committed all it had to."""
        index = self.restored_from.pop(attempt, None)
        if index is None:
            return
        listed, visible = self.listed_counts[: index + 1], self.visible_counts[: index + 1]
        if visible != listed:
            missing = sum(listed) - sum(visible)
            witness = {
                "step": step,
                "transaction": transaction,
                "attempt": attempt,
                "restored": self.checkpoints[index][0],
                "transactions not visible": missing,
            }
            self._violate(SKIPPED_COMMIT, f"transaction {transaction}, step {step}", witness)

    def _compare_cuts(self, step: int) -> None:
        """Compare the visible rows with each cut whose transactions are exactly the visible ones."""
        highest = self.highest_visible
        if (
            self.last_compared >= len(self.checkpoints)
            or self.visible_counts[: highest + 1] != self.listed_counts[: highest + 1]
        ):
            return
        index = highest if highest > self.last_compared else self.last_compared + 1
        while 0 <= index < len(self.checkpoints) and (index <= highest or not self.listed_counts[index]):
            self.last_compared = index
            checkpoint, cut, in_flight = self.checkpoints[index]
            expected = self.oracle.rows_at(cut, self.rows, self.history, checkpoint)
            actual = count_rows(self.rows)
            if actual != expected and (missing_and_extra := self._difference(expected, actual, in_flight)):
                missing, extra = missing_and_extra
                witness = {
                    "step": step,
                    "checkpoint": checkpoint,
                    "cut": dict(cut),
                    "missing": _first_rows(missing),
                    "not of the cut": _first_rows(extra),
                }
                self._violate(WRONG_CUT, f"checkpoint {checkpoint}, step {step}", witness)
            index += 1

    def _difference(
        self, expected: RowCounts, actual: RowCounts, in_flight: int
    ) -> tuple[list[Row], list[Row]] | None:
        """Return (missing rows, extra rows); None if the guarantee and the records in flight allow them."""
        missing = [row for row, count in expected.items() if actual.get(row, 0) < count]
        extra = [row for row, count in actual.items() if expected.get(row, 0) < count]
        wrong = missing if not self.is_exactly_once else extra if in_flight else [*missing, *extra]
        return (missing, extra) if wrong else None

    def _violate(self, anomaly: str, where: str, witness: dict[str, Any]) -> None:
        self.violations.append(Violation(ConsistentCut.property, anomaly, where, witness))


def _first_rows(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(row) for row in rows[:WITNESS_ROWS]]
