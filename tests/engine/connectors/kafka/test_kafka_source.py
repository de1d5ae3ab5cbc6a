"""The Kafka source against a real broker: positions, where reading begins and stops, what it never reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from onceproof.engine import (
    FlinkKafkaConsumer,
    JsonRowDeserializationSchema,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
    SimpleStringSchema,
    StreamExecutionEnvironment,
    TypeInformation,
    Types,
)
from onceproof.engine.connectors.kafka import topic_ids
from onceproof.engine.connectors.kafka.kafka_errors import (
    KafkaUnavailable,
    MissingTopic,
    UnusableSetting,
)
from onceproof.engine.connectors.kafka.kafka_source import KafkaSourceBuilder
from onceproof.engine.connectors.kafka.partition_reader import OffsetGone, PartitionReader
from onceproof.engine.connectors.kafka.topic_ids import TopicReplaced
from onceproof.engine.formats.message_schemas import MalformedMessage
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.service import free_port
from tests.engine.connectors.kafka.topics import add_partitions, committed_rows, fill, new_topic
from tests.patience import PATIENCE_SECONDS

Offsets = KafkaOffsetsInitializer


def builder(servers: str, *topics: str) -> KafkaSourceBuilder:
    chosen = KafkaSource.builder().set_bootstrap_servers(servers).set_topics(*topics)
    return chosen.set_value_only_deserializer(SimpleStringSchema())


@pytest.fixture
def servers(kafka_broker: KafkaBroker) -> str:
    return kafka_broker.address


@pytest.fixture
def opened() -> Iterator[Callable[..., PartitionReader]]:
    """Opens splits, and closes their readers at the end."""
    readers = []

    def open_split(source: KafkaSource, split: str, position: Any = None) -> PartitionReader:
        readers.append(source.open_split(split, position))
        return readers[-1]

    yield open_split
    for reader in readers:
        reader.close()


def values(reader: PartitionReader, count: int) -> list[str]:
    """Read until so many values have come, or the end."""
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count and not reader.exhausted:
        assert time.monotonic() < deadline, found
        found += [value for value, _ in reader.read(count - len(found))]
        if not found:
            time.sleep(reader.retry_ms / 1000)
    return found


def rest(reader: PartitionReader) -> list[str]:
    """Read a reader that stops somewhere to its end."""
    return values(reader, 1 << 30)


def write_transaction(servers: str, topic: str, name: str, rows: int, end: str) -> Producer:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}-{name}", "linger.ms": 0})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    for number in range(rows):
        producer.produce(topic, f"{name}{number}".encode(), partition=0)
    producer.flush(PATIENCE_SECONDS)
    if end == "commit":
        producer.commit_transaction(PATIENCE_SECONDS)
    elif end == "abort":
        producer.abort_transaction(PATIENCE_SECONDS)
    return producer


def test_reader_goes_on_at_the_position_of_another(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(10)), 1)
    source = builder(servers, topic).build()
    first = opened(source, f"{topic}-0")
    assert values(first, 4) == ["0", "1", "2", "3"]
    second = opened(source, f"{topic}-0", first.position)
    assert values(second, 6) == ["4", "5", "6", "7", "8", "9"]
    assert first.position[:2] == (4, -1)


def test_bounded_reader_ends_behind_markers_and_aborted_rows(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    write_transaction(servers, topic, "seen", 2, "commit")
    write_transaction(servers, topic, "aborted", 3, "abort")
    write_transaction(servers, topic, "last", 1, "commit")
    source = builder(servers, topic).set_bounded(Offsets.latest()).build()
    assert source.is_bounded
    reader = opened(source, f"{topic}-0")
    assert rest(reader) == ["seen0", "seen1", "last0"]
    # Six rows, and three markers that no reader sees.
    assert reader.position[:2] == (9, 9)


def test_rows_of_an_open_transaction_are_not_read(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, ["before"], 1)
    producer = write_transaction(servers, topic, "open", 2, "")
    fill(servers, topic, ["behind it"], 1)
    source = builder(servers, topic).build()
    bounded = builder(servers, topic).set_bounded(Offsets.latest()).build()
    assert rest(opened(bounded, f"{topic}-0")) == ["before"]
    reader = opened(source, f"{topic}-0")
    assert values(reader, 1) == ["before"]
    assert [reader.read(10) for _ in range(5)] == [[]] * 5
    producer.commit_transaction(PATIENCE_SECONDS)
    assert values(reader, 3) == ["open0", "open1", "behind it"]


def test_reading_begins_where_the_initializer_says(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    for number in range(6):
        fill(servers, topic, [str(number)], 1, timestamp=1_000 * (number + 1))
    place = KafkaTopicPartition(topic, 0)
    group = Consumer({"bootstrap.servers": servers, "group.id": topic})
    group.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    group.close()
    expected = {
        Offsets.earliest(): "012345",
        Offsets.latest(): "",
        Offsets.timestamp(2_500): "2345",
        Offsets.timestamp(99_000): "",
        Offsets.committed_offsets(): "45",
        Offsets.offsets({place: 3}): "345",
        Offsets.offsets({place: 99}): "012345",
        Offsets.offsets({place: 99}, KafkaOffsetResetStrategy.LATEST): "",
    }
    for starting, rows in expected.items():
        chosen = builder(servers, topic).set_group_id(topic).set_starting_offsets(starting)
        reader = opened(chosen.set_bounded(Offsets.latest()).build(), f"{topic}-0")
        assert "".join(rest(reader)) == rows
    stopped = builder(servers, topic).set_unbounded(Offsets.offsets({place: 2})).build()
    assert not stopped.is_bounded
    assert rest(opened(stopped, f"{topic}-0")) == ["0", "1"]


def test_group_without_offsets_needs_a_reset_strategy(servers: str) -> None:
    topic = new_topic(servers, 1)
    chosen = builder(servers, topic).set_group_id(f"unused {topic}")
    source = chosen.set_starting_offsets(Offsets.committed_offsets()).build()
    with pytest.raises(UnusableSetting, match="has no offset by the committed offsets"):
        source.open_split(f"{topic}-0", None)


def test_offset_that_retention_has_deleted_is_an_error(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        deleted.result(PATIENCE_SECONDS)
    reader = opened(builder(servers, topic).build(), f"{topic}-0", (1, -1))
    with pytest.raises(
        OffsetGone, match=f"offset 1 of {topic}-0 .* deleted offsets 1 to 2, 2 that the job has"
    ):
        values(reader, 1)


def test_offset_beyond_the_end_of_the_partition_is_an_error(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, ["0"], 1)
    reader = opened(builder(servers, topic).build(), f"{topic}-0", (7, -1))
    with pytest.raises(OffsetGone, match=f"offset 7 of {topic}-0 .* the partition ends at 1 now"):
        values(reader, 1)


def create_again(servers: str, topic: str) -> None:
    """Delete a topic, and create another one of its name."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _is_refused(admin.create_topics([NewTopic(topic, 1, 1)])[topic]):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_refused(creation: Any) -> bool:
    """Return whether the old topic is still being deleted."""
    error = creation.exception(PATIENCE_SECONDS)
    if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return True
    creation.result()
    return False


