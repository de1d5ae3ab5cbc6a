"""The transactions of a topic, read out of hand-made files of a broker."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from onceproof.harness.systems.flink.topic_log import TopicLog, TopicUnreadable

TOPIC = "trial1-out-rows"
IDS = "trial1-flink"
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1


def number(value: int) -> bytes:
    """Return a number in zigzag and seven bits a byte."""
    value = (value << 1) ^ (value >> 63)
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def content_of(part: bytes | None) -> bytes:
    return number(-1) if part is None else number(len(part)) + part


def batch(
    first: int,
    producer: int,
    epoch: int,
    records: Sequence[tuple[bytes | None, bytes | None]],
    attributes: int = TRANSACTIONAL,
) -> bytes:
    """Return a batch of records as a broker stores it; its checksum is not looked at."""
    body = b""
    for place, (key, value) in enumerate(records):
        record = b"\0" + number(0) + number(place) + content_of(key) + content_of(value) + number(0)
        body += number(len(record)) + record
    last, count = len(records) - 1, len(records)
    rest = struct.pack(">ibIhiqqqhii", 0, 2, 0, attributes, last, 5, 5, producer, epoch, 0, count) + body
    return struct.pack(">qi", first, len(rest)) + rest


def rows(first: int, producer: int, epoch: int, *words: str) -> bytes:
    return batch(first, producer, epoch, [(None, json.dumps([word, 1]).encode()) for word in words])


def marker(first: int, producer: int, epoch: int, kind: int) -> bytes:
    return batch(first, producer, epoch, [(struct.pack(">hh", 0, kind), b"\0" * 6)], TRANSACTIONAL | CONTROL)


def listed(producer: int, epoch: int, identifier: str) -> bytes:
    """Return a transaction as the state of Flink's committer holds it."""
    return struct.pack(">hqh", epoch, producer, len(identifier)) + identifier.encode()


class Broker:
    """The folder of a broker's data with one topic of two partitions."""

    def __init__(self, data: Path) -> None:
        self.log = TopicLog(data, TOPIC, 2, IDS)
        self._segments = [data / f"{TOPIC}-{number}" / f"{0:020}.log" for number in range(2)]
        for segment in self._segments:
            segment.parent.mkdir()
            segment.touch()

    def append(self, partition: int, content: bytes) -> None:
        with self._segments[partition].open("ab") as file:
            file.write(content)

    def new(self) -> dict[str, list[tuple[str, int]]]:
        found, gone = self.log.changes()
        assert gone == []
        return found


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def test_rows_are_visible_once_when_their_transaction_is_committed(broker: Broker) -> None:
    broker.append(0, rows(0, 7, 3, "ant", "bee"))
    assert broker.new() == {}
    # With transactions of version 2 a marker has the next epoch.
    broker.append(0, marker(2, 7, 4, COMMIT))
    assert broker.new() == {"transaction-7-3": [("ant", 1), ("bee", 1)]}
    assert broker.new() == {}
    assert broker.log.is_at_rest


def test_rows_of_an_aborted_transaction_are_never_visible(broker: Broker) -> None:
    broker.append(0, rows(0, 7, 3, "ant") + marker(1, 7, 3, ABORT) + rows(2, 7, 4, "bee"))
    broker.append(0, marker(3, 7, 4, COMMIT))
    assert broker.new() == {"transaction-7-4": [("bee", 1)]}


def test_committed_rows_behind_an_open_transaction_are_hidden_until_it_ends(broker: Broker) -> None:
    broker.append(0, rows(0, 1, 0, "dead") + rows(1, 2, 0, "ant") + marker(2, 2, 0, COMMIT))
    assert broker.new() == {}
    assert not broker.log.is_at_rest
    broker.append(0, marker(3, 1, 0, ABORT))
    assert broker.new() == {"transaction-2-0": [("ant", 1)]}


def test_transaction_of_two_partitions_is_visible_when_both_are_marked(broker: Broker) -> None:
    broker.append(0, rows(0, 2, 0, "ant") + marker(1, 2, 0, COMMIT))
    broker.append(1, rows(0, 2, 0, "bee"))
    assert broker.new() == {}
    broker.append(1, marker(1, 2, 0, COMMIT))
    assert broker.new() == {"transaction-2-0": [("ant", 1), ("bee", 1)]}


def test_batch_that_is_half_written_is_read_when_it_is_whole(broker: Broker) -> None:
    content = rows(0, 2, 0, "ant") + marker(1, 2, 0, COMMIT)
    for cut in (5, 70, len(content) - 1):
        broker.append(0, content[:cut] if cut == 5 else content[(5, 70)[cut != 70] : cut])
        assert broker.new() == {}
    broker.append(0, content[-1:])
    assert broker.new() == {"transaction-2-0": [("ant", 1)]}


def test_rows_without_a_transaction_are_visible_and_listed_nowhere(broker: Broker) -> None:
    broker.append(1, batch(0, -1, -1, [(None, b'["ant", 1]')], attributes=0))
    assert broker.new() == {"plain-0-1": [("ant", 1)]}


def test_metadata_list_the_transactions_that_have_rows(broker: Broker) -> None:
    broker.append(0, rows(0, 7, 3, "ant") + rows(1, 300, 0, "bee"))
    metadata = (
        b"state"
        + listed(7, 3, f"{IDS}-0-1")
        + listed(300, 0, f"{IDS}-1-12")
        # No rows; another job's; and an id that the writer remembers, behind other bytes.
        + listed(8, 0, f"{IDS}-1-2")
        + listed(7, 3, "trial2-flink-0-1")
        + b"123456789012"
        + f"{IDS}-0-1".encode()
    )
    assert broker.log.listed_in(metadata) == ["transaction-7-3", "transaction-12c-0"]


def test_compressed_batch_is_an_error_that_names_its_file(broker: Broker) -> None:
    broker.append(0, batch(0, 7, 3, [(None, b"[]")], attributes=TRANSACTIONAL | 2))
    with pytest.raises(TopicUnreadable, match=rf"{TOPIC}-0/0+.log: .* compressed, at offset 0"):
        broker.new()
