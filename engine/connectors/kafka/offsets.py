"""Where a reader begins and ends in a partition (PyFlink: KafkaOffsetsInitializer).

An initializer is asked once for each partition, when its reader first opens; what it answered is part of the
reader's position from then on, so a restart does not ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from onceproof.engine.connectors.kafka.kafka_errors import UnusableSetting


class KafkaTopicPartition(NamedTuple):
    """A partition of a topic (PyFlink: KafkaTopicPartition)."""

    topic: str
    partition: int


class KafkaOffsetResetStrategy(Enum):
    """Where to begin if there is no offset, or it is out of range (PyFlink: KafkaOffsetResetStrategy)."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2
    """Nowhere: the job fails."""


class PartitionOffsets(Protocol):
    """What a cluster knows of the offsets of one partition."""

    name: str
    """For messages: topic and number."""

    def earliest(self) -> int:
        """Return the first offset that is still there."""

    def latest(self) -> int:
        """Return the offset behind the last row that a reader of committed rows sees."""

    def at(self, timestamp_ms: int) -> int | None:
        """Return the offset of the first row of a time or later; None: there is none."""

    def committed(self) -> int | None:
        """Return the offset that the consumer group has committed; None: none."""


class _Kind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    COMMITTED = "committed offsets"
    OFFSETS = "offsets"


class KafkaOffsetsInitializer:
    """Says where readers begin, or end (PyFlink: KafkaOffsetsInitializer). Make one by a static method."""

    def __init__(
        self,
        kind: _Kind,
        timestamp_ms: int = 0,
        offsets: Mapping[KafkaTopicPartition, int] | None = None,
        reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> None:
        self._kind = kind
        self._timestamp_ms = timestamp_ms
        self._offsets = dict(offsets or {})
        self._reset = reset

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """The offsets of the consumer group; where it has none, what the strategy says."""
        return KafkaOffsetsInitializer(_Kind.COMMITTED, reset=offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first row of a time in milliseconds or later; behind the last row if there is none."""
        return KafkaOffsetsInitializer(_Kind.TIMESTAMP, timestamp)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first row that is still there."""
        return KafkaOffsetsInitializer(_Kind.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last committed row."""
        return KafkaOffsetsInitializer(_Kind.LATEST)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets; for another partition, and for an offset out of range, what the strategy says."""
        return KafkaOffsetsInitializer(_Kind.OFFSETS, 0, offsets, offset_reset_strategy)

    @property
    def needs_a_group(self) -> bool:
        """Whether it asks for the offsets of a consumer group."""
        return self._kind is _Kind.COMMITTED

    def offset_of(self, place: KafkaTopicPartition, known: PartitionOffsets) -> int:
        """Return the offset in a partition. Raises UnusableSetting where there is none to begin at."""
        match self._kind:
            case _Kind.EARLIEST:
                return known.earliest()
            case _Kind.LATEST:
                return known.latest()
            case _Kind.TIMESTAMP:
                found = known.at(self._timestamp_ms)
                return known.latest() if found is None else found
            case _Kind.COMMITTED:
                return self._in_range(known.committed(), known)
            case _Kind.OFFSETS:
                return self._in_range(self._offsets.get(place), known)

    def stop_of(self, place: KafkaTopicPartition, known: PartitionOffsets) -> int:
        """Return the offset to stop before. One that is given is taken as it is: its rows may come later."""
        given = self._offsets.get(place)
        return self.offset_of(place, known) if given is None else given

    def _in_range(self, offset: int | None, known: PartitionOffsets) -> int:
        if offset is not None and known.earliest() <= offset <= known.latest():
            return offset
        match self._reset:
            case KafkaOffsetResetStrategy.EARLIEST:
                return known.earliest()
            case KafkaOffsetResetStrategy.LATEST:
                return known.latest()
            case KafkaOffsetResetStrategy.NONE:
                said = "has no offset" if offset is None else f"has offset {offset}, which is out of range,"
                raise UnusableSetting(
                    f"{known.name} {said} by the {self._kind.value}, and no reset strategy says where to"
                    " begin: give KafkaOffsetResetStrategy.EARLIEST or LATEST"
                )


EARLIEST: Final = KafkaOffsetsInitializer.earliest()
