"""fencing: a dead attempt makes nothing visible and destroys nothing that is visible.

Anomalies:

- zombie commit: a transaction of an older attempt becomes visible, and no completed checkpoint listed it when
  the newer attempt started. A transaction that was listed by then may be committed by any attempt. In a job
  without checkpoints, a commit that was answered with an error may take place at any time.
- zombie checkpoint: a checkpoint completes that belongs to an attempt other than the running one.
- foreign snapshot: a completed checkpoint holds a snapshot that another attempt wrote. It belongs to another
  cut than the other snapshots, and its file may be deleted before a restore reads it.
- zombie write: a sink that writes by key does so in an attempt that is not the running one.
- visible twice: one transaction becomes visible a second time.
- hidden: rows that could be read are gone.
- replaced: a sink that should only add rows has put new rows in place of earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    COMMIT_FAILED,
    ROWS_GONE,
    ROWS_WRITTEN,
    TRANSACTION_HIDDEN,
    TRANSACTION_VISIBLE,
    History,
)
from onceproof.harness.model.scenario import Scenario

ZOMBIE_COMMIT = "zombie commit"
ZOMBIE_WRITE = "zombie write"
ZOMBIE_CHECKPOINT = "zombie checkpoint"
FOREIGN_SNAPSHOT = "foreign snapshot"
VISIBLE_TWICE = "visible twice"
HIDDEN = "hidden"
REPLACED = "replaced"


class Fencing:
    """Compares the attempt behind each commit, write and checkpoint with the running attempt."""

    property = "fencing"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return the violations in the order of their steps."""
        violations: list[Violation] = []

        def violate(anomaly: str, what: str, step: int, **witness: Any) -> None:
            where = f"{what}, step {step}"
            violations.append(Violation(self.property, anomaly, where, {"step": step, **witness}))

        running = ""
        listed: set[str] = set()
        # Transactions of older attempts that may still become visible: listed before the running one started.
        inherited: set[str] = set()
        visible: set[str] = set()
        for step, kind, subject, payload in history.events:
            if kind == TRANSACTION_VISIBLE:
                attempt = payload["attempt"]
                if attempt != running and subject not in inherited:
                    violate(ZOMBIE_COMMIT, f"transaction {subject}", step, attempt=attempt, running=running)
                if subject in visible:
                    violate(VISIBLE_TWICE, f"transaction {subject}", step, transaction=subject)
                visible.add(subject)
            elif kind == COMMIT_FAILED and not scenario.takes_checkpoints:
                # No attempt can hold a commit back that takes place after its answer.
                listed.add(subject)
                inherited.add(subject)
            elif kind == CHECKPOINT_COMPLETED:
                attempt = payload["attempt"]
                if attempt != running:
                    violate(
                        ZOMBIE_CHECKPOINT, f"checkpoint {subject}", step, attempt=attempt, running=running
                    )
                foreign = [writer for writer in payload["writers"] if writer != attempt]
                if foreign:
                    where = f"checkpoint {subject}"
                    violate(FOREIGN_SNAPSHOT, where, step, attempt=attempt, writers=foreign)
                listed.update(payload["transactions"])
            elif kind == ATTEMPT_STARTED:
                running = subject
                inherited = set(listed)
            elif kind == ROWS_WRITTEN:
                if payload["attempt"] != running:
                    attempt = payload["attempt"]
                    violate(ZOMBIE_WRITE, f"task {subject}", step, attempt=attempt, running=running)
            elif kind == ROWS_GONE:
                rows = [list(row) for row in payload["rows"][:WITNESS_ROWS]]
                violate(HIDDEN, subject, step, rows=rows, count=len(payload["rows"]))
            elif kind == TRANSACTION_HIDDEN:
                anomaly = REPLACED if "replaced" in payload else HIDDEN
                violate(anomaly, f"transaction {subject}", step, transaction=subject)
        return violations
