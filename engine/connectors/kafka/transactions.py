"""What the exactly-once sink asks of Kafka, without saying how (the sink's port).

The real brokers are behind `broker_transactions.py`; a model of them stands in for them in simulations.

The rules that any implementation keeps:

- A producer writes rows into the one transaction of its transactional id. ``pre_commit`` returns when every
  row is stored by the brokers, and then the handle suffices to commit from any process.
- ``commit`` may be repeated. It answers what became of the transaction, and raises OSError if it cannot know.
- A transaction is open until it is committed or aborted, or until its timeout passes: then it is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol


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
