"""restore_anywhere: a job restored from a completed checkpoint at any parallelism ends with the right rows.

The checkpoint is restored into a copy of the external system as of its completion. The rows that were
committed there and those that the restored job commits must together be the oracle's rows. The anomalies are
those of exactly_once (for at-least-once scenarios: of mode), and:

- not finished: the restored job did not finish.
- refused: the restored job raised an exception.
- deleted: a file of the checkpoint is gone although the job must still have it.

A checkpoint is restored from the files at its completion, and again from what the directory held at the last
moment at which the job had to keep it: a savepoint at the end of the run, the oldest retained checkpoint just
before a newer one replaced it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onceproof.harness.checkers.checker import Violation
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.checkers.tolerance import within_tolerance
from onceproof.harness.model.history import ERROR, JOB_FINISHED, History
from onceproof.harness.model.scenario import Scenario

PROPERTY = "restore_anywhere"
NOT_FINISHED = "not finished"
REFUSED = "refused"
DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class RestoredRun:
    """The run of a job that was restored from a checkpoint."""

    checkpoint: int
    parallelism: int
    history: History
    """Its events; the rows that were visible when the checkpoint completed come first."""


def deleted_too_early(checkpoint: int, path: str) -> Violation:
    """Return the violation of a checkpoint that lacks a file while the job must keep it."""
    witness = {"checkpoint": checkpoint, "path": path}
    return Violation(PROPERTY, DELETED, f"checkpoint {checkpoint}", witness)


def check_restored(scenario: Scenario, restored: RestoredRun, oracle: Oracle) -> Sequence[Violation]:
    """Return the violations of restore_anywhere in the run of a restored job; empty if the property holds."""
    where = f"checkpoint {restored.checkpoint} at parallelism {restored.parallelism}"
    about = {"checkpoint": restored.checkpoint, "parallelism": restored.parallelism}
    finished = False
    for _, kind, subject, payload in restored.history.events:
        if kind == ERROR:
            witness = {**about, "task": subject, "raised": payload["type"], "text": payload["text"]}
            return [Violation(PROPERTY, REFUSED, where, witness)]
        finished = finished or kind == JOB_FINISHED
    if not finished:
        return [Violation(PROPERTY, NOT_FINISHED, where, about)]
    history = within_tolerance(restored.history, oracle)
    return [
        Violation(PROPERTY, found.anomaly, where, {**about, **found.witness})
        for checker in (ExactlyOnce(), Mode())
        for found in checker.check(scenario, history, oracle)
    ]
