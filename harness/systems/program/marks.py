"""Marks that the harness sees by itself: bytes that a program writes, and transactions of Kafka.

Rules:

- A mark is watched only in a trial in which something waits for it: a look costs time.
- Bytes are those that come into the folder of the trial: rows, progress and state. What the harness writes
  there does not count, nor does what the program prints.
- The broker keeps the states of transactions in a topic of its own. A transaction counts once, when the
  broker writes down that it writes to the output topic, and that it is to be committed.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from onceproof.harness.model.program_file import BYTES_MARK, COMMITTING_MARK, OPEN_MARK
from onceproof.harness.systems.process.kafka_clients import client_settings

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

_OF_THE_HARNESS: Final = ("input", "start-")
"""How names in the folder of a trial begin whose bytes do not count."""

_STATES: Final = "__transaction_state"
_PLACE_OF_STATE: Final = 16
"""In a message of the topic: behind version, producer id, epoch and time-out."""
_ONGOING: Final = 1
_PREPARE_COMMIT: Final = 2
_MOST_MESSAGES: Final = 100
_SECONDS_TO_LIST: Final = 30.0
_SECONDS_TO_COME_BACK: Final = 60.0
_SECONDS_BETWEEN_TRIES: Final = 0.1


class MarkWatch(ABC):
    """Sees a program pass marks."""

    @abstractmethod
    def passes(self) -> Mapping[str, int]:
        """Return how often marks were passed since the last call, by name."""

    def close(self) -> None:
        """Free what it holds."""


class WrittenBytes(MarkWatch):
    """The bytes that come into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: dict[str, int] = {}

    def passes(self) -> Mapping[str, int]:
        written = 0
        for parent, folders, names in os.walk(self._folder):
            if parent == str(self._folder):
                folders[:] = [each for each in folders if not each.startswith(_OF_THE_HARNESS)]
                names = [each for each in names if not each.startswith(_OF_THE_HARNESS)]
            for name in names:
                path = os.path.join(parent, name)
                try:
                    size = os.lstat(path).st_size
                except OSError:
                    continue
                written += max(0, size - self._sizes.get(path, 0))
                self._sizes[path] = size
        return {BYTES_MARK: written} if written else {}


class Transactions(MarkWatch):
    """The transactions that write to a topic.

    Args:
        servers: of the broker, past the proxy of the program.
        topics: to which they write.
    """

    def __init__(self, servers: str, topics: Sequence[str]) -> None:
        from confluent_kafka import Consumer, KafkaException

        self._topics = [topic.encode() for topic in topics]
        self._open: set[bytes] = set()
        self._consumer = Consumer(
            {
                **client_settings(servers),
                "group.id": f"{topics[0]}-transactions",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 20,
                # The broker makes the topic for its first transaction.
                "topic.metadata.refresh.interval.ms": 200,
            }
        )
        deadline = time.monotonic() + _SECONDS_TO_COME_BACK
        while True:
            try:
                self._consumer.assign(self._ends())
                return
            except KafkaException:
                # A broker that was killed in the trial before serves again, and does not lead all of it yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def _ends(self) -> list[TopicPartition]:
        """Return the present ends of the topic of states."""
        from confluent_kafka import TopicPartition

        known = self._consumer.list_topics(_STATES, timeout=_SECONDS_TO_LIST).topics[_STATES].partitions
        places = [TopicPartition(_STATES, number) for number in known] or [TopicPartition(_STATES, 0, 0)]
        for place in places if known else ():
            _, place.offset = self._consumer.get_watermark_offsets(place, timeout=_SECONDS_TO_LIST)
        return places

    def passes(self) -> Mapping[str, int]:
        opened = committing = 0
        for message in self._consumer.consume(_MOST_MESSAGES, 0):
            key, value = message.key(), message.value()
            if message.error() is not None or not key or not value:
                continue
            state, is_ours = value[_PLACE_OF_STATE], any(topic in value for topic in self._topics)
            if state == _ONGOING and is_ours:
                opened += key not in self._open
                self._open.add(key)
                continue
            committing += state == _PREPARE_COMMIT and is_ours
            self._open.discard(key)
        return {name: times for name, times in ((OPEN_MARK, opened), (COMMITTING_MARK, committing)) if times}

    def close(self) -> None:
        self._consumer.close()


def watches(
    waits_for: Callable[[str], bool], folder: Path, broker: str, topics: Sequence[str]
) -> list[MarkWatch]:
    """Return what sees the marks that something waits for.

    Args:
        waits_for: returns whether something waits for a mark.
        folder: of the trial.
        broker: past the proxy of the program; "" if there is none.
        topics: those of outputs.
    """
    found: list[MarkWatch] = []
    if waits_for(BYTES_MARK):
        found.append(WrittenBytes(folder))
    if topics and any(map(waits_for, (OPEN_MARK, COMMITTING_MARK))):
        found.append(Transactions(broker, topics))
    return found
