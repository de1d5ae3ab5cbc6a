"""A program whose group and topic of states have the same names in each trial, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from onceproof.harness.model.history import ATTEMPT_STARTED
from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.service import ServiceError
from onceproof.harness.systems.process import kafka_io
from onceproof.harness.systems.process.trial_servers import TrialKafka
from onceproof.harness.systems.program.ends import ProgramServers
from onceproof.harness.systems.program.system import CommandSystem
from onceproof.harness.trials.pool import Batch, error_of
from tests.harness.systems.program.programs import events_of, measured, program, tried

pytestmark = pytest.mark.local_kill

SUBSCRIBES = """
    import json, sys, time
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic
    given, written, servers, start = sys.argv[1:]
    admin = AdminClient({"bootstrap.servers": servers})
    def has_states():
        return "numbers-states" in admin.list_topics(timeout=600).topics
    # An earlier trial has left nothing.
    assert start != "1" or not has_states()
    while not has_states():
        # A broker on a busy machine may take itself for dead for a moment.
        admin.create_topics([NewTopic("numbers-states", 1)])["numbers-states"].exception()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "transactional.id": "numbers"})
    producer.init_transactions()
    # The longest session that a broker takes: half an hour.
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": "numbers", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "session.timeout.ms": 1800000, "max.poll.interval.ms": 1800000,
    })
    consumer.subscribe([given])
    while True:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            producer.begin_transaction()
            producer.produce(written, message.value())
            places = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata())
            producer.commit_transaction()
"""
"""A member of a group that would wait for half an hour for one that was killed."""
BETWEEN_TOPICS = """
[input]
kind = "kafka"
[output]
kind = "kafka"
[done]
quiet_seconds = 300
most_seconds = 600
"""


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> Iterator[CommandSystem]:
    system = CommandSystem(servers=ProgramServers(kafka=TrialKafka(kafka_broker)))
    yield system
    system.close()


def test_a_restart_does_not_wait_for_the_session_of_a_killed_member(
    kafka: CommandSystem, tmp_path: Path
) -> None:
    path = program(tmp_path, SUBSCRIBES, BETWEEN_TOPICS)
    path.write_text(path.read_text().replace('"{output}"', '"{output}", "{kafka}", "{start}"'))
    measured(path, kafka)
    # This trial finds neither the group nor the topic of the control run.
    kill = Fault("kill_process", "committed", occurrence=3)
    history, verdict = tried(path, kafka, faults=(kill,))
    assert verdict.passed, verdict.violations
    assert len(events_of(history, ATTEMPT_STARTED)) >= 2


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._TRANSPORT)), TimeoutError()])
def test_a_broker_that_does_not_answer_is_one_line_for_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuses(servers: str, partitions: dict[str, int]) -> None:
        raise error

    monkeypatch.setattr(kafka_io, "make_topics", refuses)
    kafka = TrialKafka(KafkaBroker(tmp_path, has_proxy=True))
    with pytest.raises(ServiceError) as raised, kafka.own_topics({"input": 1}, {}):
        pass
    kafka.close()
    said = str(raised.value)
    assert said.startswith("kafka: the broker of the trials at 127.0.0.1:")
    assert said.endswith("run fewer scenarios at a time (-n 1)")
    # A worker hands it on as what the user can correct.
    assert error_of(raised.value, Batch(0, 1)) == (said, "")
