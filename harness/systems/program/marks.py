"""Marks that the harness sees by itself: bytes that a program writes, and its transactions.

Rules:

- A mark is watched only in a trial in which something waits for it: a look costs time.
- Bytes are those that come into the folder of the trial: rows, progress and state. What the harness writes
  there does not count, nor does what the program prints.
- The broker keeps the states of transactions in a topic of its own. A transaction counts once, when the
  broker writes down that it writes to the output topic, and that it is to be committed.
- PostgreSQL shows the state of transactions in its answers, which pass through the proxy of the program. What
  passes a mark is held up while a fault waits for it, until the harness has looked and struck. So a kill
  without a delay comes before the next message.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from onceproof.harness.model.program_ends import (
    BYTES_MARK,
    COMMITTING_MARK,
    OF_TRANSACTIONS,
    OPEN_MARK,
    TRANSACTION_MARKS,
)
from onceproof.harness.systems.process.kafka_clients import client_settings
from onceproof.harness.systems.process.server_strikes import StruckServer
from onceproof.harness.systems.program.ends import ProgramEnds
from onceproof.harness.systems.program.postgres_session import PostgresSession

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

    may_hold = True
    """Whether what passes a mark may be held up until the harness has struck."""

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


class KafkaTransactions(MarkWatch):
    """The transactions that write to topics of Kafka.

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


class PostgresTransactions(MarkWatch):
    """The transactions that write to a database, by the connections of the program's proxy.

    Args:
        server: with the proxy.
        waits_for: returns whether a fault waits for a mark; its connection is then held up.
    """

    def __init__(self, server: StruckServer, waits_for: Callable[[str], bool]) -> None:
        self._server = server
        self._waits_for = waits_for
        self._lock = threading.Lock()
        self._new: list[tuple[str, threading.Event]] = []
        """Marks that were passed since the last look, each with what lets its connection go on."""
        self._held: list[threading.Event] = []
        """Those of the last look."""
        self._is_closed = False
        server.observe_with(lambda: PostgresSession(self._passed))

    def passes(self) -> Mapping[str, int]:
        with self._lock:
            for each in self._held:
                each.set()
            self._held = [goes_on for _, goes_on in self._new]
            counts = Counter([mark for mark, _ in self._new])
            self._new.clear()
        return counts

    def close(self) -> None:
        self._server.observe_with(None)
        with self._lock:
            self._is_closed = True
        self.passes()
        self.passes()

    def _passed(self, mark: str) -> None:
        """Note a mark, and hold its connection up until the harness has struck."""
        goes_on = threading.Event()
        with self._lock:
            if self._is_closed:
                return
            self._new.append((mark, goes_on))
            is_held = self._waits_for(mark)
        while is_held and self.may_hold and not goes_on.wait(_SECONDS_BETWEEN_TRIES):
            pass


@contextmanager
def nothing_held(found: Sequence[MarkWatch]) -> Iterator[None]:
    """Hold nothing up meanwhile: the harness does not look while it waits for a program to end."""
    for each in found:
        each.may_hold = False
    try:
        yield
    finally:
        for each in found:
            each.may_hold = True


def watches(
    waits_for: Callable[[str], bool], folder: Path, ends: ProgramEnds, is_control: bool
) -> list[MarkWatch]:
    """Return what sees the marks that something waits for, in the folder and at the ends of a trial.

    The control run waits for those of transactions, to learn whether there are any.
    """
    found: list[MarkWatch] = []
    asks = OF_TRANSACTIONS.__contains__ if is_control else waits_for
    if asks(BYTES_MARK):
        found.append(WrittenBytes(folder))
    if ends.topics and any(map(asks, TRANSACTION_MARKS["kafka"])):
        found.append(KafkaTransactions(ends.broker, ends.topics))
    if ends.database is not None and any(map(asks, TRANSACTION_MARKS["postgres"])):
        found.append(PostgresTransactions(ends.database, waits_for))
    return found
