"""The attempts, checkpoints, transactions and faults of a history, indexed for the explanation.

The rules this module lives by:

- Facts only: which checkpoint lists a transaction, which attempt was restored from which checkpoint, when
  rows became visible. Conclusions are drawn in ``cause.py``.
- The facts come from visible events alone, read in one pass, so they exist for every system, traced or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    FAULT_FIRED,
    JOB_RESCALED,
    JOB_STOPPED,
    ROWS_FOUND,
    TRANSACTION_VISIBLE,
    Event,
    History,
    Row,
)


@dataclass(slots=True)
class Attempt:
    """An attempt of the job; ``restored`` is the checkpoint that it started from, or None."""

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
    """A transaction that became visible, or the rows that a look at the output found."""

    name: str
    step: int
    attempt: str
    epoch: int
    rows: list[Row]
    is_transaction: bool = True

    @property
    def words(self) -> str:
        """What it is, with its name."""
        return f"transaction {self.name}" if self.is_transaction else f"what {self.name} found"


@dataclass(slots=True)
class StruckFault:
    """A fault that fired."""

    step: int
    kind: str
    point: str
    task: str
    outside: bool = False
    """Whether the point is one that the harness sees a program pass from outside."""
    server: str = ""
    """The server that was struck; "": none was."""

    @classmethod
    def of(cls, event: Event) -> StruckFault:
        """Return the fault of an event FAULT_FIRED."""
        step, _, kind, payload = event
        return cls(
            step, kind, payload["point"], payload["task"], "outside" in payload, payload.get("server", "")
        )


@dataclass(slots=True)
class Facts:
    """The events of a history by kind, each list in the order of steps."""

    attempts: list[Attempt] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    visible: list[Visible] = field(default_factory=list)
    faults: list[StruckFault] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    """The steps at which a program ended as it was asked to."""
    rescales: list[tuple[int, int]] = field(default_factory=list)
    """The steps at which a running job was rescaled as its user asked, each with its parallelism then."""

    def attempt(self, name: str) -> Attempt | None:
        return next((attempt for attempt in self.attempts if attempt.name == name), None)

    def running_at(self, step: int) -> Attempt | None:
        """Return the attempt that ran at a step; None before the first."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.step <= step), None)

    def checkpoint(self, number: int | None) -> Checkpoint | None:
        """Return a completed checkpoint by its id; None if it did not complete."""
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.number == number), None)

    def first_listing(self, transaction: str) -> Checkpoint | None:
        """Return the first completed checkpoint that lists a transaction."""
        listing = (checkpoint for checkpoint in self.checkpoints if transaction in checkpoint.transactions)
        return next(listing, None)

    def never_visible(self) -> list[tuple[str, Checkpoint]]:
        """Return each listed but never visible transaction, with the first checkpoint that lists it."""
        seen = {transaction.name for transaction in self.visible}
        listed: dict[str, Checkpoint] = {}
        for checkpoint in self.checkpoints:
            for name in checkpoint.transactions:
                if name not in seen:
                    listed.setdefault(name, checkpoint)
        return list(listed.items())

    def holding(self, row: Sequence[Any]) -> list[Visible]:
        """Return the visible transactions that contain a row, in the order of their commits."""
        wanted = tuple(row)
        return [transaction for transaction in self.visible if wanted in transaction.rows]

    def faults_before(self, step: int) -> list[StruckFault]:
        """Return the faults that had fired up to a step, including it."""
        return [fault for fault in self.faults if fault.step <= step]


def facts_of(history: History) -> Facts:
    """Return the facts of a history."""
    facts = Facts()
    for event in history.events:
        step, kind, subject, payload = event
        if kind == ATTEMPT_STARTED:
            facts.attempts.append(Attempt(subject, step, payload["parallelism"], payload["restored"]))
        elif kind == CHECKPOINT_COMPLETED:
            transactions = tuple(payload["transactions"])
            cut = dict(payload["cut"])
            facts.checkpoints.append(Checkpoint(subject, step, payload["attempt"], cut, transactions))
        elif kind == ROWS_FOUND:
            facts.visible.append(Visible(subject, step, payload["attempt"], 0, payload["rows"], False))
        elif kind == TRANSACTION_VISIBLE:
            rows = [tuple(row) for row in payload["rows"]]
            facts.visible.append(Visible(subject, step, payload["attempt"], payload["epoch"], rows))
        elif kind == JOB_STOPPED and "outside" in payload:
            facts.stops.append(step)
        elif kind == JOB_RESCALED:
            facts.rescales.append((step, payload["parallelism"]))
        elif kind == FAULT_FIRED:
            facts.faults.append(StruckFault.of(event))
    return facts
