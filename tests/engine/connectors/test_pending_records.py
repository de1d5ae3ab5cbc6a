"""How many records wait in a source, as its readers know it."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.collection import CollectionReader
from onceproof.engine.connectors.sequence_source import SequenceReader
from onceproof.engine.connectors.source import ForwardingReader


def test_a_collection_counts_down():
    reader = CollectionReader([(each, None) for each in range(10)], 2)
    reader.read(3)
    assert reader.pending_records == 5
    assert ForwardingReader.pending_records.fget(Forwarding(reader)) == 5
    reader.read(100)
    assert (reader.pending_records, reader.exhausted) == (0, True)


class Forwarding(ForwardingReader):
    def read(self, limit):
        return self._reader.read(limit)


def test_a_sequence_counts_its_own_numbers_and_an_endless_one_none():
    reader = SequenceReader(str, 1, 3, 20, None)
    assert reader.pending_records == len(range(1, 20, 3))
    reader.read(2)
    assert reader.pending_records == len(range(7, 20, 3))
    assert SequenceReader(str, 0, 1, None, None).pending_records is None


class FakeConsumer:
    """Knows the end of a partition, or not yet."""

    end = -1001

    def assign(self, places):
        pass

    def get_watermark_offsets(self, place, *, cached):
        assert cached, "the server must not be asked"
        return 0, self.end


@pytest.mark.parametrize(
    ("end", "stop", "following", "pending"),
    [(-1001, -1, 5, None), (20, -1, 5, 15), (20, 12, 5, 7), (20, 12, 12, 0), (3, -1, 5, 0)],
)
def test_kafka_counts_up_to_the_end_that_the_client_knows(end, stop, following, pending):
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
    from onceproof.engine.connectors.kafka.offsets import KafkaTopicPartition
    from onceproof.engine.connectors.kafka.partition_reader import NO_STOP, PartitionReader, ReaderPosition
    from onceproof.engine.formats.message_schemas import SimpleStringSchema

    consumer = FakeConsumer()
    consumer.end = end
    position = ReaderPosition(following, NO_STOP if stop < 0 else stop)
    place = KafkaTopicPartition("orders", 0)
    reader = PartitionReader(consumer, place, position, SimpleStringSchema(), "servers", commits=False)
    assert reader.pending_records == pending