REPLACED = "is not the one that the job has read: it was deleted and created again; its id is .*, and offset "


def test_topic_created_again_is_not_read_from_the_old_offset(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    source = builder(servers, topic).build()
    first = opened(source, f"{topic}-0")
    assert values(first, 3) == ["0", "1", "2"]
    position = first.position
    first.close()
    create_again(servers, topic)
    fill(servers, topic, map(str, range(50)), 1)
    with pytest.raises(
        TopicReplaced, match=f"topic '{topic}' at .* {REPLACED}3 of partition 0 is one of topic id"
    ):
        opened(source, f"{topic}-0", position)
    assert values(opened(source, f"{topic}-0"), 1) == ["0"]


@pytest.mark.parametrize("rows", [2, 50])
def test_topic_created_again_while_it_is_read_is_noticed(servers: str, opened: Any, rows: int) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    reader = opened(builder(servers, topic).build(), f"{topic}-0")
    assert len(values(reader, 5)) == 5
    create_again(servers, topic)
    fill(servers, topic, map(str, range(rows)), 1)
    with pytest.raises(TopicReplaced, match=REPLACED):
        values(reader, 1 << 30)


def test_bounded_reader_does_not_end_in_another_topic(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    source = builder(servers, topic).set_bounded(Offsets.latest()).build()
    reader = opened(source, f"{topic}-0")
    assert len(values(reader, 4)) == 4
    create_again(servers, topic)
    fill(servers, topic, map(str, range(50)), 1)
    with pytest.raises(TopicReplaced, match=REPLACED):
        rest(reader)


def test_position_of_an_earlier_version_is_taken_with_a_warning(
    servers: str, opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    source = builder(servers, topic).build()
    reader = opened(source, f"{topic}-0", (3, -1))
    [warning] = caplog.records
    assert "resumes from a checkpoint of an earlier version, which has no topic id" in warning.getMessage()
    assert values(reader, 2) == ["3", "4"]
    opened(source, f"{topic}-0", reader.position)
    assert len(caplog.records) == 1
    assert len(reader.position[2]) == 22


def test_brokers_without_ids_are_read_as_before(
    servers: str, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    source = builder(servers, topic).set_bounded(Offsets.latest()).build()
    known = opened(source, f"{topic}-0").position
    monkeypatch.setattr(topic_ids, "id_of", lambda description: "")
    reader = opened(source, f"{topic}-0")
    assert len(rest(reader)) == 5
    assert reader.position == (5, 5, "")
    assert len(rest(opened(source, f"{topic}-0", known))) == 5


def test_complete_checkpoint_commits_its_offset_to_the_group(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    source = builder(servers, topic).set_group_id(topic).build()
    assert source.hears_of_checkpoints
    assert not builder(servers, topic).build().hears_of_checkpoints
    reader = opened(source, f"{topic}-0")
    assert len(values(reader, 3)) == 3
    reader.checkpoint_complete(reader.position)
    group = Consumer({"bootstrap.servers": servers, "group.id": topic})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while group.committed([TopicPartition(topic, 0)], timeout=PATIENCE_SECONDS)[0].offset != 3:
        assert time.monotonic() < deadline
        reader.read(0)
    group.close()


class WholeRows(KafkaRecordDeserializationSchema):
    def deserialize(self, record: Any) -> list[Any]:
        return [tuple(record)[1:], record.topic]

    def get_produced_type(self) -> TypeInformation:
        return Types.DYNAMIC()


def test_deserializer_sees_key_time_and_headers(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, ["v"], 1, key=b"k", timestamp=5_000, headers=[("h", b"1"), ("n", None)])
    source = builder(servers, topic).set_deserializer(WholeRows()).set_bounded(Offsets.latest()).build()
    reader = opened(source, f"{topic}-0")
    assert rest(reader) == [(0, 0, 5_000, b"k", b"v", (("h", b"1"), ("n", None))), topic]


def test_malformed_row_is_named_with_its_place(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, ['{"a": 1}', "not json"], 1)
    schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["a"], [Types.INT()])).build()
    source = builder(servers, topic).set_value_only_deserializer(schema).build()
    reader = opened(source, f"{topic}-0")
    with pytest.raises(MalformedMessage, match=f"{topic}, partition 0, offset 1: "):
        values(reader, 2)


def test_splits_are_the_partitions_of_topics_and_patterns(servers: str) -> None:
    one, other = new_topic(servers, 2), new_topic(servers, 1)
    expected = sorted([f"{one}-0", f"{one}-1", f"{other}-0"])
    assert sorted(builder(servers, one, other).build().splits()) == expected
    pattern = builder(servers).set_topic_pattern(f"{one}|{other}").build()
    assert sorted(pattern.splits()) == expected
    places = {KafkaTopicPartition(one, 1)}
    assert builder(servers).set_partitions(places).build().splits() == [f"{one}-1"]
    with pytest.raises(MissingTopic, match=f"'{one}-7' does not exist"):
        builder(servers).set_partitions({KafkaTopicPartition(one, 7)}).build().splits()


def test_each_partition_has_one_owner_whenever_it_is_listed() -> None:
    source = builder("localhost:1", "t").build()
    for parallelism in (1, 2, 3, 5):
        owners = [source.owner_of(f"t-{number}", parallelism) for number in range(parallelism)]
        assert sorted(owners) == list(range(parallelism))


def test_missing_topic_is_a_line(servers: str) -> None:
    with pytest.raises(MissingTopic, match="topic 'nowhere' does not exist at"):
        builder(servers, "nowhere").build().splits()


def test_server_that_is_down_is_a_line_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr("onceproof.engine.connectors.kafka.kafka_source.REQUEST_TIMEOUT_S", 0.5)
    with pytest.raises(KafkaUnavailable, match=f"no Kafka broker answers at 127.0.0.1:{port}"):
        builder(f"127.0.0.1:{port}", "t").build().splits()


@pytest.mark.parametrize("missing", ["servers", "topics", "deserializer", "group", "pattern"])
def test_builder_says_what_is_missing(missing: str) -> None:
    empty = KafkaSource.builder()
    calls: dict[str, Callable[[], object]] = {
        "servers": empty.build,
        "topics": KafkaSource.builder().set_bootstrap_servers("localhost:1").build,
        "deserializer": KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("t").build,
        "group": builder("localhost:1", "t").set_starting_offsets(Offsets.committed_offsets()).build,
        "pattern": lambda: empty.set_topic_pattern("["),
    }
    with pytest.raises(UnusableSetting, match=r"call set_|topic pattern"):
        calls[missing]()


def test_older_source_begins_at_the_offsets_of_its_group(servers: str, opened: Any) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, map(str, range(5)), 1)
    properties = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    with pytest.warns(DeprecationWarning, match="use KafkaSource"):
        consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), properties)
    assert values(opened(consumer, f"{topic}-0"), 5) == ["0", "1", "2", "3", "4"]
    consumer.set_start_from_latest().set_commit_offsets_on_checkpoints(False)
    assert not consumer.hears_of_checkpoints
    assert opened(consumer, f"{topic}-0").position[:2] == (5, -1)


@pytest.mark.slow
def test_partition_that_comes_later_is_read_from_its_first_row(servers: str) -> None:
    topic = new_topic(servers, 1)
    fill(servers, topic, ["first"], 1)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = builder(servers, topic).set_property("partition.discovery.interval.ms", 50).build()
    with env.from_source(source, None, "rows").execute_and_collect() as rows:
        assert next(rows) == "first"
        add_partitions(servers, topic, 3)
        fill(servers, topic, ["a", "b", "c"], 3)
        assert sorted(next(rows) for _ in range(3)) == ["a", "b", "c"]
    assert len(committed_rows(servers, topic, 4)) == 4
