"""Reads what a job under trial has written into topics of Kafka.

The rules this module lives by:

- The transaction of a row is in its header; whether it is committed, the transaction coordinator says. So
  all rows are read, also those that readers of committed rows have to wait for because a dead process has
  left a transaction open before them.
- At the end nothing is open any more. Then a reader of committed rows must see just the rows that the
  coordinator calls committed.
- A row without a header was written by no sink who may: its transaction is one that no checkpoint lists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from onceproof.engine.connectors.kafka import wire_protocol as wire
from onceproof.engine.connectors.kafka.transactional_ids import TransactionalId
from onceproof.engine.connectors.kafka.wire_protocol import Address, BrokerConnection
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_clients import reader_settings
from onceproof.harness.systems.process.kafka_io import TRANSACTION

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

Answer = TypeVar("Answer")

_COMMITTED: Final = ("PrepareCommit", wire.COMPLETE_COMMIT)
_BEING_WRITTEN: Final = frozenset({"PrepareCommit", "PrepareAbort"})
"""The states of transactions that are decided, while the markers of the decision are on their way."""
_SECONDS_TO_ANSWER: Final = 30.0
_SECONDS_BETWEEN_TRIES: Final = 0.02


def transaction_of(message: Message, topics: TrialTopics) -> str:
    """Return the transactional id in the headers of a row; without one the name of what is in none."""
    headers: Any = message.headers() or ()
    found = dict(headers).get(TRANSACTION)
    return topics.unlisted if found is None else str(found, "utf-8")


class KafkaOutput:
    """The committed transactions in the topics of a scenario (`visible_outputs.Output`)."""

    def __init__(self, topics: TrialTopics) -> None:
        self._topics = topics
        self._unlisted = topics.unlisted
        self._rows: dict[str, list[Row]] = {}
        """By transactional id, in the order in which they were read."""
        self._states: dict[str, str] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._consumer: Consumer | None = None

    def owns(self, name: str) -> bool:
        """Return whether a name is that of a transaction in these topics."""
        return name.startswith(f"{self._topics.prefix}-")

    def names(self) -> list[str]:
        """Return the ids of the committed transactions, and a name for rows that are in none."""
        self._look()
        return [name for name in self._rows if self._is_visible(name)]

    def identity(self, name: str) -> Hashable | None:
        """Return the rows as text; None if the transaction is not visible."""
        if not self._is_visible(name):
            self._look()
        return repr(self._rows[name]) if self._is_visible(name) else None

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a transaction, partition by partition."""
        return self._rows.get(name, [])

    def writer(self, name: str) -> tuple[int, int, str]:
        """Return the writer in an id; (0, 0, "unknown") for rows that are in no transaction of a sink."""
        writer = TransactionalId.parse(name)
        return (0, 0, "unknown") if writer is None else (writer.subtask, writer.epoch, writer.attempt)

    def waits(self, name: str) -> bool:
        """Return False: the sink writes rows before the commit."""
        return False

    def unfinished(self) -> list[str]:
        """Return the ids of the transactions that are open and have rows, and those seen otherwise.

        Where nothing is open, a reader of committed rows must see what the coordinator calls committed. A
        transaction of which it sees other rows is not ended either, whatever the coordinator says.
        """
        error, listed = self._ask(
            lambda broker: broker.list_transactions((wire.ONGOING,)), lambda answer: answer[0] == wire.NONE
        )
        assert error == wire.NONE, wire.error_name(error)
        found = sorted(each.transactional_id for each in listed if self.owns(each.transactional_id))
        return found or self._seen_otherwise()

    def close(self) -> None:
        """Close the connection."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # ---- internal

    def _is_visible(self, name: str) -> bool:
        return name in self._rows and (name == self._unlisted or self._states.get(name) in _COMMITTED)

    def _look(self) -> None:
        """Read the rows that have come, and ask what became of their transactions."""
        if self._consumer is None:
            self._consumer = self._new_consumer("read_uncommitted")
        self._read(self._consumer, self._offsets, self._rows)
        names = [name for name in self._rows if name != self._unlisted]

        def ask(broker: BrokerConnection) -> list[wire.TransactionDescription]:
            return broker.describe_transactions(names)

        def is_answer(found: Sequence[wire.TransactionDescription]) -> bool:
            return all(each.error in (wire.NONE, wire.TRANSACTIONAL_ID_NOT_FOUND) for each in found)

        if names:
            self._states = {each.transactional_id: each.state for each in self._ask(ask, is_answer)}

    def _seen_otherwise(self) -> list[str]:
        """Return the transactions of which a reader of committed rows sees other rows, or none."""
        self._wait_for_markers()
        expected = {name: self._rows[name] for name in self._rows if self._is_visible(name)}
        consumer = self._new_consumer("read_committed")
        seen: dict[str, list[Row]] = {}
        try:
            self._read(consumer, {}, seen)
        finally:
            consumer.close()
        return sorted(name for name in {*seen, *expected} if seen.get(name) != expected.get(name))

    def _wait_for_markers(self) -> None:
        """Wait until each decision stands in the topics: the coordinator answers before that."""
        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        self._look()
        while not _BEING_WRITTEN.isdisjoint(self._states.values()) and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_TRIES)
            self._look()

    def _new_consumer(self, isolation: str) -> Consumer:
        from confluent_kafka import Consumer

        return Consumer(
            {
                **reader_settings(self._topics.servers, f"{self._topics.prefix}-outside"),
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
            }
        )

    def _read(
        self, consumer: Consumer, offsets: dict[tuple[str, int], int], rows: dict[str, list[Row]]
    ) -> None:
        """Add the rows from ``offsets`` to the end of each partition, and move ``offsets`` on."""
        from confluent_kafka import KafkaError, TopicPartition

        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        listed = consumer.list_topics(timeout=_SECONDS_TO_ANSWER).topics
        places = [
            (name, number)
            for name in sorted(listed)
            if self._topics.is_output(name)
            for number in sorted(listed[name].partitions)
        ]
        found: dict[tuple[str, int], list[Any]] = {place: [] for place in places}
        reading = set(places)
        consumer.assign([TopicPartition(*place, offsets.get(place, 0)) for place in places])
        while reading:
            assert time.monotonic() < deadline, f"the end of {sorted(reading)} does not come"
            message = consumer.poll(1)
            if message is None:
                continue
            place = message.topic() or "", message.partition() or 0
            error = message.error()
            if error is None:
                found[place].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(place)
                offsets[place] = message.offset() or 0
        consumer.unassign()
        for place in places:
            for message in found[place]:
                name = transaction_of(message, self._topics)
                rows.setdefault(name, []).append(as_tuple(msgspec.json.decode(message.value())))

    def _ask(
        self,
        question: Callable[[BrokerConnection], Answer],
        is_answer: Callable[[Answer], bool] = lambda answer: True,
    ) -> Answer:
        """Return the answer of the broker; ask again while it is being started."""
        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        host, _, port = self._topics.servers.rpartition(":")
        while True:
            try:
                with BrokerConnection(Address(host, int(port))) as broker:
                    answer = question(broker)
                if is_answer(answer) or time.monotonic() > deadline:
                    return answer
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
