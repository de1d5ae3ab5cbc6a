"""The rows in a topic of Kafka, with their transactions, read out of the broker's own files.

The rules this module lives by:

- Readers of Kafka are not shown the transaction of a row, and Flink's sink writes no header. In the broker's
  log it stands in each batch: the id and the epoch of the producer. Markers say what was committed.
- A transaction is visible when readers of committed rows see it: a marker says so in each partition in which
  it has rows, and no transaction before it is open.
- The rows of a transaction are in the log before its first marker is. So markers are believed from the look
  after the one that has found them.
- A batch that is not whole yet is read the next time. Fields: Kafka's documentation, "Record Batch".
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from onceproof.harness.model.history import Row, as_tuple

_HEAD: Final = struct.Struct(">qi")
"""The first offset, and the length of what follows."""
_REST: Final = struct.Struct(">ibIhiqqqhii")
"""Leader's epoch, magic, checksum, attributes, last offset's distance, two times, producer, its epoch, first
sequence, number of records."""
_MAGIC: Final = 2
_COMPRESSION: Final = 0x07
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_COMMIT: Final = 1


class TopicUnreadable(Exception):
    """A topic has what this reader does not know; the message is one line."""


class _Batch(NamedTuple):
    first: int
    last: int
    producer: int
    epoch: int
    attributes: int
    records: tuple[tuple[bytes | None, bytes | None], ...]
    """Keys and values."""


@dataclass(slots=True)
class _Open:
    """What an open transaction has in a partition."""

    name: str
    first: int
    last: int
    rows: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class _Partition:
    """One partition, read so far."""

    folder: Path
    read: dict[Path, int] = field(default_factory=dict)
    """By segment, how many bytes of it."""
    end: int = 0
    open: dict[int, _Open] = field(default_factory=dict)
    """By producer."""
    committed: list[_Open] = field(default_factory=list)
    """Transactions that are committed, and not yet visible."""


class TopicLog:
    """Finds the transactions of a topic that have become visible, as `FlinkPartFiles` does for files.

    Args:
        data: the folder of the broker's data.
        topic: the topic of one sink.
        partitions: how many it has.
        transactions: what the ids of its transactions begin with.
    """

    def __init__(self, data: Path, topic: str, partitions: int, transactions: str) -> None:
        self._partitions = [_Partition(data / f"{topic}-{number}") for number in range(partitions)]
        identifier = re.escape(transactions.encode()) + rb"-\d+-\d+"
        self._listed = re.compile(rb"(?s)(..)(........)(..)(" + identifier + rb")")
        self._names: set[str] = set()
        """Of all transactions with rows."""

    def changes(self) -> tuple[dict[str, list[Row]], list[str]]:
        """Return the rows of each transaction that is newly visible, by name, and that none has gone."""
        self._read()
        marked = {each.name for partition in self._partitions for each in partition.committed}
        self._read()
        new: dict[str, list[Row]] = {}
        for name in sorted(marked):
            if self._is_visible(name):
                new[name] = self._taken(name)
        return new, []

    def listed_in(self, metadata: bytes) -> list[str]:
        """Return the transactions that the metadata of a checkpoint list as ready to be committed.

        One that is not in the log has no rows: other bytes of the metadata look like it.
        """
        self._read()
        names: dict[str, None] = {}
        for epoch, producer, length, identifier in self._listed.findall(metadata):
            name = _name(*struct.unpack(">q", producer), *struct.unpack(">h", epoch))
            if int.from_bytes(length) == len(identifier) and name in self._names:
                names[name] = None
        return list(names)

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open or hidden behind an open one."""
        self._read()
        return not any(each.open or each.committed for each in self._partitions)

    def _is_visible(self, name: str) -> bool:
        """Return whether readers of committed rows see a transaction that a marker has committed."""
        for partition in self._partitions:
            if any(each.name == name for each in partition.open.values()):
                return False
            stable = min((each.first for each in partition.open.values()), default=partition.end)
            if any(each.name == name and each.last >= stable for each in partition.committed):
                return False
        return True

    def _taken(self, name: str) -> list[Row]:
        rows: list[Row] = []
        for partition in self._partitions:
            for each in partition.committed:
                if each.name == name:
                    rows += each.rows
            partition.committed = [each for each in partition.committed if each.name != name]
        return rows

    def _read(self) -> None:
        for partition in self._partitions:
            for batch in _new_batches(partition):
                self._add(partition, batch)

    def _add(self, partition: _Partition, batch: _Batch) -> None:
        partition.end = batch.last + 1
        if batch.attributes & _CONTROL:
            # The epoch of a marker may be a later one than that of its rows.
            ended = partition.open.pop(batch.producer, None)
            key = batch.records[0][0] or b""
            if ended is not None and int.from_bytes(key[2:4]) == _COMMIT:
                partition.committed.append(ended)
            return
        rows = [as_tuple(json.loads(value)) for _, value in batch.records if value is not None]
        name = _name(batch.producer, batch.epoch)
        if not batch.attributes & _TRANSACTIONAL:
            # It is visible at once, and listed nowhere.
            name = f"plain-{batch.first:x}-{partition.folder.name.rpartition('-')[2]}"
            partition.committed.append(_Open(name, batch.first, batch.last, rows))
        else:
            mine = partition.open.setdefault(batch.producer, _Open(name, batch.first, batch.last))
            mine.last = batch.last
            mine.rows += rows
        self._names.add(name)


