"""A reader of committed rows in a job's topics, in another process than the job, which reads all the time.

The rules this module lives by:

- It reads directly from the broker, not through the job's proxy, and waits while the broker is away.
- A row is shown to it when its transaction is committed, and when no transaction before it is open. So rows
  may come late, and never early: a transaction that it sees is visible from then on.
- What it sees is an event with the time after the read. So it stands behind what has made rows visible, in
  the order of the logs of all processes: a sound job has logged the checkpoint before its rows are seen.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_output import transaction_of
from onceproof.harness.systems.recording import event_log

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_SECONDS_TO_READ: Final = 0.1
_SECONDS_BETWEEN_LOOKS: Final = 0.1
_SECONDS_TO_LIST: Final = 1.0
_MOST_ROWS: Final = 100


class KafkaWatch:
    """Reads the topics of a scenario's sinks while its context lasts.

    Args:
        topics: of the scenario; those of sinks may be made later.
    """

    def __init__(self, topics: TrialTopics) -> None:
        self._topics = topics
        self._seen: set[str] = set()
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def take_events(self) -> list[dict[str, Any]]:
        """Return what was seen since the last call, as events of a log."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def _watch(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._topics.servers,
                "group.id": f"{self._topics.prefix}-watch",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "reconnect.backoff.max.ms": 500,
            }
        )
        try:
            while not self._assign(consumer):
                if self._ends.wait(_SECONDS_BETWEEN_LOOKS):
                    return
            while not self._ends.is_set():
                self._look(consumer)
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> bool:
        """Begin to read all partitions; return whether there is a topic. A job has one sink into Kafka."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            listed = consumer.list_topics(timeout=_SECONDS_TO_LIST).topics
        except KafkaException:
            return False
        places = [
            TopicPartition(name, number, 0)
            for name, metadata in listed.items()
            if self._topics.is_output(name)
            for number in metadata.partitions
        ]
        if places:
            consumer.assign(places)
        return bool(places)

    def _look(self, consumer: Consumer) -> None:
        for message in consumer.consume(_MOST_ROWS, _SECONDS_TO_READ):
            if message.error() is not None:
                continue
            name = transaction_of(message, self._topics)
            if name not in self._seen:
                self._seen.add(name)
                with self._lock:
                    self._events.append(
                        {"at": time.monotonic_ns(), "kind": event_log.ROWS_SEEN, "transaction": name}
                    )
