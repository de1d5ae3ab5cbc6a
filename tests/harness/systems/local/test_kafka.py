"""Families with topics of Kafka at their ends, in real processes over a real broker."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.model.family import KAFKA, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import TRANSACTION_VISIBLE, History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.process.file_io import CountedSource
from onceproof.harness.systems.process.job_assembly import ProcessIO
from onceproof.harness.systems.process.job_specification import Spec, TrialTopics
from onceproof.harness.systems.process.kafka_io import (
    TRANSACTION,
    KafkaOutput,
    KafkaWatch,
    make_kafka_source,
    make_topics,
)
from onceproof.harness.systems.process.trial_servers import TrialKafka
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_log import EventLog
from tests.harness.systems.words import scenario_with
from tests.patience import PATIENCE_SECONDS
from tests.planted.catalogue import with_bug

pytestmark = pytest.mark.local_kill

COMMIT_FAULTS = sorted(
    kind for kind, row in FAULTS.items() if row.strikes == "commit" and row.delay == "none"
)
OWNER = "0" * 16
numbers = itertools.count()


@pytest.fixture
def system(kafka_broker: KafkaBroker) -> Iterator[LocalSystem]:
    system = LocalSystem(kafka=TrialKafka(kafka_broker))
    yield system
    system.close()


@pytest.fixture
def topics(kafka_broker: KafkaBroker) -> TrialTopics:
    """Topics of a scenario that ran nowhere, with an output topic."""
    address = kafka_broker.address
    topics = TrialTopics(address, address, f"test{os.getpid()}x{next(numbers)}", {"a": 2, "b": 0})
    make_topics(topics.servers, {topics.input_topic: 2, topics.output_topic("counts"): 1})
    return topics


def tried(system: LocalSystem, scenario: Scenario) -> tuple[History, Verdict]:
    family = load_family(scenario.family)
    history = system.run(family, scenario)
    return history, judge(scenario, history, PythonOracle(family, scenario))


def test_job_and_broker_killed_paused_and_cut_off_lose_and_repeat_no_rows(system: LocalSystem) -> None:
    errors = [Fault(kind, "committing", occurrence=number) for number, kind in enumerate(COMMIT_FAULTS, 3)]
    scenario = scenario_with(
        Fault("kill_process", "committing", occurrence=2),
        Fault("kill_server", "pre_committed", occurrence=4, delay=50, server=KAFKA),
        Fault("cut_connection", "committing", occurrence=6, means="answer", server=KAFKA),
        Fault("cut_connection", "pre_committed", occurrence=6, server=KAFKA),
        Fault("pause_server", "completed", occurrence=4, delay=100, server=KAFKA),
        Fault("kill_task", "restored", rescale_to=3),
        *errors,
        family="kafka_to_kafka",
    )
    history, verdict = tried(system, scenario)
    assert verdict.violations == ()
    assert {kind for kind, _ in history.statistics.coverage} == {fault.kind for fault in scenario.faults}
    assert [event for event in history.events if event[1] == TRANSACTION_VISIBLE]


def test_source_that_reads_on_at_the_offsets_of_its_group_is_seen(kafka_broker: KafkaBroker) -> None:
    bug = with_bug("offsets-from-the-group-instead-of-state")
    mutated = LocalSystem(**bug, kafka=TrialKafka(kafka_broker))
    # The process dies before its readers hear that the checkpoint is complete.
    scenario = scenario_with(Fault("kill_process", "completed", occurrence=2), family="kafka_to_kafka")
    _, verdict = tried(mutated, scenario)
    mutated.close()
    assert {violation.property for violation in verdict.violations} & {"exactly_once", "consistent_cut"}


def produced(topics: TrialTopics, transactional_id: str, *words: str) -> Producer:
    """Write rows in a transaction that stays open; its name is in their headers."""
    producer = Producer(
        {
            "bootstrap.servers": topics.servers,
            "transactional.id": transactional_id,
            # The broker ends none that stays open for long on a busy machine.
            "transaction.timeout.ms": int(PATIENCE_SECONDS * 1000),
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    for word in words:
        producer.produce(
            topics.output_topic("counts"),
            f'["{word}", 1]'.encode(),
            headers=[(TRANSACTION, transactional_id.encode())],
        )
    producer.flush(PATIENCE_SECONDS)
    return producer


def test_committed_rows_behind_an_open_transaction_are_read_and_it_is_found(topics: TrialTopics) -> None:
    first, second, third = (f"{topics.prefix}-{OWNER}-1-{epoch}-1.1" for epoch in (3, 4, 5))
    open_one = produced(topics, first, "open")
    produced(topics, second, "b", "c").commit_transaction(PATIENCE_SECONDS)
    produced(topics, third, "aborted").abort_transaction(PATIENCE_SECONDS)
    output = KafkaOutput(topics)
    assert output.names() == [second]
    assert output.rows(second) == [("b", 1), ("c", 1)]
    assert output.writer(second) == (1, 4, "1.1")
    assert output.identity(first) is None
    assert output.unfinished() == [first]
    before = output.identity(second)
    open_one.abort_transaction(PATIENCE_SECONDS)
    assert output.unfinished() == []
    assert output.identity(second) == before
    output.close()


def test_watch_sees_a_transaction_when_it_is_committed_and_not_before(topics: TrialTopics) -> None:
    first, second = (f"{topics.prefix}-{OWNER}-1-{epoch}-1.1" for epoch in (3, 4))
    with KafkaWatch(topics) as watch:
        produced(topics, first, "a", "b").commit_transaction(PATIENCE_SECONDS)
        open_one = produced(topics, second, "c")
        seen = [first_event(watch)]
        assert watch.take_events() == []
        open_one.commit_transaction(PATIENCE_SECONDS)
        seen.append(first_event(watch))
    assert [(event["kind"], event["transaction"]) for event in seen] == [
        (event_log.ROWS_SEEN, first),
        (event_log.ROWS_SEEN, second),
    ]


def first_event(watch: KafkaWatch) -> dict[str, Any]:
    """Wait for an event of a watch."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for event in watch.take_events():
            return event
        time.sleep(0.05)
    raise AssertionError("the watch sees nothing")


