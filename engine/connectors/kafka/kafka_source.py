"""The source of Kafka topics (PyFlink: KafkaSource).

The rules this module lives by:

- A split is a partition, named ``topic-number``. The subtask that owns it is a function of its name and of
  the parallelism, so that subtasks that list at different moments agree.
- New partitions, and new topics of a pattern, are looked for every ``partition.discovery.interval.ms`` (five
  minutes, as in Flink) unless reading stops somewhere. They are read from their first row.
- Rows of open and of aborted transactions are not read (``isolation.level`` is read_committed).
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

from onceproof.engine.connectors.kafka.kafka_errors import (
    UnusableSetting,
    missing_topic,
    no_broker,
)
from onceproof.engine.connectors.kafka.offsets import (
    EARLIEST,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from onceproof.engine.connectors.kafka.partition_reader import (
    NO_STOP,
    REQUEST_TIMEOUT_S,
    ClusterOffsets,
    PartitionReader,
    ReaderPosition,
    client_properties,
    make_consumer,
)
from onceproof.engine.connectors.kafka.record_schemas import KafkaRecordDeserializationSchema
from onceproof.engine.connectors.kafka.topic_ids import TopicWatch, release, shared_ids
from onceproof.engine.connectors.source import Source, SourceIdentity
from onceproof.engine.extras import KAFKA, require
from onceproof.engine.formats.message_schemas import DeserializationSchema

SERVERS: Final = "bootstrap.servers"
GROUP: Final = "group.id"
DISCOVERY: Final = "partition.discovery.interval.ms"
COMMITS: Final = "commit.offsets.on.checkpoint"
DEFAULT_DISCOVERY_MS: Final = 300_000
_NO_GROUP: Final = "onceproof"
# Keys of Flink and of the Java client that mean nothing to librdkafka.
_LEFT_OUT: Final = frozenset(
    {"key.deserializer", "value.deserializer", "auto.offset.reset", DISCOVERY, COMMITS}
)

_logger = logging.getLogger(__name__)


class KafkaSource(Source):
    """Reads the partitions of topics (PyFlink: KafkaSource). Build one with ``KafkaSource.builder()``."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        wanted: Sequence[str] | Sequence[KafkaTopicPartition] | re.Pattern[str],
        deserializer: DeserializationSchema | KafkaRecordDeserializationSchema,
        starting: KafkaOffsetsInitializer = EARLIEST,
        stopping: KafkaOffsetsInitializer | None = None,
        *,
        is_bounded: bool = False,
    ) -> None:
        self._properties = {name: value for name, value in properties.items() if name not in _LEFT_OUT}
        self._servers = str(properties[SERVERS])
        self._has_group = GROUP in properties
        self._properties.setdefault(GROUP, _NO_GROUP)
        self._wanted = wanted
        self._deserializer = deserializer
        self._starting = starting
        self._stopping = stopping
        self.is_bounded = is_bounded
        self._commits = self._has_group and str(properties.get(COMMITS, True)).lower() == "true"
        self.hears_of_checkpoints = self._commits
        interval_ms = int(properties.get(DISCOVERY, DEFAULT_DISCOVERY_MS))
        self.can_discover = stopping is None and not _are_partitions(wanted)
        self.discovery_interval_ms = interval_ms if self.can_discover and interval_ms > 0 else None

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder."""
        return KafkaSourceBuilder()

    def get_produced_type(self) -> Any:
        """Return the type of the values."""
        return self._deserializer.get_produced_type()

    def splits(self) -> Sequence[str]:
        """Ask the brokers for the partitions. Raises KafkaUnavailable or MissingTopic."""
        require("KafkaSource", KAFKA)
        from confluent_kafka import KafkaException

        if isinstance(self._wanted, re.Pattern):
            topics: Sequence[str | None] = (None,)
        else:
            topics = sorted({each if isinstance(each, str) else each.topic for each in self._wanted})
        consumer = make_consumer(self._properties)
        try:
            found: dict[str, list[int]] = {}
            for topic in topics:
                listed: Any = consumer.list_topics(topic, REQUEST_TIMEOUT_S)
                for name, metadata in listed.topics.items():
                    found[name] = [] if metadata.error is not None else sorted(metadata.partitions)
        except KafkaException as error:
            raise no_broker(self._servers, error.args[0].str()) from error
        finally:
            consumer.close()
        return [split_of(place) for place in self._chosen(found)]

    def owner_of(self, split: str, parallelism: int) -> int:
        """Return the subtask of a partition: those of a topic are dealt out one after the other."""
        topic, partition = place_of(split)
        return (zlib.crc32(topic.encode()) + partition) % parallelism

    def open_split(self, split: str, position: Any | None) -> PartitionReader:
        """Return a reader; without a position, the initializers say where it begins and stops."""
        return self._open(split, position, self._starting)

    def open_discovered_split(self, split: str) -> PartitionReader:
        """Return a reader of a partition that is new: from its first row."""
        return self._open(split, None, EARLIEST)

    def identity(self) -> SourceIdentity:
        """Return the topics; the brokers may have moved."""
        if isinstance(self._wanted, re.Pattern):
            return SourceIdentity(f"Kafka topics that match {self._wanted.pattern}")
        names = sorted(each if isinstance(each, str) else split_of(each) for each in self._wanted)
        return SourceIdentity(f"Kafka topics {', '.join(names)}")

    # ---- internal

    def _open(self, split: str, position: Any | None, starting: KafkaOffsetsInitializer) -> PartitionReader:
        require("KafkaSource", KAFKA)
        place = place_of(split)
        with ExitStack() as opened:
            consumer = make_consumer(self._properties)
            opened.callback(consumer.close)
            ids = shared_ids(client_properties(self._properties), self._servers)
            opened.callback(release, ids)
            # Before the offsets: if the topic is created again in between, the reader notices it.
            topic_id = ids.current(place.topic)
            if position is None:
                known = ClusterOffsets(consumer, place, self._servers)
                stop = NO_STOP if self._stopping is None else self._stopping.stop_of(place, known)
                start = ReaderPosition(starting.offset_of(place, known), stop, topic_id)
            else:
                start = ReaderPosition(*position)
                if topic_id and not start.topic_id:
                    _warn_of_old_position(place)
                    start = start._replace(topic_id=topic_id)
            watch = TopicWatch(ids, place, start.topic_id)
            watch.compare(topic_id, start.offset)
            reader = PartitionReader(
                consumer, place, start, self._deserializer, self._servers, commits=self._commits, watch=watch
            )
            opened.pop_all()
            return reader

    def _chosen(self, found: Mapping[str, Sequence[int]]) -> list[KafkaTopicPartition]:
        """Return the wanted partitions among those that exist. Raises MissingTopic."""
        wanted = self._wanted
        if isinstance(wanted, re.Pattern):
            names = sorted(name for name in found if wanted.fullmatch(name))
            return [KafkaTopicPartition(name, number) for name in names for number in found[name]]
        places = []
        for each in wanted:
            topic = each if isinstance(each, str) else each.topic
            numbers = found.get(topic, ())
            if not numbers or (not isinstance(each, str) and each.partition not in numbers):
                raise missing_topic(each if isinstance(each, str) else split_of(each), self._servers)
            if isinstance(each, str):
                places += [KafkaTopicPartition(topic, number) for number in numbers]
            else:
                places.append(each)
        return sorted(set(places))


def _warn_of_old_position(place: KafkaTopicPartition) -> None:
    """Say that the checkpoint does not tell which topic its offset is of."""
    _logger.warning(
        "partition %d of topic %r resumes from a checkpoint of an earlier version, which has no topic id: a"
        " topic that was created again since then would not be noticed; from now on it is",
        place.partition,
        place.topic,
    )


class KafkaSourceBuilder:
    """Builds a source (PyFlink: KafkaSourceBuilder)."""

    def __init__(self) -> None:
        self._properties: dict[str, Any] = {}
        self._wanted: Sequence[str] | Sequence[KafkaTopicPartition] | re.Pattern[str] | None = None
        self._deserializer: DeserializationSchema | KafkaRecordDeserializationSchema | None = None
        self._starting = EARLIEST
        self._stopping: KafkaOffsetsInitializer | None = None
        self._is_bounded = False

    def build(self) -> KafkaSource:
        """Return the source. Raises UnusableSetting where something that it needs is not set."""
        if not self._properties.get(SERVERS):
            raise UnusableSetting("a Kafka source has no bootstrap.servers: call set_bootstrap_servers")
        if self._wanted is None:
            raise UnusableSetting(
                "a Kafka source has no topics: call set_topics, set_topic_pattern or set_partitions"
            )
        if self._deserializer is None:
            raise UnusableSetting(
                "a Kafka source has no deserializer: call set_value_only_deserializer(SimpleStringSchema()),"
                " or with another schema"
            )
        asks_group = self._starting.needs_a_group or (
            self._stopping is not None and self._stopping.needs_a_group
        )
        if asks_group and GROUP not in self._properties:
            raise UnusableSetting("committed_offsets of a Kafka source needs a group: call set_group_id")
        return KafkaSource(
            self._properties,
            self._wanted,
            self._deserializer,
            self._starting,
            self._stopping,
            is_bounded=self._is_bounded,
        )

    def set_bootstrap_servers(self, bootstrap_servers: str) -> Self:
        """Set the brokers: host:port, several with commas between them."""
        self._properties[SERVERS] = bootstrap_servers
        return self

    def set_group_id(self, group_id: str) -> Self:
        """Set the consumer group to which completed checkpoints commit their offsets."""
        self._properties[GROUP] = group_id
        return self

    def set_topics(self, *topics: str) -> Self:
        """Read these topics; they must exist."""
        self._wanted = topics
        return self

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """Read the topics whose whole names match a regular expression, also those that come later.

        Raises:
            UnusableSetting: it is no regular expression.
        """
        try:
            self._wanted = re.compile(topic_pattern)
        except re.error as error:
            raise UnusableSetting(f"topic pattern {topic_pattern!r}: {error}") from error
        return self

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> Self:
        """Read these partitions; they must exist."""
        self._wanted = sorted(partitions)
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Set where reading begins without state; from the earliest offsets by default."""
        self._starting = starting_offsets_initializer
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Set where reading stops, in a job that runs as an endless one."""
        self._stopping = stopping_offsets_initializer
        self._is_bounded = False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Set where reading stops; the source is bounded then."""
        self._stopping = stopping_offsets_initializer
        self._is_bounded = True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """Make values of the values of rows."""
        self._deserializer = deserialization_schema
        return self

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> Self:
        """Make values of whole rows: key, headers, time and place as well (Flink: setDeserializer)."""
        self._deserializer = record_deserializer
        return self

    def set_client_id_prefix(self, prefix: str) -> Self:
        """Set the name under which the consumers appear in the logs of the brokers."""
        self._properties["client.id"] = prefix
        return self

    def set_property(self, key: str, value: Any) -> Self:
        """Set a property of Kafka's consumer, or partition.discovery.interval.ms."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, Any]) -> Self:
        """Set several properties."""
        self._properties.update(props)
        return self


def split_of(place: KafkaTopicPartition) -> str:
    """Return the id of a partition's split."""
    return f"{place.topic}-{place.partition}"


def place_of(split: str) -> KafkaTopicPartition:
    """Return the partition of a split. A name of a topic may have hyphens; the number has none."""
    topic, _, number = split.rpartition("-")
    return KafkaTopicPartition(topic, int(number))


def _are_partitions(wanted: object) -> bool:
    return isinstance(wanted, list | tuple) and any(isinstance(each, KafkaTopicPartition) for each in wanted)
