"""consistent_cut: what can be read is always made of whole transactions of completed checkpoints.

Sink subtasks commit one after another, so at most moments the visible rows equal no cut of the input, on a
sound engine too. What does hold, and is checked at every commit:

- early commit: a transaction is visible although no checkpoint that has completed lists it.
- out of order: of two transactions of the same sink subtask the later one became visible first. A commit that
  the external system had answered with an error is excused: the ones behind it are committed all the same. So
  are batches of write-ahead sinks that an earlier attempt made: a restore may give them to several subtasks.
- skipped commit: an attempt commits its own output while something that the checkpoint it was restored from
  lists is not visible; the restore should have committed it. Batches of write-ahead sinks are excused, since
  a restore leaves them to the next completion.
- stale restore: an attempt is restored from another checkpoint than the latest that had completed.
- wrong cut: exactly the transactions listed by checkpoints up to n are visible, and the rows in them are not
  those of the input before cut n. Where checkpoint n holds records in flight, what follows from them is not
  there yet: rows may be missing, but none may be there that is not of the cut. At-least-once is the other way
  round: what overtook a barrier may be there already, and nothing may be missing.

Of sinks that write by key ``tables.py`` tells what may be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.harness.checkers.base import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle, RowCounts, count_rows
from onceproof.harness.checkers.table_reads import Tables
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    COMMIT_FAILED,
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
STALE_RESTORE = "stale restore"
WRONG_CUT = "wrong cut"


class ConsistentCut:
    """Follows the commits of a run one by one."""

    property = "consistent_cut"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the violations in the order in which they became visible."""
        reading = _Reading(oracle, scenario.is_exactly_once)
        for step, kind, subject, payload in history.events:
            if kind == TRANSACTION_VISIBLE:
                reading.visible(step, subject, payload)
            elif kind == CHECKPOINT_COMPLETED:
                reading.completed(step, subject, payload)
            elif kind == ROWS_WRITTEN:
                reading.written(step, subject, payload)
            elif kind == ATTEMPT_STARTED:
                reading.started(step, subject, payload["restored"])
            elif kind == COMMIT_FAILED:
                reading.failed_commits.add(subject)
        return reading.violations


