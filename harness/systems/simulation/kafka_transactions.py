"""A model of Kafka's transactions, for the engine's exactly-once Kafka sink.

The rules this module lives by:

- The sink under trial is the engine's own, with its ids, handles, answers and recovery; only the brokers
  behind it are a model. A test lets the same random calls loose on the model and on a broker, and compares
  the answers.
- Rows go through the engine's `RowProducer`. The client that it calls is a model as well, which hands rows to
  the brokers, and reports a row that they have lost at the next poll or flush.
- A producer that takes a transactional id aborts the open transaction of the id, and fences its producer: a
  later epoch is valid then, and no other.
- A transaction that is pre-committed is an open one: Kafka knows no difference. Its producer could write on.
- A repeated commit of the same producer and epoch is answered as the first one, until the id is taken again.
- The state of all transactions is that of the simulated external system, which copies it with checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self

from onceproof.engine.connectors.kafka.kafka_errors import ClientError, KafkaUnavailable
from onceproof.engine.connectors.kafka.record_schemas import KafkaRecordSerializationSchema
from onceproof.engine.connectors.kafka.row_producer import RowProducer
from onceproof.engine.connectors.kafka.transaction_function import KafkaTransactionFunction
from onceproof.engine.connectors.kafka.transactions import (
    CommitAnswer,
    ProducerRecord,
    TransactionalId,
    TransactionalProducer,
    TransactionHandle,
    Transactions,
)
from onceproof.harness.model.family import KAFKA
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.systems.simulation.client_errors import reported_by
from onceproof.harness.systems.simulation.external_system import (
    ABORTED,
    OPEN,
    PREPARED,
    Transaction,
    TransactionalSystem,
)

TOPIC: Final = "rows"
PREFIX: Final = "simulation"
TIMEOUT_MS: Final = 1 << 31
"""No transaction times out: that would be a loss that the sink must report."""
BATCH_ROWS: Final = 3
FLUSH_TIMEOUT_S: Final = 60.0
_AGAIN: Final = " again "


class RowLost(KafkaUnavailable, InjectedError):
    """The producer has heard of a row that a fault has lost."""


@contextmanager
def _losses() -> Iterator[None]:
    """Raise RowLost for what the engine raises where a row is lost."""
    try:
        yield
    except KafkaUnavailable as error:
        raise RowLost(str(error)) from error


class _Timeout:
    """Why a row is lost, as a client reports it (confluent_kafka: KafkaError)."""

    def code(self) -> int:
        """Return the code: it was not stored in time."""
        return ClientError.MSG_TIMED_OUT

    def str(self) -> str:
        """Return the same in words."""
        return "Local: Message timed out"


class _LostRow(NamedTuple):
    """Which row is lost, as a client reports it (confluent_kafka: Message)."""

    row_topic: str
    row: Any

    def topic(self) -> str:
        """Return the topic of the row."""
        return self.row_topic

    def value(self) -> Any:
        """Return the row."""
        return self.row


class ModelClient:
    """The client of the brokers that `RowProducer` calls, in one transaction (confluent_kafka: Producer)."""

    def __init__(
        self, system: TransactionalSystem, transaction: str, report: Callable[[_Timeout, _LostRow], None]
    ) -> None:
        self._system = system
        self._transaction = transaction
        self._report = report
        self._lost: list[_LostRow] = []

    def produce(self, topic: str, value: Any, *others: Any) -> None:
        """Store a row, or lose it."""
        if self._system.row_fault() is None:
            self._system.write(self._transaction, value)
        else:
            self._lost.append(_LostRow(topic, value))

    def poll(self, timeout_s: float) -> int:
        """Report what was lost. Return how many reports that were."""
        lost, self._lost = self._lost, []
        for each in lost:
            self._report(_Timeout(), each)
        return len(lost)

    def flush(self, timeout_s: float) -> int:
        """Report what was lost. Return how many rows are still on their way: none."""
        self.poll(timeout_s)
        return 0


class ModelProducer(TransactionalProducer):
    """The producer of one transaction."""

    def __init__(self, system: TransactionalSystem, transaction: Transaction) -> None:
        self._system = system
        self._transaction = transaction

        def client(settings: Mapping[str, Any]) -> Any:
            return ModelClient(system, transaction.name, settings["on_delivery"])

        self._rows = RowProducer({"bootstrap.servers": PREFIX}, client)

    def produce(self, records: Sequence[ProducerRecord]) -> None:
        """Write rows. Raises KafkaUnavailable where the transaction has ended or the id was taken.

        Raises RowLost where a fault has lost a row.
        """
        self._check()
        with _losses():
            self._rows.produce(records)

    def pre_commit(self) -> TransactionHandle:
        """Return the handle when all rows are stored. Raises what ``produce`` raises."""
        self._check()
        with _losses():
            self._rows.flush(FLUSH_TIMEOUT_S)
        return handle_of(self._transaction)

    def abort(self) -> None:
        """Abort the transaction, if it is still this producer's."""
        if self._transaction.state == OPEN:
            with reported_by(KAFKA):
                self._system.ask_to_abort(self._transaction.name)

    def close(self) -> None:
        """Leave the transaction as it is."""

    def _check(self) -> None:
        if self._transaction.state != OPEN:
            raise KafkaUnavailable(f"the producer of {self._transaction.key} was fenced")


