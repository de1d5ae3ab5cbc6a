"""Transactions of Kafka: their marks, and those that are open when all is over."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from onceproof.harness.model.program_ends import COMMITTING_MARK, OPEN_MARK, Output
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.systems.process.kafka_clients import writer_settings
from onceproof.harness.systems.process.trial_servers import TrialKafka
from onceproof.harness.systems.program import outputs
from onceproof.harness.systems.program.marks import KafkaTransactions
from onceproof.harness.systems.program.outputs import OutputTopic
from onceproof.harness.systems.program.trial_end import TrialEnd
from tests.patience import PATIENCE_SECONDS


def test_a_transaction_that_stays_open_is_found_in_its_topic(
    kafka_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = TrialKafka(kafka_broker)
    with trial.own_topics({"output": 2}, {}) as own:
        topic, folder = own.names["output"], tmp_path / "output"
        end = TrialEnd(
            *(Output("kafka"), "job.toml: output", tmp_path, folder, {"id": ""}, {}),
            server=own.servers,
            topic=topic,
        )
        output, watch = OutputTopic(end), KafkaTransactions(own.servers, [topic])
        producer = Producer({**writer_settings(own.servers), "transactional.id": topic})
        producer.init_transactions()
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b'{"id": 1}', partition=partition)
        producer.commit_transaction()
        seen: Counter[str] = Counter()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while seen.total() < 2 and time.monotonic() < deadline:
            seen.update(watch.passes())
            time.sleep(0.01)
        watch.close()
        assert seen == {OPEN_MARK: 1, COMMITTING_MARK: 1}
        # The marker of the commit follows in its own time.
        monkeypatch.setattr(outputs, "_SECONDS_TO_END", PATIENCE_SECONDS)
        assert output.left_behind(has_ended=True) == []
        monkeypatch.setattr(outputs, "_SECONDS_TO_END", 0.0)
        producer.begin_transaction()
        producer.produce(topic, b'{"id": 2}', partition=1)
        producer.flush()
        # A row and the marker of its commit stand before it.
        for has_ended in (True, False):
            assert output.left_behind(has_ended=has_ended) == [
                ("open transaction", f"in {topic}-1, from offset 2", has_ended)
            ]
        producer.abort_transaction()
        output.close()
    trial.close()
