"""The transactions of real brokers: rows by librdkafka, the ends of transactions by requests of our own.

The rules this module lives by:

- librdkafka cannot commit what another process has written, so commits and aborts are EndTxn requests to the
  coordinator of the transaction (`wire_protocol.py`). The same way is taken in the process that wrote the
  rows: there is one way to commit.
- An answer that says "not now" (the coordinator moves or loads, markers are being written) is asked again
  until ``request.timeout.ms``. A connection that breaks may have carried the request out or not: it is sent
  again, because EndTxn of version 5 gives a repeated request the answer of the first.
- Different answers have different outcomes: see `_ANSWERS`. Nothing is taken for committed that the broker
  does not call so.
- The producer id and epoch come from DescribeTransactions after the flush. It also shows that the transaction
  is still open, so one whose timeout has passed fails its checkpoint and not its commit.
- Requests of our own go over plain connections. Where the brokers ask for TLS or SASL they are not possible:
  the sink says so before its first record, and names the write-ahead way.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from onceproof.engine.connectors.kafka import wire_protocol as wire
from onceproof.engine.connectors.kafka.kafka_errors import (
    KafkaUnavailable,
    UnusableSetting,
    missing_topic,
    no_broker,
)
from onceproof.engine.connectors.kafka.row_producer import RowProducer
from onceproof.engine.connectors.kafka.transactions import (
    CommitAnswer,
    ProducerRecord,
    TransactionHandle,
)
from onceproof.engine.connectors.kafka.wire_protocol import Address, BrokerConnection

if TYPE_CHECKING:
    pass

Answer = TypeVar("Answer")

REQUEST_TIMEOUT_S: Final = 10.0
FLUSH_TIMEOUT_S: Final = 60.0
_MOST_WAITING: Final = 20_000
"""Rows that wait for their transaction to begin, before the task does."""
_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.1
_NOT_NOW: Final = frozenset(
    {
        wire.COORDINATOR_LOAD_IN_PROGRESS,
        wire.COORDINATOR_NOT_AVAILABLE,
        wire.NOT_COORDINATOR,
        wire.CONCURRENT_TRANSACTIONS,
    }
)
_ANSWERS: Final = {
    wire.NONE: CommitAnswer.COMMITTED,
    wire.INVALID_TXN_STATE: CommitAnswer.ABORTED,
    wire.PRODUCER_FENCED: CommitAnswer.FENCED,
    wire.INVALID_PRODUCER_EPOCH: CommitAnswer.FENCED,
    wire.INVALID_PRODUCER_ID_MAPPING: CommitAnswer.FORGOTTEN,
    wire.TRANSACTIONAL_ID_NOT_FOUND: CommitAnswer.FORGOTTEN,
}
_OPEN_STATES: Final = (wire.ONGOING, wire.EMPTY)
_LARGEST_TIMEOUT: Final = "transaction.max.timeout.ms"
_SECURITY: Final = "security.protocol"


class BrokerTransactions:
    """The transactions of the cluster that ``bootstrap.servers`` names (see `transactions.Transactions`).

    Args:
        properties: of librdkafka's producer; they must have ``bootstrap.servers``. ``request.timeout.ms`` is
            also how long one question may take here, with all its repetitions; 10 seconds by default.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = dict(properties)
        self._servers = str(properties["bootstrap.servers"])
        self._timeout_s = float(properties.get("request.timeout.ms", 1000 * REQUEST_TIMEOUT_S)) / 1000
        self._connections: dict[Address, BrokerConnection] = {}
        self._coordinators: dict[str, Address] = {}

    # ---- the port of the sink

    def check(self, topics: Sequence[str], timeout_ms: int) -> None:
        """Raise KafkaUnavailable, MissingTopic or UnusableSetting."""
        security = str(self._properties.get(_SECURITY, "plaintext")).lower()
        if security != "plaintext":
            raise UnusableSetting(
                f"{_SECURITY} is {security!r}, and the sink commits by requests of its own, which go over"
                " plain connections only: call set_write_ahead(True) on the builder of the sink"
            )
        self._ask_any(self._check_versions)
        self.check_topics(topics)
        largest = self._ask_any(lambda broker: broker.broker_setting(_LARGEST_TIMEOUT))
        if largest is not None and timeout_ms > int(largest):
            raise UnusableSetting(
                f"transaction.timeout.ms is {timeout_ms}, above the broker's maximum of {largest}"
                f" ({_LARGEST_TIMEOUT}): set_property('transaction.timeout.ms', '{largest}') on the builder"
                " of the sink, or raise the broker's maximum"
            )

    def check_topics(self, topics: Sequence[str]) -> None:
        """Raise KafkaUnavailable or MissingTopic."""
        self._ask_any(BrokerConnection.brokers)
        for topic in topics:
            if self._ask_any(partial(BrokerConnection.partitions, topic=topic)) is None:
                raise missing_topic(topic, self._servers)

    def begin(self, transactional_id: str, timeout_ms: int) -> OpenTransaction:
        """Begin to take an id, and return at once."""
        return OpenTransaction(self, self._properties, transactional_id, timeout_ms, self._timeout_s)

    def commit(self, handle: TransactionHandle) -> CommitAnswer:
        """Commit a transaction, and return what became of it."""
        error = self._end(handle, commit=True)
        if error not in _ANSWERS:
            raise KafkaUnavailable(
                f"the commit of transaction {handle.transactional_id} is answered with"
                f" {wire.error_name(error)}"
            )
        return _ANSWERS[error]

    def abort(self, handle: TransactionHandle) -> None:
        """Abort a transaction; its epoch rises, so a producer that still has it is fenced."""
        error = self._end(handle, commit=False)
        if error not in _ANSWERS:
            raise KafkaUnavailable(
                f"the abort of transaction {handle.transactional_id} is answered with"
                f" {wire.error_name(error)}"
            )

    def open_transactions(self, prefix: str) -> list[TransactionHandle]:
        """Ask every broker, because each coordinates some of the ids."""
        found = []
        brokers = self._ask_any(BrokerConnection.brokers)
        if not brokers:
            # None found would mean that none is open.
            raise no_broker(self._servers, "none of the cluster has registered yet")
        for address in brokers:
            for listed in self._list(address):
                if listed.transactional_id.startswith(prefix):
                    found.append(listed.transactional_id)
        return [handle for name in found if (handle := self._handle_if_open(name)) is not None]

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ---- asked by open transactions

    def handle_of_ongoing(self, transactional_id: str) -> TransactionHandle:
        """Return the handle of a transaction with rows in it. Raises KafkaUnavailable if it has ended."""
        description = self._describe(transactional_id)
        if description.error == wire.NONE and description.state == wire.ONGOING:
            return TransactionHandle(transactional_id, description.producer_id, description.producer_epoch)
        state = description.state if description.error == wire.NONE else wire.error_name(description.error)
        raise KafkaUnavailable(
            f"transaction {transactional_id} is not open any more ({state}), so its checkpoint cannot be"
            " taken: transaction.timeout.ms may be shorter than the time between checkpoints"
        )

    # ---- internal

    def _check_versions(self, broker: BrokerConnection) -> None:
        if broker.api_versions().get(wire.END_TXN, 0) < wire.END_TXN_VERSION:
            raise UnusableSetting(
                f"the broker at {self._servers} is older than Kafka 4.0, and the sink cannot repeat a commit"
                " there: call set_write_ahead(True) on the builder of the sink"
            )

    def _end(self, handle: TransactionHandle, *, commit: bool) -> int:
        return self._ask_coordinator(
            handle.transactional_id,
            lambda broker: broker.end_transaction(*handle, commit=commit),
            lambda error: error in _NOT_NOW,
        )

    def _describe(self, transactional_id: str) -> wire.TransactionDescription:
        return self._ask_coordinator(
            transactional_id,
            lambda broker: broker.describe_transactions((transactional_id,))[0],
            lambda description: description.error in _NOT_NOW,
        )

    def _handle_if_open(self, transactional_id: str) -> TransactionHandle | None:
        found = self._describe(transactional_id)
        if found.error != wire.NONE or found.state not in _OPEN_STATES:
            return None
        return TransactionHandle(transactional_id, found.producer_id, found.producer_epoch)

    def _list(self, address: Address) -> list[wire.ListedTransaction]:
        def ask() -> tuple[int, list[wire.ListedTransaction]]:
            return self._connection(address).list_transactions(_OPEN_STATES)

        _error, found = self._again(ask, lambda answer: answer[0] in _NOT_NOW, lambda: self._drop(address))
        return found

    def _ask_coordinator(
        self,
        transactional_id: str,
        question: Callable[[BrokerConnection], Answer],
        is_not_now: Callable[[Answer], bool],
    ) -> Answer:
        def ask() -> Answer:
            return question(self._connection(self._coordinator(transactional_id)))

        def look_again() -> None:
            address = self._coordinators.pop(transactional_id, None)
            if address is not None:
                self._drop(address)

        answer = self._again(ask, is_not_now, look_again)
        self._coordinators.pop(transactional_id, None)
        return answer

    def _ask_any(self, question: Callable[[BrokerConnection], Answer]) -> Answer:
        addresses = _bootstrap(self._servers)
        failure: OSError = KafkaUnavailable(f"bootstrap.servers {self._servers!r} names no broker")
        for address in addresses:
            try:
                return question(self._connection(address))
            except OSError as error:
                self._drop(address)
                failure = error
        raise no_broker(self._servers, failure.strerror or failure) from failure

    def _coordinator(self, transactional_id: str) -> Address:
        address = self._coordinators.get(transactional_id)
        if address is None:
            error, address = self._ask_any(lambda broker: broker.coordinator(transactional_id))
            if error != wire.NONE:
                raise KafkaUnavailable(f"FindCoordinator is answered with {wire.error_name(error)}")
            self._coordinators[transactional_id] = address
        return address

    def _connection(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = BrokerConnection(address, self._timeout_s)
        return connection

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def _again(
        self, ask: Callable[[], Answer], is_not_now: Callable[[Answer], bool], repair: Callable[[], None]
    ) -> Answer:
        """Ask until the answer is one, and raise KafkaUnavailable after the request timeout."""
        deadline = time.monotonic() + self._timeout_s
        pause_s = _PAUSE_S
        while True:
            failure: OSError | None = None
            try:
                answer = ask()
                if not is_not_now(answer):
                    return answer
            except OSError as error:
                failure = error
                repair()
            if time.monotonic() + pause_s > deadline:
                if isinstance(failure, KafkaUnavailable):
                    raise failure
                if failure is not None:
                    raise no_broker(self._servers, failure.strerror or failure) from failure
                raise KafkaUnavailable(
                    f"the transaction coordinator at {self._servers} is busy for {self._timeout_s:.0f} s"
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class OpenTransaction:
    """The one transaction of a transactional id, written by a producer of its own.

    To take an id costs several answers of the coordinator. A thread does it while the task goes on; rows that
    come meanwhile wait here, up to a bound.
    """

    def __init__(
        self,
        transactions: BrokerTransactions,
        properties: Mapping[str, Any],
        transactional_id: str,
        timeout_ms: int,
        request_timeout_s: float,
    ) -> None:
        self._transactions = transactions
        self._id = transactional_id
        self._timeout_s = request_timeout_s
        self._rows = RowProducer(
            {**properties, "transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        )
        self._waiting: list[ProducerRecord] = []
        self._beginning = _Beginning()
        # The thread does not keep this object alive: a task that is dropped without a close ends it, too.
        arguments = (self._beginning, self._rows, request_timeout_s, weakref.ref(self))
        Thread(target=_begin, args=arguments, name=f"begin {transactional_id}", daemon=True).start()

    def produce(self, records: Sequence[ProducerRecord]) -> None:
        """Hand rows to the producer, or let them wait until it has begun."""
        if self._beginning.is_over.is_set() or len(self._waiting) >= _MOST_WAITING:
            self._hand_over()
            self._rows.produce(records)
        else:
            self._waiting += records

    def pre_commit(self) -> TransactionHandle:
        """Wait until all rows are stored, and return the handle of the transaction."""
        self._hand_over()
        self._rows.flush(FLUSH_TIMEOUT_S)
        return self._transactions.handle_of_ongoing(self._id)

    def abort(self) -> None:
        """Abort the transaction with all its rows."""
        if self._beginning.is_over.is_set() and self._beginning.failure is None:
            self._rows.abort(self._timeout_s)

    def close(self) -> None:
        """Drop the producer; rows on their way are dropped, too."""
        self._beginning.is_given_up = True
        self._rows.close()

    def wait_until_begun(self) -> None:
        """Wait until the id is taken. Raises KafkaUnavailable and UnusableSetting."""
        self._beginning.is_over.wait()
        if self._beginning.failure is not None:
            raise self._beginning.failure

    def _hand_over(self) -> None:
        self.wait_until_begun()
        waiting, self._waiting = self._waiting, []
        self._rows.produce(waiting)


class _Beginning:
    """What a transaction and the thread that begins it tell each other."""

    def __init__(self) -> None:
        self.is_over = Event()
        self.failure: Exception | None = None
        self.is_given_up = False


def _begin(
    beginning: _Beginning, rows: RowProducer, timeout_s: float, owner: weakref.ref[OpenTransaction]
) -> None:
    """Begin a transaction, as long as its owner is there and has not closed it."""
    try:
        rows.begin_transaction(timeout_s, lambda: not beginning.is_given_up and owner() is not None)
    except Exception as error:
        beginning.failure = error
    beginning.is_over.set()


def _bootstrap(servers: str) -> list[Address]:
    """Return the addresses in ``bootstrap.servers``. Raises UnusableSetting."""
    found = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        if not host or not port.isdecimal():
            raise UnusableSetting(
                f"bootstrap.servers {servers!r} of Kafka: give host:port, several with commas between them"
            )
        found.append(Address(host.strip("[]"), int(port)))
    return found