def test_rows_outside_a_transaction_are_found(topics: TrialTopics) -> None:
    producer = Producer({"bootstrap.servers": topics.servers, "log_level": 0})
    producer.produce(topics.output_topic("counts"), b'["a", 1]')
    assert producer.flush(PATIENCE_SECONDS) == 0
    output = KafkaOutput(topics)
    [name] = output.names()
    assert output.owns(name)
    assert output.rows(name) == [("a", 1)]
    assert output.writer(name) == (0, 0, "unknown")
    output.close()


def test_rows_under_a_name_that_another_transaction_has_committed_are_found(topics: TrialTopics) -> None:
    committed, aborted = (f"{topics.prefix}-{OWNER}-1-{epoch}-1.1" for epoch in (3, 4))
    produced(topics, committed, "a").commit_transaction(PATIENCE_SECONDS)
    mixed = produced(topics, aborted, "b")
    mixed.produce(topics.output_topic("counts"), b'["c", 1]', headers=[(TRANSACTION, committed.encode())])
    mixed.flush(PATIENCE_SECONDS)
    mixed.abort_transaction(PATIENCE_SECONDS)
    output = KafkaOutput(topics)
    assert output.rows(output.names()[0]) == [("a", 1), ("c", 1)]
    assert output.unfinished() == [committed]
    output.close()


def test_source_waits_for_records_that_come_after_it_and_ends_behind_them(topics: TrialTopics) -> None:
    source = make_kafka_source(topics, EventLog(os.devnull), is_bounded=True)
    readers = {split: source.open_split(split, None) for split in source.splits()}
    assert readers["b"].exhausted
    assert readers["a"].read(10) == []
    producer = Producer({"bootstrap.servers": topics.servers, "log_level": 0})
    for record in (b'[0,"x"]', b'[-7,["y",1]]'):
        producer.produce(topics.input_topic, record, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    found = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not readers["a"].exhausted and time.monotonic() < deadline:
        found += readers["a"].read(10)
    assert found == [("x", 0), (("y", 1), -7)]
    (offset, stop, _), count = readers["a"].position
    assert (offset, stop, count) == (2, 2, 2)
    for reader in readers.values():
        reader.close()


def test_completed_checkpoints_commit_the_offsets_of_the_inner_source(topics: TrialTopics) -> None:
    source = make_kafka_source(topics, EventLog(os.devnull), is_bounded=True)
    assert source.hears_of_checkpoints
    reader = source.open_split("a", None)
    reader.checkpoint_complete([(1, 2), 1])
    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": topics.prefix, "log_level": 0})
    place = [TopicPartition(topics.input_topic, 0)]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while consumer.committed(place, PATIENCE_SECONDS)[0].offset != 1:
        assert time.monotonic() < deadline, "the offset is not committed"
        time.sleep(0.05)
    consumer.close()
    reader.close()


@pytest.mark.parametrize("end", ["kafka_source", "kafka_sink"])
def test_system_without_a_broker_says_which_one_has_it(end: str) -> None:
    spec = Spec(family="kafka_to_kafka", job_name="job", checkpoints="", output="", events="")
    source = CountedSource(CollectionSource({}))
    io = ProcessIO(spec, source, 1, EventLog(os.devnull), lambda task: None, {"word": "STRING"})
    with pytest.raises(FamilyError, match="run it with --system local"):
        {"kafka_source": io.kafka_source, "kafka_sink": io.kafka_sink}[end]("counts")
