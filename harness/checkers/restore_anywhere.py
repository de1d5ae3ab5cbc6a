"""restore_anywhere: a completed checkpoint, restored at any parallelism, ends in the result of the whole job.

It is restored into what the outside was when it completed. What is committed there already and what is
committed from then on are the oracle's rows together; the anomalies are those of exactly_once (of mode, where
that is what the scenario asks for), and:

- not finished: the job that was restored did not come to its end.
- refused: it raised instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onceproof.harness.checkers.base import Violation
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import ERROR, JOB_FINISHED, History
from onceproof.harness.model.scenario import Scenario

PROPERTY = "restore_anywhere"
NOT_FINISHED = "not finished"
REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a checkpoint."""

    checkpoint: int
    parallelism: int
    history: History
    """From the rows that were visible when the checkpoint completed."""


def check_restored(scenario: Scenario, restored: Restored, oracle: Oracle) -> Sequence[Violation]:
    """Judge the end of a job that was restored."""
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
    return [
        Violation(PROPERTY, found.anomaly, where, {**about, **found.witness})
        for checker in (ExactlyOnce(), Mode())
        for found in checker.check(scenario, restored.history, oracle)
    ]
