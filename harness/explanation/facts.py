"""What a history says about its attempts, checkpoints and transactions, put side by side.

The rules this module lives by:

- Facts only: which checkpoint lists a transaction, which attempt was restored from what, when rows became
  visible. What follows from them is for whoever explains.
- Read once, in one pass, from visible events: an explanation must hold for any system, traced or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    TRANSACTION_VISIBLE,
    History,
    Row,
)


@dataclass(slots=True)
class Attempt:
    """One attempt of the job."""

    name: str
    step: int
    parallelism: int
    restored: int | None


@dataclass(slots=True)
class Checkpoint:
    """One completed checkpoint."""

    number: int
    step: int
    attempt: str
    cut: dict[str, int]
    transactions: tuple[str, ...]


@dataclass(slots=True)
class Visible:
    """A transaction that became visible."""

    name: str
    step: int
    attempt: str
    epoch: int
    rows: list[Row]


@dataclass(slots=True)
class StruckFault:
    """A fault that struck."""

    step: int
    kind: str
    point: str
    task: str


@dataclass(slots=True)
class Facts:
    """A history by what happened instead of by when."""

    attempts: list[Attempt] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    visible: list[Visible] = field(default_factory=list)
    faults: list[StruckFault] = field(default_factory=list)

    def attempt(self, name: str) -> Attempt | None:
        """Return an attempt by its name."""
        return next((attempt for attempt in self.attempts if attempt.name == name), None)

    def running_at(self, step: int) -> Attempt | None:
        """Return the attempt that ran at a step."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.step <= step), None)

    def checkpoint(self, number: int | None) -> Checkpoint | None:
        """Return a completed checkpoint by its id."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.number == number), None)

    def first_listing(self, transaction: str) -> Checkpoint | None:
        """Return the first completed checkpoint that lists a transaction."""
        listing = (checkpoint for checkpoint in self.checkpoints if transaction in checkpoint.transactions)
        return next(listing, None)

    def never_visible(self) -> list[tuple[str, Checkpoint]]:
        """Return the transactions that a completed checkpoint lists and nobody ever committed."""
        seen = {transaction.name for transaction in self.visible}
        listed: dict[str, Checkpoint] = {}
        for checkpoint in self.checkpoints:
            for name in checkpoint.transactions:
                if name not in seen:
                    listed.setdefault(name, checkpoint)
        return list(listed.items())

    def holding(self, row: Sequence[Any]) -> list[Visible]:
        """Return the visible transactions that hold a row, in the order of their commits."""
        wanted = tuple(row)
        return [transaction for transaction in self.visible if wanted in transaction.rows]

    def faults_before(self, step: int) -> list[StruckFault]:
        """Return the faults that had struck by a step."""
        return [fault for fault in self.faults if fault.step <= step]


def facts_of(history: History) -> Facts:
    """Return the facts of a history."""
    facts = Facts()
    for step, kind, subject, payload in history.events:
        if kind == ATTEMPT_STARTED:
            facts.attempts.append(Attempt(subject, step, payload["parallelism"], payload["restored"]))
        elif kind == CHECKPOINT_COMPLETED:
            transactions = tuple(payload["transactions"])
            cut = dict(payload["cut"])
            facts.checkpoints.append(Checkpoint(subject, step, payload["attempt"], cut, transactions))
        elif kind == TRANSACTION_VISIBLE:
            rows = [tuple(row) for row in payload["rows"]]
            facts.visible.append(Visible(subject, step, payload["attempt"], payload["epoch"], rows))
        elif kind == FAULT_FIRED:
            facts.faults.append(StruckFault(step, subject, payload["point"], payload["task"]))
    return facts
