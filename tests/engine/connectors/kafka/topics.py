"""Topics of the tests' broker: made, filled and read from outside."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.patience import PATIENCE_SECONDS

_NUMBERS = itertools.count()


def new_topic(servers: str, partitions: int = 2, settings: dict[str, str] | None = None) -> str:
    """Make a topic of a name that no other test has, and return the name."""
    name = f"t{os.getpid()}-{next(_NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": servers}, logger=_Silent)
    admin.create_topics([NewTopic(name, partitions, 1, config=settings or {})])[name].result(PATIENCE_SECONDS)
    while len(admin.list_topics(name, PATIENCE_SECONDS).topics[name].partitions) < partitions:
        time.sleep(0.05)
    return name


def add_partitions(servers: str, topic: str, total: int) -> None:
    """Give a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": servers}, logger=_Silent)
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE_SECONDS)


def fill(servers: str, topic: str, values: Iterable[str], partitions: int = 2, **row: Any) -> None:
    """Write values to the partitions in turn, each once, also to a broker that has just come back."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions, **row)
    assert producer.flush(PATIENCE_SECONDS) == 0


def committed_rows(servers: str, topic: str, count: int = 0) -> list[str]:
    """Return what a reader of committed rows sees, partition by partition (see `committed_messages`)."""
    return [message.value().decode() for message in committed_messages(servers, topic, count)]


def committed_messages(servers: str, topic: str, count: int = 0) -> list[Any]:
    """Return the messages that a reader of committed rows sees as soon as there are so many.

    A commit is answered before its markers are in all partitions, so rows are visible a moment later. No
    count: what is visible now.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found := _visible_now(servers, topic)) < count:
        assert time.monotonic() < deadline, f"{len(found)} rows of {topic} are visible, not {count}"
        time.sleep(0.05)
    return found


def _visible_now(servers: str, topic: str) -> list[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "outside",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    partitions = sorted(consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions)
    found: dict[int, list[Any]] = {number: [] for number in partitions}
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, f"the end of {topic} does not come"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found[message.partition()].append(message)
        elif message is not None and message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return [message for number in partitions for message in found[number]]


class _Silent:
    """Takes what librdkafka logs."""

    @staticmethod
    def log(*_: object) -> None:
        """Drop a line."""