def is_of_topic(name: str) -> bool:
    """Return whether a name is that of a transaction in a topic, not of a part file."""
    return name.startswith(("transaction-", "plain-"))


def _name(producer: int, epoch: int) -> str:
    """Return the name of a transaction; between its last two hyphens stands who has written it."""
    return f"transaction-{producer:x}-{epoch}"


def _new_batches(partition: _Partition) -> Iterator[_Batch]:
    """Yield the batches that were appended to a partition since the last time."""
    for segment in sorted(partition.folder.glob("*.log")):
        place = partition.read.get(segment, 0)
        with segment.open("rb") as file:
            file.seek(place)
            content = file.read()
        start = 0
        while len(content) - start >= _HEAD.size:
            first, length = _HEAD.unpack_from(content, start)
            end = start + _HEAD.size + length
            if length <= 0 or end > len(content):
                break
            yield _batch(first, content[start + _HEAD.size : end], segment)
            start = end
            partition.read[segment] = place + start


def _batch(first: int, content: bytes, segment: Path) -> _Batch:
    _, magic, _, attributes, distance, _, _, producer, epoch, _, count = _REST.unpack_from(content)
    if magic != _MAGIC or attributes & _COMPRESSION:
        raise TopicUnreadable(f"{segment}: a batch is of another format, or compressed, at offset {first}")
    records = tuple(_records(content[_REST.size :], count))
    return _Batch(first, first + distance, producer, epoch, attributes, records)


def _records(content: bytes, count: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the keys and values of the records of a batch."""
    place = 0
    for _ in range(count):
        length, place = _number(content, place)
        end = place + length
        # One byte of attributes; then the distances of time and offset.
        _, place = _number(content, place + 1)
        _, place = _number(content, place)
        key, place = _field(content, place)
        value, place = _field(content, place)
        yield key, value
        place = end


def _field(content: bytes, place: int) -> tuple[bytes | None, int]:
    length, place = _number(content, place)
    return (None, place) if length < 0 else (content[place : place + length], place + length)


def _number(content: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, in zigzag and seven bits a byte, and the place behind it."""
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place
        shift += 7


def read_committed(servers: str, topic: str, partitions: int, seconds: float) -> Sequence[Row]:
    """Return the rows that a reader of committed rows sees in a topic, by Kafka's own client.

    Raises TopicUnreadable: the reader does not come to the end.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    from onceproof.harness.systems.process.kafka_clients import reader_settings

    settings = {**reader_settings(servers, f"{topic}-outside"), "enable.partition.eof": True}
    consumer = Consumer(settings)
    rows: list[Row] = []
    reading = set(range(partitions))
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in reading])
        while reading:
            if time.monotonic() > deadline:
                raise TopicUnreadable(f"{topic}: its end does not come within {seconds:.0f} s")
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                rows.append(as_tuple(json.loads(message.value() or b"")))
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(message.partition() or 0)
    finally:
        consumer.close()
    return rows
