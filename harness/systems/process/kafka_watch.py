"""A reader of committed rows in a job's topics, in another process than the job, which reads all the time.

The rules this module lives by:

- As `server_watch.py`: directly, all the time, with the time after the read.
- A row is shown to it when its transaction is committed, and when no transaction before it is open. So rows
  may come late, and never early: a transaction that it sees is visible from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_clients import reader_settings
from onceproof.harness.systems.process.kafka_output import transaction_of
from onceproof.harness.systems.process.server_watch import ServerWatch
from onceproof.harness.systems.recording import event_log

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_SECONDS_TO_READ: Final = 0.1
_SECONDS_BETWEEN_LOOKS: Final = 0.1
_SECONDS_TO_LIST: Final = 1.0
_MOST_ROWS: Final = 100


class KafkaWatch(ServerWatch):
    """Reads the topics of a scenario's sinks.

    Args:
        topics: of the scenario; those of sinks may be made later.
    """

    def __init__(self, topics: TrialTopics) -> None:
        super().__init__()
        self._topics = topics
        self._seen: set[str] = set()

    def watch(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(reader_settings(self._topics.servers, f"{self._topics.prefix}-watch"))
        try:
            while not self._assign(consumer):
                if self.ends.wait(_SECONDS_BETWEEN_LOOKS):
                    return
            while not self.ends.is_set():
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
                self.note(event_log.ROWS_SEEN, name)
