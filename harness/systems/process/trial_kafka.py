"""The broker that families with Kafka at their ends ask for, with topics of their own for each scenario.

The rules this module lives by:

- As `trial_servers.py`: started with the first scenario that needs it, stopped with the system, struck by
  faults and back afterwards, and gone with the process that has started it.
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
from onceproof.harness.services.cutting_proxy import CuttingProxy
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.service import LOOPBACK, ServiceError
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.server_strikes import StruckServer

PACE_S: Final = 0.01
"""From one record to the next."""
_SECONDS_TO_DELETE: Final = 10.0


class TrialKafka:
    """A broker for scenarios, one after another.

    Args:
        running: a broker that runs already, and is not stopped at the end; None: one of its own.
    """

    def __init__(self, running: KafkaBroker | None = None) -> None:
        self._broker: KafkaBroker | None = running
        self._is_own = running is None
        self._scenarios = 0
        self._struck: StruckServer | None = None

    @property
    def broker(self) -> KafkaBroker:
        """The broker, which is started if it is not yet. Raises ServiceError, ExtraMissing."""
        if self._broker is None:
            folder = Path(tempfile.mkdtemp(prefix="onceproof-kafka-"))
            broker = KafkaBroker(folder, dies_with_parent=True, has_proxy=True)
            try:
                broker.start()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._broker = broker
        return self._broker

    @property
    def struck(self) -> StruckServer:
        """The broker as faults see it. Raises ServiceError, ExtraMissing."""
        if self._struck is None:
            broker = self.broker
            self._struck = StruckServer(broker, CuttingProxy(broker.proxied_port, broker.proxy_port))
        return self._struck

    @contextmanager
    def topics(self, records: Mapping[str, Sequence[InputRecord]]) -> Iterator[TrialTopics]:
        """Yield the topics of a scenario, whose input is filled meanwhile; they are deleted afterwards."""
        from onceproof.harness.systems.process.kafka_io import make_topics

        broker, struck = self.broker, self.struck
        self._scenarios += 1
        lengths = {split: len(rows) for split, rows in records.items()}
        topics = TrialTopics(broker.address, f"{LOOPBACK}:{struck.port}", f"trial{self._scenarios}", lengths)
        make_topics(broker.address, {topics.input_topic: len(lengths)})
        ends = threading.Event()
        refused: list[str] = []
        feeder = threading.Thread(target=feed, args=(topics, records, ends, refused), daemon=True)
        feeder.start()
        try:
            yield topics
        finally:
            ends.set()
            feeder.join()
            self._delete(topics)
        if refused:
            raise ServiceError(f"kafka: {topics.input_topic} has not taken a record: {refused[0]}")

    def close(self) -> None:
        """Stop the broker, and delete its folder, if it is one of its own; let another one run on."""
        struck, self._struck = self._struck, None
        if struck is not None:
            struck.close()
        broker = self._broker
        if broker is None:
            return
        if self._is_own:
            self._broker = None
            broker.kill()
            shutil.rmtree(broker.folder, ignore_errors=True)
        elif struck is not None and struck.was_restarted:
            broker.kill()
            broker.start()

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


def feed(
    topics: TrialTopics,
    records: Mapping[str, Sequence[InputRecord]],
    ends: threading.Event,
    refused: list[str],
) -> None:
    """Write the records of all splits in turn, ``PACE_S`` apart, until ``ends`` is set.

    ``refused`` gets why the broker has not taken a record. Nothing is written behind it, because the reader
    of the job would count wrongly.
    """
    from confluent_kafka import KafkaError, Message, Producer

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error.str())

    producer = Producer(
        {
            "bootstrap.servers": topics.servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
    )
    for in_turn in zip_longest(*records.values()):
        for number, record in enumerate(in_turn):
            if record is None:
                continue
            producer.produce(
                topics.input_topic, msgspec.json.encode(record), partition=number, on_delivery=delivered
            )
            producer.poll(0)
            if refused or ends.wait(PACE_S):
                return
    while producer.flush(0.1) and not ends.is_set():
        pass