class _Reading:
    """What a reader of the history knows at one moment of it."""

    __slots__ = (
        "checked",
        "checkpoints",
        "failed_commits",
        "first_listed",
        "highest",
        "is_exactly_once",
        "last_epochs",
        "listed",
        "oracle",
        "restored",
        "rows",
        "running",
        "seen",
        "tables",
        "violations",
    )

    def __init__(self, oracle: Oracle, is_exactly_once: bool) -> None:
        self.oracle = oracle
        self.is_exactly_once = is_exactly_once
        self.violations: list[Violation] = []
        self.rows: list[Row] = []
        self.checkpoints: list[tuple[int, Cut, int]] = []
        """The completed ones in order, each with its cut and the number of records that it holds in flight;
        "place" below is an index into this list."""
        self.first_listed: dict[str, int] = {}
        """By transaction, the place of the first checkpoint that lists it."""
        self.listed: list[int] = []
        """By place, how many transactions that checkpoint was the first to list."""
        self.seen: list[int] = []
        """By place, how many of those are visible."""
        self.highest = -1
        """The highest place of which something is visible."""
        self.checked = -1
        """The highest place whose cut was compared."""
        self.last_epochs: dict[tuple[str, int], int] = {}
        self.failed_commits: set[str] = set()
        self.restored: dict[str, int | None] = {}
        """By attempt that has not yet committed anything of its own, the place it was restored from."""
        self.running = ""
        self.tables: Tables | None = None
        """Where the family writes by key."""
        if oracle.table_keys:
            self.tables = Tables(ConsistentCut.property, oracle, self.violations)

    def started(self, step: int, attempt: str, restored: int | None) -> None:
        self.running = attempt
        latest = self.checkpoints[-1][0] if self.checkpoints else None
        if restored != latest:
            witness = {"step": step, "attempt": attempt, "restored": restored, "latest": latest}
            self._violate(STALE_RESTORE, f"attempt {attempt}, step {step}", witness)
        self.restored[attempt] = len(self.checkpoints) - 1 if restored == latest else None

    def completed(self, step: int, checkpoint: int, payload: dict[str, Any]) -> None:
        place = len(self.checkpoints)
        first_listed = self.first_listed
        new = [transaction for transaction in payload["transactions"] if transaction not in first_listed]
        for transaction in new:
            first_listed[transaction] = place
        self.checkpoints.append((checkpoint, payload["cut"], payload["in_flight"]))
        self.listed.append(len(new))
        self.seen.append(0)
        if self.tables is None or first_listed:
            self._compare_cuts(step)
        if self.tables is not None:
            self.tables.completed(step, checkpoint, payload["cut"], payload["in_flight"])

    def visible(self, step: int, transaction: str, payload: dict[str, Any]) -> None:
        self.rows += payload["rows"]
        place = self.first_listed.get(transaction)
        if place is None:
            witness = {"step": step, "transaction": transaction, "rows": _shown(payload["rows"])}
            self._violate(EARLY_COMMIT, f"transaction {transaction}, step {step}", witness)
            # It counts as listed by the next checkpoint from here on; no cut can be compared any more.
            self.checked = len(self.checkpoints) + 1_000_000
            return
        attempt, epoch = payload["attempt"], payload["epoch"]
        writer = (attempt, payload["subtask"])
        last = self.last_epochs.get(writer, -1)
        if epoch > last:
            self.last_epochs[writer] = epoch
        elif (
            epoch < last
            and transaction not in self.failed_commits
            and ("waits" not in payload or attempt == self.running)
        ):
            witness = {"step": step, "transaction": transaction, "epoch": epoch, "already visible": last}
            self._violate(OUT_OF_ORDER, f"transaction {transaction}, step {step}", witness)
        if "waits" not in payload:
            self._check_restored_before(step, transaction, attempt)
        self.seen[place] += 1
        if place > self.highest:
            self.highest = place
        self._compare_cuts(step)

    def written(self, step: int, task: str, payload: dict[str, Any]) -> None:
        assert self.tables is not None, "a family whose sink writes by key has table_keys"
        self.tables.written(step, task, payload["rows"])

    def _check_restored_before(self, step: int, transaction: str, attempt: str) -> None:
        """Check, at the first commit of an attempt's own, that its restore left nothing uncommitted."""
        place = self.restored.pop(attempt, None)
        if place is None:
            return
        if self.seen[: place + 1] != self.listed[: place + 1]:
            missing = sum(self.listed[: place + 1]) - sum(self.seen[: place + 1])
            witness = {
                "step": step,
                "transaction": transaction,
                "attempt": attempt,
                "restored": self.checkpoints[place][0],
                "transactions not visible": missing,
            }
            self._violate(SKIPPED_COMMIT, f"transaction {transaction}, step {step}", witness)

    def _compare_cuts(self, step: int) -> None:
        """Compare with every cut whose transactions are exactly the visible ones."""
        highest = self.highest
        if self.checked >= len(self.checkpoints) or self.seen[: highest + 1] != self.listed[: highest + 1]:
            return
        place = highest if highest > self.checked else self.checked + 1
        while 0 <= place < len(self.checkpoints) and (place <= highest or not self.listed[place]):
            self.checked = place
            checkpoint, cut, in_flight = self.checkpoints[place]
            expected = self.oracle.rows_at(cut, self.rows)
            actual = count_rows(self.rows)
            if actual != expected and (missing_or_extra := self._differing(expected, actual, in_flight)):
                missing, extra = missing_or_extra
                witness = {
                    "step": step,
                    "checkpoint": checkpoint,
                    "cut": dict(cut),
                    "missing": _shown(missing),
                    "not of the cut": _shown(extra),
                }
                self._violate(WRONG_CUT, f"checkpoint {checkpoint}, step {step}", witness)
            place += 1

    def _differing(
        self, expected: RowCounts, actual: RowCounts, in_flight: int
    ) -> tuple[list[Row], list[Row]] | None:
        """Return the rows that must not be missing or be there; None if all of it may be."""
        missing = [row for row, count in expected.items() if actual.get(row, 0) < count]
        extra = [row for row, count in actual.items() if expected.get(row, 0) < count]
        wrong = missing if not self.is_exactly_once else extra if in_flight else [*missing, *extra]
        return (missing, extra) if wrong else None

    def _violate(self, anomaly: str, where: str, witness: dict[str, Any]) -> None:
        self.violations.append(Violation(ConsistentCut.property, anomaly, where, witness))


def _shown(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(row) for row in rows[:WITNESS_ROWS]]
