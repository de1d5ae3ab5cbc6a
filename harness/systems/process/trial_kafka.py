"""The broker that families with Kafka at their ends ask for, with topics of their own for each scenario.

The rules this module lives by:

- As `trial_servers.py`: started with the first scenario that needs it, stopped with the system, started again
  at once when it is dead, and gone with the process that has started it.
- The records of a scenario come into its input topic one after another while the job runs. So a reader often
  has nothing to read, and takes its last snapshots before the last record is there.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final

import msgspec

from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.service import ServiceError
from onceproof.harness.systems.process.job_specification import TrialTopics

PACE_S: Final = 0.01
"""From one record to the next."""
_SECONDS_BETWEEN_LOOKS: Final = 0.02
_SECONDS_TO_DELETE: Final = 10.0


class TrialKafka:
    """A broker for scenarios, one after another.

    Args:
        running: a broker that runs already, and is not stopped at the end; None: one of its own.
    """

    def __init__(self, running: KafkaBroker | None = None) -> None:
        self._broker: KafkaBroker | None = running
        self._scenarios = 0
        self._stops = threading.Event()
        self._keeper: threading.Thread | None = None

    @property
    def broker(self) -> KafkaBroker:
        """The broker, which is started if it is not yet. Raises ServiceError, ExtraMissing."""
        if self._broker is None:
            folder = Path(tempfile.mkdtemp(prefix="onceproof-kafka-"))
            broker = KafkaBroker(folder, dies_with_parent=True)
            try:
                broker.start()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._broker = broker
            self._keeper = threading.Thread(target=self._keep, args=(broker,), daemon=True)
            self._keeper.start()
        return self._broker

    @contextmanager
    def topics(self, records: Mapping[str, Sequence[InputRecord]]) -> Iterator[TrialTopics]:
        """Yield the topics of a scenario, whose input is filled meanwhile; they are deleted afterwards."""
        from onceproof.harness.systems.process.kafka_io import make_topics

        broker = self.broker
        self._scenarios += 1
        lengths = {split: len(rows) for split, rows in records.items()}
        topics = TrialTopics(broker.address, f"trial{self._scenarios}", lengths)
        make_topics(broker.address, {topics.input_topic: len(lengths)})
        ends = threading.Event()
        feeder = threading.Thread(target=feed, args=(topics, records, ends), daemon=True)
        feeder.start()
        try:
            yield topics
        finally:
            ends.set()
            feeder.join()
            self._delete(topics)

    def close(self) -> None:
        """Stop the broker, and delete its folder, if it is one of its own."""
        broker, keeper = self._broker, self._keeper
        if broker is not None and keeper is not None:
            self._broker = self._keeper = None
            self._stops.set()
            keeper.join()
            self._stops.clear()
            broker.kill()
            shutil.rmtree(broker.folder, ignore_errors=True)

    def _delete(self, topics: TrialTopics) -> None:
        """Delete the topics of a scenario, and end what is open; a broker in trouble is left alone."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions

        with suppress(OSError, KafkaException):
            cluster = BrokerTransactions({"bootstrap.servers": topics.servers})
            try:
                for handle in cluster.open_transactions(f"{topics.prefix}-"):
                    cluster.abort(handle)
            finally:
                cluster.close()
            admin = AdminClient({"bootstrap.servers": topics.servers, "log_level": 0})
            known = admin.list_topics(timeout=_SECONDS_TO_DELETE).topics
            own = [name for name in known if name == topics.input_topic or topics.is_output(name)]
            for deleted in admin.delete_topics(own, operation_timeout=_SECONDS_TO_DELETE).values():
                deleted.result(_SECONDS_TO_DELETE)

    def _keep(self, broker: KafkaBroker) -> None:
        """Start the broker again whenever it is dead."""
        while not self._stops.wait(_SECONDS_BETWEEN_LOOKS):
            if broker.has_died():
                with suppress(ServiceError):
                    broker.start()


def feed(topics: TrialTopics, records: Mapping[str, Sequence[InputRecord]], ends: threading.Event) -> None:
    """Write the records of all splits in turn, ``PACE_S`` apart, until ``ends`` is set."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": topics.servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    for in_turn in zip_longest(*records.values()):
        for number, record in enumerate(in_turn):
            if record is None:
                continue
            producer.produce(topics.input_topic, msgspec.json.encode(record), partition=number)
            producer.poll(0)
            if ends.wait(PACE_S):
                return
    while producer.flush(0.1) and not ends.is_set():
        pass
