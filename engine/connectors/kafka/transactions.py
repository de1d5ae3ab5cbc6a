"""What the exactly-once sink asks of Kafka, without saying how (the sink's port).

The real brokers are behind `broker_transactions.py`; a model of them stands in for them in simulations.

The rules that any implementation keeps:

- A producer writes rows into the one transaction of its transactional id. ``pre_commit`` returns when every
  row is stored by the brokers, and then the handle suffices to commit from any process.
- ``commit`` may be repeated. It answers what became of the transaction, and raises OSError if it cannot know.
- A transaction is open until it is committed or aborted, or until its timeout passes: then it is lost.
- A transactional id is used for one transaction: that of one subtask between two checkpoints in one attempt.
  The broker lets the producer that has an id write on while another process commits its transaction; nothing
  writes under an id whose transaction is pre-committed, because its writer has gone on to the next id.
- The id is ``prefix-owner-subtask-epoch-attempt``. The owner is this sink of this job over this checkpoint
  folder (`engine/owner_ids.py`), so that two jobs with one prefix do not abort each other's transactions.
- An id is read by its whole form. ``app-1`` is a prefix of ``app-10-...``, so a comparison of beginnings
  would take the transactions of another sink or of subtask 10 for those of subtask 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol, Self

from onceproof.engine.owner_ids import OWNER_DIGITS

LONGEST_PREFIX_BYTES: Final = 6400
"""As in Flink: KafkaSinkBuilder.MAXIMUM_PREFIX_BYTES."""
_FORM: Final = re.compile(
    rf"(?P<prefix>.*)-(?P<owner>[0-9a-f]{{{OWNER_DIGITS}}})-(?P<subtask>\d+)-(?P<epoch>\d+)-(?P<attempt>[^-]+)",
    re.DOTALL,
)


class TransactionalId(NamedTuple):
    """The parts of a transactional id of this sink."""

    prefix: str
    owner: str
    subtask: int
    epoch: int
    """The checkpoint whose snapshot began the transaction; 0 at a fresh start."""
    attempt: str

    def __str__(self) -> str:
        return f"{self.prefix}-{self.owner}-{self.subtask}-{self.epoch}-{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the parts of an id, or None if it is not one of this sink."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        prefix, owner, subtask, epoch, attempt = found.groups()
        return cls(prefix, owner, int(subtask), int(epoch), attempt)


class ProducerRecord(NamedTuple):
    """One row as Kafka takes it (Kafka: ProducerRecord)."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    """-1: chosen by the key; without a key, any."""
    timestamp_ms: int = 0
    """0: when it is written."""
    headers: tuple[tuple[str, bytes | None], ...] = ()


class TransactionHandle(NamedTuple):
    """Plain data with which any process can end a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class CommitAnswer(Enum):
    """What became of a transaction that was to be committed."""

    COMMITTED = "committed"
    """Now, or before by the same request of this or another process."""
    ABORTED = "aborted"
    """It had been aborted: its timeout had passed, or another process has aborted it."""
    FENCED = "fenced"
    """Another producer has taken its id, which aborted it."""
    FORGOTTEN = "forgotten"
    """The broker does not know the id any more: it has expired, or the topics were made anew."""


class TransactionalProducer(Protocol):
    """Writes one transaction."""

    def produce(self, records: Sequence[ProducerRecord]) -> None:
        """Write rows; they may be on their way when it returns."""

    def pre_commit(self) -> TransactionHandle:
        """Wait until all rows are stored, and return the handle of the transaction."""

    def abort(self) -> None:
        """Abort the transaction; where that cannot be done now, the next start or its timeout does it."""

    def close(self) -> None:
        """Release the connection; what becomes of the transaction is not decided here."""


class Transactions(Protocol):
    """The transactions of a Kafka cluster."""

    def check(self, topics: Sequence[str], timeout_ms: int) -> None:
        """Raise where no broker answers, a topic is missing, or the timeout is above the broker's maximum."""

    def begin(self, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
        """Take an id and begin its transaction."""

    def commit(self, handle: TransactionHandle) -> CommitAnswer:
        """Commit a transaction, and return what became of it. Raises OSError: it is not known."""

    def abort(self, handle: TransactionHandle) -> None:
        """Abort a transaction, unless it has ended; its producer writes no more. Raises OSError."""

    def open_transactions(self, prefix: str) -> list[TransactionHandle]:
        """Return those that have begun and not ended, whose ids begin with a text. Raises OSError."""

    def close(self) -> None:
        """Close the connections."""
