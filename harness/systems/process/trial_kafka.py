"""The broker that families with Kafka at their ends ask for, with topics of their own for each scenario.

The rules this module lives by:

- As `trial_server.py`: one for a system, struck by faults, and gone with the process that has started it.
- The records of a scenario come into its input topic one after another while the job runs. So a reader often
  has nothing to read, and takes its last snapshots before the last record is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.services.cutting_proxy import CuttingProxy
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.service import LOOPBACK, ServiceError
from onceproof.harness.systems.process.changing_topic import ChangingTopic
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_clients import writer_settings
from onceproof.harness.systems.process.server_strikes import StruckServer
from onceproof.harness.systems.process.trial_server import TrialServer

PACE_S: Final = 0.01
"""From one record to the next."""
_SECONDS_TO_DELETE: Final = 10.0


class OwnTopics(NamedTuple):
    """Topics of one trial."""

    servers: str
    """Of the broker, for the harness."""
    servers_of_job: str
    """The same through a proxy, for the job."""
    names: Mapping[str, str]
    """The names of the topics, by those that were asked for."""


class TrialKafka(TrialServer[KafkaBroker]):
    """A broker for scenarios."""

    name = "kafka"

    def new_server(self, folder: Path) -> KafkaBroker:
        return KafkaBroker(folder, dies_with_parent=True, has_proxy=True)

    def struck_by_faults(self, server: KafkaBroker) -> StruckServer:
        """Return the broker behind the proxy to which it sends its clients itself."""
        return StruckServer(server, CuttingProxy(server.proxied_port, server.proxy_port))

    @contextmanager
    def own_topics(self, partitions: Mapping[str, int]) -> Iterator[OwnTopics]:
        """Yield new topics with so many partitions each; they are deleted afterwards."""
        from onceproof.harness.systems.process.kafka_io import make_topics

        broker, struck = self.server, self.struck
        trial = self.next_name()
        names = {name: f"{trial}-{name}" for name in partitions}
        make_topics(broker.address, {names[name]: count for name, count in partitions.items()})
        try:
            yield OwnTopics(broker.address, f"{LOOPBACK}:{struck.port}", names)
        finally:
            delete_topics(broker.address, set(names.values()).__contains__)

    @contextmanager
    def topics(
        self,
        records: Mapping[str, Sequence[InputRecord]],
        encode: Callable[[InputRecord], bytes] = msgspec.json.encode,
    ) -> Iterator[TrialTopics]:
        """Yield the topics of a scenario, whose input is filled meanwhile; they are deleted afterwards."""
        with self.changing_topics(records, encode) as (topics, _):
            yield topics

    @contextmanager
    def changing_topics(
        self,
        records: Mapping[str, Sequence[InputRecord]],
        encode: Callable[[InputRecord], bytes] = msgspec.json.encode,
    ) -> Iterator[tuple[TrialTopics, ChangingTopic]]:
        """Yield the same with what changes the input."""
        from onceproof.harness.systems.process.kafka_io import make_topics

        broker, struck = self.server, self.struck
        lengths = {split: len(rows) for split, rows in records.items()}
        topics = TrialTopics(broker.address, f"{LOOPBACK}:{struck.port}", self.next_name(), lengths)
        make_topics(broker.address, {topics.input_topic: len(lengths)})
        ends, hurries = threading.Event(), threading.Event()
        refused: list[str] = []

        def fill() -> None:
            feed(topics, records, ends, hurries, refused, encode)

        feeder = threading.Thread(target=fill, daemon=True)
        feeder.start()

        def fill_at_once() -> None:
            hurries.set()
            feeder.join()

        try:
            yield topics, ChangingTopic(topics, records, fill_at_once, encode)
        finally:
            ends.set()
            feeder.join()
            self._delete(topics)
        if refused:
            raise ServiceError(f"kafka: {topics.input_topic} has not taken a record: {refused[0]}")

    def _delete(self, topics: TrialTopics) -> None:
        """Delete the topics of a scenario, and end what is open; a broker in trouble is left alone."""
        from confluent_kafka import KafkaException

        from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions

        with suppress(OSError, KafkaException):
            cluster = BrokerTransactions({"bootstrap.servers": topics.servers})
            try:
                for handle in cluster.open_transactions(f"{topics.prefix}-"):
                    cluster.abort(handle)
            finally:
                cluster.close()
        delete_topics(topics.servers, lambda name: name == topics.input_topic or topics.is_output(name))


def delete_topics(servers: str, is_own: Callable[[str], bool]) -> None:
    """Delete topics; a broker in trouble is left alone."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    with suppress(KafkaException):
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        known = admin.list_topics(timeout=_SECONDS_TO_DELETE).topics
        own = [name for name in known if is_own(name)]
        if own:
            for deleted in admin.delete_topics(own, operation_timeout=_SECONDS_TO_DELETE).values():
                deleted.result(_SECONDS_TO_DELETE)


def feed(
    topics: TrialTopics,
    records: Mapping[str, Sequence[InputRecord]],
    ends: threading.Event,
    hurries: threading.Event,
    refused: list[str],
    encode: Callable[[InputRecord], bytes] = msgspec.json.encode,
) -> None:
    """Write the records of all splits in turn, until ``ends`` is set, ``PACE_S`` apart until ``hurries`` is.

    The key of a message is the name of its split.

    ``refused`` gets why the broker has not taken a record. Nothing is written behind it, because the reader
    of the job would count wrongly.
    """
    from confluent_kafka import KafkaError, Message, Producer

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error.str())

    producer = Producer(writer_settings(topics.servers))
    for in_turn in zip_longest(*records.values()):
        for number, (split, record) in enumerate(zip(records, in_turn, strict=True)):
            if record is None:
                continue
            producer.produce(
                topics.input_topic,
                encode(record),
                key=split,
                partition=number,
                on_delivery=delivered,
            )
            producer.poll(0)
            if refused or ends.wait(0 if hurries.is_set() else PACE_S):
                return
    while producer.flush(0.1) and not ends.is_set():
        pass