class ModelTransactions(Transactions):
    """The brokers as the engine's sink sees them."""

    def __init__(self, system: TransactionalSystem) -> None:
        self._system = system

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def check(self, topics: Sequence[str], timeout_ms: int) -> None:
        """Accept: the model has every topic and takes every timeout."""

    def begin(self, transactional_id: str, timeout_ms: int) -> ModelProducer:
        """Take an id: abort its open transaction, and begin the next epoch."""
        earlier = self._with_id(transactional_id)
        name = key_of(transactional_id)
        if earlier:
            if earlier[-1].state == OPEN:
                self._system.abort(earlier[-1].name)
            name = f"{name}{_AGAIN}{len(earlier)}"
        writer = TransactionalId.parse(transactional_id)
        begun = Transaction(name, 0, 0, "", key=transactional_id, token=str(len(earlier)))
        if writer is not None:
            begun.subtask, begun.epoch = writer.subtask, writer.epoch
            begun.attempt, begun.owner = writer.attempt, writer.owner
        begun.rows = []
        self._system.transactions[name] = begun
        return ModelProducer(self._system, begun)

    def commit(self, handle: TransactionHandle) -> CommitAnswer:
        """Commit a transaction. Raises InjectedError, or KafkaUnavailable where a fault says how it fails."""
        known = self._with_id(handle.transactional_id)
        if not known:
            return CommitAnswer.FORGOTTEN
        current = known[-1]
        if handle_of(current) != handle:
            return CommitAnswer.FENCED
        if current.state == ABORTED or (current.state == OPEN and not current.rows):
            return CommitAnswer.ABORTED
        if current.state == OPEN:
            self._system.prepare(current.name)
        try:
            with reported_by(KAFKA):
                self._system.commit(current.name)
        finally:
            # A commit that was refused leaves it open.
            if current.state == PREPARED:
                current.state = OPEN
        return CommitAnswer.COMMITTED

    def abort(self, handle: TransactionHandle) -> None:
        """Abort a transaction that is open under this handle."""
        known = self._with_id(handle.transactional_id)
        if known and handle_of(known[-1]) == handle and known[-1].state == OPEN:
            with reported_by(KAFKA):
                self._system.ask_to_abort(known[-1].name)

    def open_transactions(self, prefix: str) -> list[TransactionHandle]:
        """Return the open ones, also those without rows."""
        return [handle_of(each) for each in self._system.unsettled() if each.key.startswith(prefix)]

    def close(self) -> None:
        """Keep everything."""

    def _with_id(self, transactional_id: str) -> list[Transaction]:
        return [each for each in self._system.transactions.values() if each.key == transactional_id]


class _RowSerializer(KafkaRecordSerializationSchema):
    """Hands rows over as they are."""

    topics = (TOPIC,)

    def serialize(self, element: Any, timestamp_ms: int | None, subtask: int) -> ProducerRecord:
        return ProducerRecord(TOPIC, element)


class SimulatedKafkaSink(KafkaTransactionFunction):
    """The engine's exactly-once Kafka sink over the model."""

    batch_rows = BATCH_ROWS

    def __init__(self, system: TransactionalSystem) -> None:
        super().__init__(lambda: ModelTransactions(system), _RowSerializer(), PREFIX, TIMEOUT_MS)
        self._system = system

    def __deepcopy__(self, memo: object) -> SimulatedKafkaSink:
        return SimulatedKafkaSink(self._system)

    def pending_transactions(self) -> list[str]:
        """Return the names of the pending transactions that have rows, as in the external system."""
        pending = super().pending_transactions()
        return [self._name_of(each[0]) for each in pending if each[3]]

    def _name_of(self, transactional_id: str) -> str:
        known = [each.name for each in self._system.transactions.values() if each.key == transactional_id]
        return known[-1] if known else key_of(transactional_id)


def key_of(transactional_id: str) -> str:
    """Return the name of a transaction in the external system."""
    writer = TransactionalId.parse(transactional_id)
    if writer is None:
        return transactional_id
    return f"{writer.subtask}/{writer.epoch}/{writer.attempt}/{writer.owner[:8]}"


def handle_of(transaction: Transaction) -> TransactionHandle:
    """Return the handle of a transaction; its epoch counts how often the id was taken before."""
    return TransactionHandle(transaction.key, 0, int(transaction.token))
