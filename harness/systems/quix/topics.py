"""The topics of an application under trial, and what readers find there when it is over.

The rules this module lives by:

- The input topic has the records of the scenario, and behind each split a message that is its end.
- Quix Streams makes topics of its own, for states and for records whose key changes. Their names have the
  name of the group, by which they are found and deleted.
- A worker that was killed may leave a transaction open. It is ended before the topics are read, as the broker
  would end it at its time-out: a reader of committed messages waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.trial_servers import TrialKafka, delete_topics
from onceproof.harness.systems.quix.events import (
    ROWS,
    changelog_prefix,
    repartition_prefix,
)

PARTITIONS: Final = 2
"""Of the topic of rows."""
END_AFTER_MS: Final = 1_000_000_000
"""The event time of the end of a split, after that of its newest record."""


class PassedOn(msgspec.Struct, frozen=True):
    """A committed message in a topic by which keys are changed."""

    topic: str
    partition: int
    offset: int
    transaction: str


class Seen(msgspec.Struct, frozen=True):
    """What readers of committed messages find when an application is over."""

    rows: dict[str, list[Row]]
    """By transaction, in the order of partition and offset."""
    passed_on: list[PassedOn]
    offsets: dict[str, dict[str, int]]
    """By topic and partition, the offsets that the group has committed."""
    open: list[str]
    """The ids of transactions that were open."""


def with_ends(records: Mapping[str, Sequence[InputRecord]]) -> dict[str, tuple[InputRecord, ...]]:
    """Return the splits with a message behind each that is its end."""
    ended = {}
    for split, own in records.items():
        newest = max((timestamp for timestamp, _ in own), default=0)
        ended[split] = (*own, (newest + END_AFTER_MS, None))
    return ended


@contextmanager
def app_topics(kafka: TrialKafka, records: Mapping[str, Sequence[InputRecord]]) -> Iterator[TrialTopics]:
    """Yield the topics of a scenario, whose input is filled meanwhile; all are deleted afterwards."""
    from onceproof.harness.systems.process.kafka_io import make_topics

    with kafka.topics(with_ends(records)) as topics:
        make_topics(topics.servers, {topics.output_topic(ROWS): PARTITIONS})
        own = (changelog_prefix(topics.prefix), repartition_prefix(topics.prefix))
        try:
            yield topics
        finally:
            delete_topics(topics.servers, lambda name: name.startswith(own))


def seen(topics: TrialTopics) -> Seen:
    """Return what is in the topics of an application that is over."""
    from onceproof.harness.systems.quix import topic_reads

    left_open = end_open_transactions(topics)
    output, prefix = topics.output_topic(ROWS), repartition_prefix(topics.prefix)
    rows: dict[str, list[Row]] = {}
    passed_on = []
    for each in topic_reads.committed_messages(
        topics, lambda name: name == output or name.startswith(prefix)
    ):
        if each.topic == output:
            rows.setdefault(each.transaction, []).append(as_tuple(msgspec.json.decode(each.value)))
        else:
            passed_on.append(PassedOn(each.topic, each.partition, each.offset, each.transaction))
    consumer = topic_reads.reader(topics)
    places = topic_reads.places_of(topic_reads.admin_client(topics), lambda name: name.startswith(prefix))
    offsets: dict[str, dict[str, int]] = {}
    try:
        found = topic_reads.committed_offsets(consumer, [*topic_reads.input_places(topics), *places])
    finally:
        consumer.close()
    for (topic, partition), offset in found.items():
        offsets.setdefault(topic, {})[str(partition)] = offset
    return Seen(rows, passed_on, offsets, left_open)


def end_open_transactions(topics: TrialTopics) -> list[str]:
    """Abort the transactions that are open; return their ids."""
    from onceproof.engine.connectors.kafka import wire_protocol as wire
    from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions

    host, _, port = topics.servers.rpartition(":")
    with wire.BrokerConnection(wire.Address(host, int(port))) as broker:
        _, listed = broker.list_transactions((wire.ONGOING,))
    prefix = f"{topics.prefix}-"
    ids = sorted(each.transactional_id for each in listed if each.transactional_id.startswith(prefix))
    if ids:
        cluster = BrokerTransactions({"bootstrap.servers": topics.servers})
        try:
            for handle in cluster.open_transactions(prefix):
                if handle.transactional_id in ids:
                    cluster.abort(handle)
        finally:
            cluster.close()
    return ids
