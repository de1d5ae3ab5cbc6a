"""Reads topics and consumer groups from outside of an application: messages, ends, committed offsets.

It imports the client of Kafka, which only some systems need.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_clients import client_settings, reader_settings
from onceproof.harness.systems.quix.events import TRANSACTION

Place = tuple[str, int]
"""Topic and partition."""

SECONDS_TO_ANSWER: Final = 10.0
_SECONDS_TO_READ: Final = 30.0
_SECONDS_BETWEEN_TRIES: Final = 0.05


class Message(NamedTuple):
    """A committed message."""

    topic: str
    partition: int
    offset: int
    transaction: str
    """The name in its header; "none" without one."""
    value: bytes


def admin_client(topics: TrialTopics) -> AdminClient:
    """Return a client that asks the broker past the proxy of the job."""
    return AdminClient(client_settings(topics.servers))


def reader(topics: TrialTopics) -> Consumer:
    """Return a reader of committed messages, which says where a partition ends.

    It can be asked for the offsets of the application's group, and is no member of it.
    """
    return Consumer({**reader_settings(topics.servers, topics.prefix), "enable.partition.eof": True})


def input_places(topics: TrialTopics) -> list[Place]:
    """Return the partitions of the input topic, in the order of the splits."""
    return [(topics.input_topic, number) for number in range(len(topics.lengths))]


def places_of(admin: AdminClient, is_asked: Callable[[str], bool]) -> list[Place]:
    """Return the partitions of topics by their names."""
    listed = admin.list_topics(timeout=SECONDS_TO_ANSWER).topics
    return [(name, number) for name in sorted(listed) if is_asked(name) for number in listed[name].partitions]


def committed_offsets(consumer: Consumer, places: Sequence[Place]) -> dict[Place, int]:
    """Return the offsets that the group of a consumer has committed; a partition without one is left out.

    It waits for transactions that are decided, and for a broker that has just been started. Raises
    KafkaException.
    """
    asked = [TopicPartition(*place) for place in places]
    deadline = time.monotonic() + SECONDS_TO_ANSWER
    while asked:
        try:
            found = consumer.committed(asked, timeout=SECONDS_TO_ANSWER)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
        else:
            return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
    return {}


def ends(admin: AdminClient, places: Sequence[Place], *, decided: bool = False) -> Mapping[Place, int]:
    """Return the ends of partitions; ``decided``: in front of the first transaction that is open."""
    level = IsolationLevel.READ_COMMITTED if decided else IsolationLevel.READ_UNCOMMITTED
    latest: Any = OffsetSpec
    asked = {TopicPartition(*place): latest.latest() for place in places}
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=SECONDS_TO_ANSWER)
    return {(place.topic, place.partition): each.result().offset for place, each in answers.items()}


def committed_messages(topics: TrialTopics, is_asked: Callable[[str], bool]) -> list[Message]:
    """Return the committed messages of topics by their names, in the order of place and offset.

    It waits for the markers of all transactions. Raises TimeoutError where they do not come.
    """
    admin = admin_client(topics)
    places = places_of(admin, is_asked)
    up_to = ends(admin, places) if places else {}
    found: list[Message] = []
    deadline = time.monotonic() + _SECONDS_TO_READ
    consumer = reader(topics)
    try:
        reading = {place for place in places if up_to[place]}
        consumer.assign([TopicPartition(*place, 0) for place in reading])
        while reading:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"kafka: the end of {sorted(reading)} does not come: a transaction is open"
                )
            message = consumer.poll(0.5)
            if message is None:
                continue
            place = message.topic() or "", message.partition() or 0
            error, offset = message.error(), message.offset() or 0
            if error is None:
                headers: Any = dict(message.headers() or ())
                name = str(headers.get(TRANSACTION, b"none"), "utf-8")
                found.append(Message(*place, offset, name, message.value() or b"null"))
            elif error.code() == KafkaError._PARTITION_EOF and offset >= up_to[place]:
                reading.discard(place)
    finally:
        consumer.close()
    return sorted(found)
