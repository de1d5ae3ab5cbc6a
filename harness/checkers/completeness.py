"""completeness: a job that reports success has read its whole input and made all its output visible.

It needs no oracle: the history says what the job claims, how far each split was read, and which transactions
became visible. So it can be asked of any job, also of one whose result is not known.

Anomalies:

- unread input: the job says that it has finished, and a split was not read to its end. The end is that of the
  input as it is then: what has grown since its end was reached is not missed.
- uncommitted output: the job says that it has finished, and a transaction that a completed checkpoint lists
  has never become visible. What was visible and is gone is judged by fencing.

Of a system that does not see how far splits are read only the second is asked; of one that sees no
checkpoints either, nothing. A job that stops with a savepoint claims nothing of its input; its
commits are judged by consistent_cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceproof.harness.checkers.checker import WITNESS_ROWS, Violation
from onceproof.harness.checkers.oracle import Oracle
from onceproof.harness.model.history import (
    CHECKPOINT_COMPLETED,
    INPUT_READ,
    JOB_FINISHED,
    TRANSACTION_VISIBLE,
    History,
)
from onceproof.harness.model.scenario import Scenario

UNREAD_INPUT: Final = "unread input"
UNCOMMITTED_OUTPUT: Final = "uncommitted output"


class Completeness:
    """Compares what a job says at its end with how far it has read, and what it has committed."""

    property = "completeness"

    def check(self, scenario: Scenario, history: History, oracle: Oracle) -> Sequence[Violation]:
        """Return a violation for input that was not read, and one for output that was not committed."""
        finished = None
        listed: dict[str, int] = {}
        visible: set[str] = set()
        unread: Mapping[str, Any] = {}
        for step, kind, subject, payload in history.events:
            if kind == TRANSACTION_VISIBLE:
                visible.add(subject)
            elif kind == CHECKPOINT_COMPLETED:
                for transaction in payload["transactions"]:
                    listed.setdefault(transaction, subject)
            elif kind == JOB_FINISHED:
                finished = step
            elif kind == INPUT_READ:
                unread = {
                    split: {"read": count, "of": payload["input"][split]}
                    for split, count in payload["read"].items()
                    if count < payload["input"][split]
                }
        if finished is None:
            return ()
        found = []
        if unread:
            where = f"split {next(iter(unread))}, step {finished}"
            witness: dict[str, Any] = {"step": finished, "splits": unread}
            found.append(Violation(self.property, UNREAD_INPUT, where, witness))
        if not visible.issuperset(listed):
            missing = [transaction for transaction in listed if transaction not in visible]
            witness = {
                "step": finished,
                "transactions": missing[:WITNESS_ROWS],
                "checkpoint": listed[missing[0]],
                "count": len(missing),
            }
            where = f"transaction {missing[0]}, step {finished}"
            found.append(Violation(self.property, UNCOMMITTED_OUTPUT, where, witness))
        return found
