"""The exactly-once sink: a Kafka transaction for each subtask and checkpoint (Flink: ExactlyOnceKafkaWriter).

The rules this module lives by, beside those of `two_phase.py`:

- A transaction begins at the broker with its first row, so an idle subtask costs the broker nothing. Behind
  a transaction with rows the next one begins at once, because rows are expected and beginning takes time.
- Snapshot n flushes the rows, and the checkpoint lists (transactional id, producer id, epoch). Then the
  producer is dropped: its id is never written with again (`transactions.py`).
- A commit asks the broker what became of the transaction. Everything but "committed" means that rows of a
  completed checkpoint can never become visible: the error says which, and the job ends. It is never taken for
  an earlier success, because the broker answers a repeated commit as the first one.
- At a start, the transactions of dead attempts that no checkpoint lists are aborted. Otherwise readers of
  committed rows would wait for them until their timeout. The broker is asked which are open; ids are not
  guessed, so a change of parallelism hides none.
- A process that was only slow may begin another one later. So it is done again behind the first complete
  checkpoint, and then every half minute: all that the restored checkpoint lists is committed by then, and
  whatever an earlier attempt has open is listed nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from onceproof.engine.connectors.kafka.kafka_errors import TransactionLost
from onceproof.engine.connectors.kafka.record_schemas import KafkaRecordSerializationSchema
from onceproof.engine.connectors.kafka.transactions import (
    CommitAnswer,
    ProducerRecord,
    TransactionalId,
    TransactionalProducer,
    TransactionHandle,
    Transactions,
)
from onceproof.engine.connectors.two_phase import Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.elements import Record
from onceproof.engine.formats.message_schemas import shown
from onceproof.engine.functions import FunctionInitializationContext

_WARN_AT: Final = 0.8
_SWEEP_MS: Final = 30_000
_REASONS: Final = {
    CommitAnswer.ABORTED: "the broker has aborted it: more than transaction.timeout.ms passed before the"
    " commit, or an operator of the cluster has ended it",
    CommitAnswer.FENCED: "another producer has taken its id: a second copy of the job runs, or has run",
    CommitAnswer.FORGOTTEN: "the broker does not know its id any more: it was committed or aborted longer ago"
    " than transactional.id.expiration.ms, or this is another cluster",
}


class PlaceOfTransaction:
    """The fields of a transaction as a checkpoint holds it: a list, which may change until the pre-commit."""

    ID, PRODUCER_ID, EPOCH, ROWS, TOPICS, FIRST, LAST = range(7)


class KafkaTransactionFunction(TwoPhaseCommitSinkFunction):
    """Writes the rows of one subtask in transactions.

    Args:
        connect: connects to the cluster; called when the subtask starts.
        serializer: makes rows out of values.
        prefix: the beginning of all transactional ids.
        timeout_ms: when the broker drops an open transaction, in milliseconds.
    """

    batch_rows = 256
    """Rows that are handed to the producer at once: calls for each would cost more than the row."""

    def __init__(
        self,
        connect: Callable[[], Transactions],
        serializer: KafkaRecordSerializationSchema,
        prefix: str,
        timeout_ms: int,
    ) -> None:
        super().__init__()
        self._connect = connect
        self._serializer = serializer
        self._prefix = prefix
        self._transaction_timeout_ms = timeout_ms
        self._transactions: Transactions | None = None
        self._producer: TransactionalProducer | None = None
        self._waiting: list[ProducerRecord] = []
        self._next_sweep_ms = 0
        self._is_busy = False
        """Whether the last transaction had rows."""
        self.set_transaction_timeout(timeout_ms)
        self.enable_transaction_timeout_warnings(_WARN_AT)

    # ---- called by the engine

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Check that rows could be written, before the first one comes; then recover."""
        try:
            self._cluster().check(self._serializer.topics, self._transaction_timeout_ms)
        except Exception:
            # The task does not close a function that did not start.
            self._disconnect()
            raise
        super().initialize_state(context)

    def invoke(self, value: Any, context: Any) -> None:
        """Make a row, and hand rows over in batches."""
        record = self._serializer.serialize(value, context.timestamp(), self.subtask)
        if record is None:
            return
        waiting = self._waiting
        waiting.append(record)
        if len(waiting) >= self.batch_rows:
            self._hand_over(self.current_transaction())

    def invoke_records(self, records: list[Record]) -> bool:
        """Make the rows of a buffer; the same as ``invoke`` for each, with fewer calls."""
        serialize, subtask = self._serializer.serialize, self.subtask
        for value, timestamp_ms in records:
            record = serialize(value, timestamp_ms, subtask)
            if record is not None:
                self._waiting.append(record)
        if len(self._waiting) >= self.batch_rows:
            self._hand_over(self.current_transaction())
        return True

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit, and from time to time abort what earlier attempts have open."""
        super().notify_checkpoint_complete(checkpoint_id)
        now_ms = self.get_runtime_context().get_current_processing_time()
        # A clock that was set back must not put it off.
        if not self._next_sweep_ms - _SWEEP_MS <= now_ms < self._next_sweep_ms:
            self._next_sweep_ms = now_ms + _SWEEP_MS
            self.abort_unlisted()

    def close(self) -> None:
        """Abort the open transaction, and close the connections."""
        try:
            super().close()
        finally:
            producer, self._producer = self._producer, None
            if producer is not None:
                producer.close()
            self._disconnect()

    # ---- the steps of two-phase commit

    def begin_transaction(self) -> list[Any]:
        """Name a transaction; it begins at the broker with its first row."""
        name = str(TransactionalId(self._prefix, self.owner, self.subtask, self.epoch, self.attempt))
        if self._is_busy:
            self._producer = self._cluster().begin(name, self._transaction_timeout_ms)
        return [name, -1, -1, 0, [], "", ""]

    def invoke_transaction(self, transaction: list[Any], value: Any, context: Any) -> None:
        """Not called: ``invoke`` does without the detour."""
        raise AssertionError("rows are written by invoke")

    def pre_commit(self, transaction: list[Any]) -> None:
        """Wait until all rows are stored, and note with what they can be committed."""
        self._hand_over(transaction)
        producer, self._producer = self._producer, None
        self._is_busy = transaction[PlaceOfTransaction.ROWS] > 0
        if producer is None:
            return
        try:
            if self._is_busy:
                transaction[: PlaceOfTransaction.ROWS] = producer.pre_commit()
            else:
                producer.abort()
        finally:
            producer.close()

    def commit(self, transaction: list[Any]) -> None:
        """Commit; raises TransactionLost where the rows can never become visible."""
        if not transaction[PlaceOfTransaction.ROWS]:
            return
        answer = self._cluster().commit(TransactionHandle(*transaction[: PlaceOfTransaction.ROWS]))
        if answer is not CommitAnswer.COMMITTED:
            raise TransactionLost(lost_rows(transaction, answer))

    def abort(self, transaction: list[Any]) -> None:
        """Abort the open transaction of this subtask."""
        self._waiting.clear()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.abort()
            producer.close()

    def recover_and_abort(self, transaction: list[Any]) -> None:
        """Leave it to ``abort_unknown``, which asks the broker what is open and knows whose it is."""

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort what dead attempts have left open and no checkpoint lists."""
        cluster = self._cluster()
        for handle in cluster.open_transactions(f"{self._prefix}-{recovery.owner}-"):
            name = TransactionalId.parse(handle.transactional_id)
            if name is None or name.prefix != self._prefix:
                continue
            if recovery.may_abort(name.subtask, name.epoch, name.attempt, name.owner):
                cluster.abort(handle)

    # ---- internal

    def _disconnect(self) -> None:
        cluster, self._transactions = self._transactions, None
        if cluster is not None:
            cluster.close()

    def _cluster(self) -> Transactions:
        if self._transactions is None:
            self._transactions = self._connect()
        return self._transactions

    def _hand_over(self, transaction: Any) -> None:
        rows, self._waiting = self._waiting, []
        if not rows:
            return
        if self._producer is None:
            self._producer = self._cluster().begin(
                transaction[PlaceOfTransaction.ID], self._transaction_timeout_ms
            )
            transaction[PlaceOfTransaction.FIRST] = _described(rows[0])
        self._producer.produce(rows)
        transaction[PlaceOfTransaction.ROWS] += len(rows)
        transaction[PlaceOfTransaction.LAST] = _described(rows[-1])
        topics: list[str] = transaction[PlaceOfTransaction.TOPICS]
        topics += sorted({row[0] for row in rows}.difference(topics))


def lost_rows(transaction: Sequence[Any], answer: CommitAnswer) -> str:
    """Return the line that says which rows are lost, why, and what can be done."""
    name, _, _, rows, topics, first, last = transaction
    parts = TransactionalId.parse(name)
    writer = f"subtask {parts.subtask} after checkpoint {parts.epoch}" if parts is not None else "an old job"
    return (
        f"{rows} rows for {', '.join(topics)} of {writer} are lost, from {first} to {last}: transaction"
        f" {name} cannot be committed, because {_REASONS[answer]}; restore an older checkpoint to write them"
        " again (rows after it that are visible come twice), or give them up with"
        " ignore_failures_after_transaction_timeout()"
    )


def _described(row: ProducerRecord) -> str:
    return shown(row.value) if row.key is None else f"{shown(row.key)}: {shown(row.value)}"
