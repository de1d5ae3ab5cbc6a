"""Just enough of Kafka's wire protocol to end a transaction that another process has written.

The rules this module lives by:

- A client library ends only the transactions that its own producer has begun. A sink that commits after a
  crash needs the request itself: EndTxn with (transactional id, producer id, epoch). The rest is what belongs
  to it: find the coordinator, describe and list transactions, and ask which brokers there are.
- Versions are fixed, those of Kafka 4: EndTxn 5, with which a repeated commit is answered as the first one.
- A connection is used by one thread. A request either returns the whole answer or raises OSError; then the
  broker may have carried it out or not, and the connection is of no further use.
- What comes from the broker is data with bounds: an answer longer than 64 MB is refused.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Self, TypeVar

Item = TypeVar("Item")

NONE: Final = 0
UNKNOWN_TOPIC: Final = 3
INVALID_TOPIC: Final = 17
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
UNSUPPORTED_VERSION: Final = 35
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
PRODUCER_FENCED: Final = 90
TRANSACTIONAL_ID_NOT_FOUND: Final = 105

ERROR_NAMES: Final = {
    NONE: "NONE",
    COORDINATOR_LOAD_IN_PROGRESS: "COORDINATOR_LOAD_IN_PROGRESS",
    COORDINATOR_NOT_AVAILABLE: "COORDINATOR_NOT_AVAILABLE",
    NOT_COORDINATOR: "NOT_COORDINATOR",
    UNSUPPORTED_VERSION: "UNSUPPORTED_VERSION",
    INVALID_PRODUCER_EPOCH: "INVALID_PRODUCER_EPOCH",
    INVALID_TXN_STATE: "INVALID_TXN_STATE",
    INVALID_PRODUCER_ID_MAPPING: "INVALID_PRODUCER_ID_MAPPING",
    INVALID_TRANSACTION_TIMEOUT: "INVALID_TRANSACTION_TIMEOUT",
    CONCURRENT_TRANSACTIONS: "CONCURRENT_TRANSACTIONS",
    PRODUCER_FENCED: "PRODUCER_FENCED",
    TRANSACTIONAL_ID_NOT_FOUND: "TRANSACTIONAL_ID_NOT_FOUND",
}

ONGOING: Final = "Ongoing"
EMPTY: Final = "Empty"
COMPLETE_COMMIT: Final = "CompleteCommit"
"""States of a transaction, as DescribeTransactions names them."""

_API_VERSIONS, _METADATA, _FIND_COORDINATOR = 18, 3, 10
_DESCRIBE_TRANSACTIONS, _LIST_TRANSACTIONS, _DESCRIBE_CONFIGS = 65, 66, 32
END_TXN: Final = 26
END_TXN_VERSION: Final = 5
"""The first version in which a repeated request is answered as the first one."""
_TRANSACTION_COORDINATOR: Final = 1
_BROKER: Final = 4
_TOPIC_ID_BYTES: Final = 16
_LONGEST_ANSWER: Final = 64 << 20
_CLIENT: Final = b"onceproof"


class ProtocolError(OSError):
    """The peer is not a broker of Kafka 4, or its answer is damaged."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


class TransactionDescription(NamedTuple):
    """A transaction as its coordinator knows it."""

    error: int
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]


class ListedTransaction(NamedTuple):
    """One line of the list of a coordinator."""

    transactional_id: str
    producer_id: int
    state: str


