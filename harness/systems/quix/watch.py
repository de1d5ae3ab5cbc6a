"""Finds out from outside when an application has processed all of its input.

The rules this module lives by:

- It asks the broker, in a process of its own. Quix Streams has no end of input, and says nothing of one.
- All is processed when the group has committed the last offset of each split, and that of the last record in
  each topic by which it changes keys, while no transaction is open there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, TopicPartition

from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.quix.events import repartition_prefix
from onceproof.harness.systems.quix.topic_reads import (
    Place,
    admin_client,
    committed_offsets,
    ends,
    input_places,
    places_of,
    reader,
)

_SECONDS_BETWEEN_LOOKS: Final = 0.1
_MOST_MESSAGES: Final = 500


def wait_until_processed(topics: TrialTopics) -> None:
    """Return once the application has committed all that it has to process. Raises KafkaException."""
    watch = _Watch(topics)
    try:
        while not watch.is_processed():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    finally:
        watch.close()


class _Watch:
    """What has been seen so far in the topics by which keys are changed."""

    def __init__(self, topics: TrialTopics) -> None:
        self._topics = topics
        self._admin = admin_client(topics)
        prefix = repartition_prefix(topics.prefix)
        self._places = places_of(self._admin, lambda name: name.startswith(prefix))
        self._reader = reader(topics)
        self._reader.assign([TopicPartition(*place, 0) for place in self._places])
        self._next: dict[Place, int] = {}
        """By partition, the offset behind its last record."""
        self._ends: dict[Place, int] = {}
        """By partition, up to where it was read."""

    def is_processed(self) -> bool:
        """Return whether all is committed."""
        splits = input_places(self._topics)
        committed = committed_offsets(self._reader, [*splits, *self._places])
        lengths = self._topics.lengths.values()
        if any(committed.get(place, 0) < length for place, length in zip(splits, lengths, strict=True)):
            return False
        if not self._places:
            return True
        written = ends(self._admin, self._places)
        if ends(self._admin, self._places, decided=True) != written:
            return False
        self._read(written)
        return all(committed.get(place, 0) >= offset for place, offset in self._next.items())

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _read(self, up_to: Mapping[Place, int]) -> None:
        """Read the partitions up to these ends."""
        while any(self._ends.get(place, 0) < end for place, end in up_to.items()):
            for message in self._reader.consume(_MOST_MESSAGES, _SECONDS_BETWEEN_LOOKS):
                place = message.topic() or "", message.partition() or 0
                error, offset = message.error(), message.offset() or 0
                if error is None:
                    self._next[place] = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._ends[place] = offset
