"""What can be wrong between a job and Kafka, each in one line with the mend.

What may heal (a broker that is down, a slow answer) is an OSError: the restart strategy tries again. What
comes again in the same way (a missing topic, a setting that no broker takes, lost rows) ends the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

from onceproof.engine.errors import UnrecoverableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class ClientError(IntEnum):
    """Codes of errors that librdkafka reports; the negative ones are its own, the others the protocol's.

    They are written here a second time because a model of its client reports them, also where the library is
    not installed.
    """

    UNKNOWN_TOPIC_OR_PART = 3
    MSG_SIZE_TOO_LARGE = 10
    INVALID_RECORD = 87
    TIMED_OUT = -185
    UNKNOWN_TOPIC = -188
    UNKNOWN_PARTITION = -190
    MSG_TIMED_OUT = -192


class _NeverRaised(Exception):
    pass


@cache
def client_exception() -> type[Exception]:
    """Return what librdkafka's client raises; where the library is not installed, what nothing raises."""
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        return _NeverRaised
    return KafkaException


class KafkaUnavailable(OSError):
    """No broker answers, or not in time."""


class MissingTopic(UnrecoverableError):
    """A topic or partition does not exist."""


class UnusableSetting(UnrecoverableError, ValueError):
    """A property that Kafka's client or broker does not take."""


class RejectedRow(UnrecoverableError):
    """Kafka does not take a row, and will not later."""


class TransactionLost(UnrecoverableError):
    """Rows of a completed checkpoint can never become visible: the broker has aborted their transaction."""


def no_broker(servers: str, reason: object) -> KafkaUnavailable:
    """Return the error for brokers that cannot be reached."""
    return KafkaUnavailable(
        f"no Kafka broker answers at {servers} ({reason}): start it, or correct bootstrap.servers"
    )


def missing_topic(topic: str, servers: str) -> MissingTopic:
    """Return the error for a topic that does not exist."""
    return MissingTopic(
        f"topic {topic!r} does not exist at {servers}: create it (kafka-topics.sh --create --topic {topic}),"
        " or correct its name"
    )


def refused_property(error: KafkaError, properties: Mapping[str, object]) -> UnusableSetting:
    """Return the error for a property that the client library refuses."""
    said = error.str()
    named = next((name for name in properties if f'"{name}"' in said), None)
    where = f"property {named!r} = {properties[named]!r}" if named is not None else "a property"
    return UnusableSetting(
        f"{where} of the Kafka client is refused: {said}: use a name and a value of librdkafka's"
        " (its CONFIGURATION.md lists them)"
    )