class BrokerConnection:
    """A connection to one broker.

    Args:
        address: where the broker listens.
        timeout_s: how long to wait for the connection and for each answer, in seconds.

    Raises:
        OSError: no connection.
    """

    def __init__(self, address: Address, timeout_s: float = 10.0) -> None:
        self.address = address
        self._socket = socket.create_connection(address, timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def api_versions(self) -> dict[int, int]:
        """Return the highest version of each request that the broker takes."""
        body = _text("onceproof") + _text("1") + b"\0"
        answer = self._call(_API_VERSIONS, 3, body, has_tags=False)
        _check(answer.int16(), "ApiVersions")
        found = {}
        for _ in range(answer.varint() - 1):
            key, _lowest, highest = answer.int16(), answer.int16(), answer.int16()
            answer.skip_tags()
            found[key] = highest
        return found

    def brokers(self) -> list[Address]:
        """Return the addresses of the brokers that serve; none while the only broker registers."""
        return [address for _, address in self._metadata(())[0]]

    def partitions(self, topic: str) -> list[int] | None:
        """Return the partitions of a topic, or None if there is no such topic.

        As for any producer, the broker makes the topic if it is allowed to (auto.create.topics.enable); then
        it may have no partitions yet.
        """
        [(error, partitions)] = self._metadata((topic,))[1]
        return None if error in (UNKNOWN_TOPIC, INVALID_TOPIC) else sorted(partitions)

    def broker_setting(self, name: str) -> str | None:
        """Return a setting of the broker, or None if the broker does not tell it.

        Raises ProtocolError while the only broker registers.
        """
        brokers = self._metadata(())[0]
        if not brokers:
            raise ProtocolError("no broker of the cluster has registered yet")
        node, _ = brokers[0]
        resource = struct.pack(">b", _BROKER) + _text(str(node)) + _array((name,), _text) + b"\0"
        body = _array((resource,), bytes) + b"\0\0" + b"\0"
        answer = self._call(_DESCRIBE_CONFIGS, 4, body)
        answer.int32()
        if answer.varint() != 2 or answer.int16() != NONE:
            return None
        answer.text()
        answer.take(1)
        answer.text()
        if answer.varint() != 2:
            return None
        answer.text()
        return answer.text()

    def coordinator(self, transactional_id: str) -> tuple[int, Address]:
        """Return an error and the address of the coordinator of a transactional id."""
        body = struct.pack(">b", _TRANSACTION_COORDINATOR) + _array((transactional_id,), _text) + b"\0"
        answer = self._call(_FIND_COORDINATOR, 4, body)
        answer.int32()
        if answer.varint() != 2:
            raise ProtocolError("the answer to FindCoordinator holds no coordinator")
        answer.text()
        answer.int32()
        address = Address(answer.text() or "", answer.int32())
        return answer.int16(), address

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> int:
        """Commit or abort a transaction, and return an error."""
        body = _text(transactional_id) + struct.pack(">qh?", producer_id, producer_epoch, commit) + b"\0"
        answer = self._call(END_TXN, END_TXN_VERSION, body)
        answer.int32()
        return answer.int16()

    def describe_transactions(self, transactional_ids: Sequence[str]) -> list[TransactionDescription]:
        """Return the state of each transaction; the broker must be their coordinator."""
        answer = self._call(_DESCRIBE_TRANSACTIONS, 0, _array(transactional_ids, _text) + b"\0")
        answer.int32()

        def topic() -> list[tuple[str, int]]:
            name = answer.text() or ""
            numbers = answer.array(answer.int32)
            answer.skip_tags()
            return [(name, number) for number in numbers]

        def transaction() -> TransactionDescription:
            error, name, state = answer.int16(), answer.text() or "", answer.text() or ""
            timeout_ms, started_ms = answer.int32(), answer.int64()
            producer_id, producer_epoch = answer.int64(), answer.int16()
            partitions = tuple(each for found in answer.array(topic) for each in found)
            answer.skip_tags()
            return TransactionDescription(
                error, name, state, timeout_ms, started_ms, producer_id, producer_epoch, partitions
            )

        return answer.array(transaction)

    def list_transactions(self, states: Sequence[str] = ()) -> tuple[int, list[ListedTransaction]]:
        """Return an error and the transactions that this broker coordinates, in these states or in any."""
        answer = self._call(_LIST_TRANSACTIONS, 0, _array(states, _text) + _array((), _text) + b"\0")
        answer.int32()
        error = answer.int16()
        answer.array(answer.text)

        def transaction() -> ListedTransaction:
            found = ListedTransaction(answer.text() or "", answer.int64(), answer.text() or "")
            answer.skip_tags()
            return found

        return error, answer.array(transaction)

    # ---- internal

    def _metadata(
        self, topics: Sequence[str]
    ) -> tuple[list[tuple[int, Address]], list[tuple[int, list[int]]]]:
        """Return the brokers by id, and for each topic an error and its partitions."""
        asked = _array(topics, lambda topic: bytes(_TOPIC_ID_BYTES) + _text(topic) + b"\0")
        answer = self._call(_METADATA, 12, asked + b"\1\0" + b"\0")
        answer.int32()

        def broker() -> tuple[int, Address]:
            node, host, port = answer.int32(), answer.text() or "", answer.int32()
            answer.text()
            answer.skip_tags()
            return node, Address(host, port)

        def partition() -> int:
            answer.int16()
            number = answer.int32()
            answer.int32()
            answer.int32()
            for _ in range(3):
                answer.array(answer.int32)
            answer.skip_tags()
            return number

        def topic() -> tuple[int, list[int]]:
            error = answer.int16()
            answer.text()
            answer.take(_TOPIC_ID_BYTES + 1)
            partitions = answer.array(partition)
            answer.int32()
            answer.skip_tags()
            return error, partitions

        brokers = answer.array(broker)
        answer.text()
        answer.int32()
        return brokers, answer.array(topic)

    def _call(self, key: int, version: int, body: bytes, *, has_tags: bool = True) -> _Answer:
        self._number += 1
        head = struct.pack(">hhih", key, version, self._number, len(_CLIENT)) + _CLIENT + b"\0"
        message = head + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        (length,) = struct.unpack(">i", self._receive(4))
        if not 4 <= length <= _LONGEST_ANSWER:
            raise ProtocolError(f"{self.address.host}:{self.address.port} is not a broker of Kafka")
        answer = _Answer(self._receive(length))
        if answer.int32() != self._number:
            raise ProtocolError("an answer to another request")
        if has_tags:
            answer.skip_tags()
        return answer

    def _receive(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._socket.recv(length - len(parts))
            if not part:
                raise ConnectionResetError(
                    f"{self.address.host}:{self.address.port} has closed the connection"
                )
            parts += part
        return bytes(parts)


class _Answer:
    """Reads the fields of an answer one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, length: int) -> bytes:
        end = self._place + length
        if length < 0 or end > len(self._data):
            raise ProtocolError("an answer that ends too early")
        part = self._data[self._place : end]
        self._place = end
        return part

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def varint(self) -> int:
        value = 0
        for place in range(5):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * place)
            if not byte & 0x80:
                return value
        raise ProtocolError("a length that does not end")

    def text(self) -> str | None:
        length = self.varint()
        return None if length == 0 else self.take(length - 1).decode("utf-8", errors="replace")

    def array(self, item: Callable[[], Item]) -> list[Item]:
        return [item() for _ in range(self.varint() - 1)]

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


def error_name(error: int) -> str:
    """Return the name that Kafka gives an error."""
    return ERROR_NAMES.get(error, f"error {error}")


def _check(error: int, request: str) -> None:
    if error != NONE:
        raise ProtocolError(f"{request} is answered with {error_name(error)}")


def _varint(number: int) -> bytes:
    out = bytearray()
    while True:
        low, number = number & 0x7F, number >> 7
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return _varint(len(data) + 1) + data


def _array(items: Iterable[Item], encode: Callable[[Item], bytes]) -> bytes:
    encoded = [encode(item) for item in items]
    return _varint(len(encoded) + 1) + b"".join(encoded)
