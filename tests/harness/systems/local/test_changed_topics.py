"""Topics that are created again, or lose rows, under a job in real processes over a real broker."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.fault_kinds import Means
from onceproof.harness.model.history import JOB_FAILED, JOB_FINISHED, History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.model.seeds import numbered
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.trial_servers import TrialKafka
from onceproof.harness.trials.trial import as_run, scenario_of, try_scenario
from tests.harness.systems.words import scenario_with
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.local_kill

FAMILY = load_family("kafka_to_kafka")
RECORDS = {"x": tuple((time, f"x{time}") for time in range(4)), "y": ((0, "y"),), "z": ()}
MUTANTS = str(Path(__file__).with_name("outside_mutants.py"))
SCENARIOS = 50
"""In so many scenarios of a run a planted bug has to be found."""
PLANTED = pytest.mark.parametrize(
    ("mutant", "means"),
    [("topic-ids-are-not-compared", "recreated"), ("offsets-that-are-gone-are-skipped", "expired")],
)


@pytest.fixture(scope="module")
def kafka(kafka_broker: KafkaBroker) -> Iterator[TrialKafka]:
    kafka = TrialKafka(kafka_broker)
    yield kafka
    kafka.close()


def changed(means: Means) -> Fault:
    return Fault("change_input", "completed", occurrence=2, means=means)


KILL = Fault("kill_all", "notified", occurrence=8)
"""All tasks die as they hear of the second checkpoint: there are six of them."""


def tried(
    kafka: TrialKafka, *faults: Fault, family: str = "kafka_to_kafka", mutant: str = ""
) -> tuple[History, Verdict, list[str]]:
    """Run a scenario with these faults; return its history, its verdict, and the causes of its end."""
    scenario = scenario_with(*faults, family=family)
    system = LocalSystem(kafka=kafka, mutant=mutant, mutant_file=MUTANTS if mutant else "")
    history = system.run(load_family(family), scenario)
    causes = [details["cause"] for _, kind, _, details in history.events if kind == JOB_FAILED]
    return history, judge(scenario, history, PythonOracle(load_family(family), scenario)), causes


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ((changed("recreated"), KILL), "-in' at .* is not the one that the job has read"),
        ((changed("recreated"),), "-in' at .* is not the one that the job has read"),
        ((changed("expired"), KILL), r"-in-\d at .* does not exist any more"),
    ],
    ids=["created again between two attempts", "created again under the job", "offsets lost"],
)
def test_job_whose_topic_changed_fails_and_names_it(
    kafka: TrialKafka, faults: tuple[Fault, ...], says: str
) -> None:
    history, verdict, causes = tried(kafka, *faults)
    assert verdict.violations == ()
    assert history.statistics.coverage["change_input", "completed"] == 1
    assert history.statistics.attempts == len(faults)
    [cause] = causes
    assert re.search(says, cause)


@PLANTED
def test_topic_that_changed_without_a_word_is_found(kafka: TrialKafka, mutant: str, means: Means) -> None:
    _, verdict, causes = tried(kafka, changed(means), KILL, mutant=mutant)
    assert causes == []
    assert {violation.property for violation in verdict.violations} & {"consistent_cut", "completeness"}


def test_job_that_reads_no_topic_keeps_its_input(kafka: TrialKafka) -> None:
    history, verdict, _ = tried(kafka, changed("recreated"), family="kafka_rows")
    assert verdict.violations == ()
    assert ("change_input", "completed") not in history.statistics.coverage
    assert JOB_FINISHED in [kind for _, kind, _, _ in history.events]


def offsets_in(consumer: Consumer, topics: TrialTopics, number: int) -> tuple[int, int]:
    """Return the first offset of a partition, and the one behind its last row."""
    place, deadline = TopicPartition(topics.input_topic, number), time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return consumer.get_watermark_offsets(place, PATIENCE_SECONDS)
        except KafkaException:
            # The broker shows a new partition a moment before it leads it.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def rows_in(topics: TrialTopics) -> list[list[bytes]]:
    """Return what the input topic has, partition by partition, which begins at its first row."""
    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": topics.prefix, "log_level": 0})
    found = []
    for number in range(len(topics.lengths)):
        low, high = offsets_in(consumer, topics, number)
        consumer.assign([TopicPartition(topics.input_topic, number, low)])
        rows = consumer.consume(high - low, PATIENCE_SECONDS) if high > low else []
        found.append([row.value() or b"" for row in rows])
    consumer.close()
    return found


def test_topic_that_is_created_again_is_empty_until_an_attempt_begins(kafka: TrialKafka) -> None:
    with kafka.changing_topics(RECORDS) as (topics, topic):
        topic.attempt_begins()
        topic.strike(changed("recreated"))
        assert rows_in(topics) == [[], [], []]
        topic.attempt_begins()
        other = [b'[3,"x3"]', b'[2,"x2"]', b'[1,"x1"]', b'[0,"x0"]']
        assert rows_in(topics) == [other, [b'[0,"y"]'], []]
        topic.attempt_begins()
        assert rows_in(topics)[0] == other
        topic.calm()


def test_topic_whose_rows_expire_has_its_offsets_and_no_rows(kafka: TrialKafka) -> None:
    with kafka.changing_topics(RECORDS) as (topics, topic):
        topic.strike(changed("expired"))
        assert rows_in(topics) == [[], [], []]
        topic.attempt_begins()
        topic.calm()
        assert rows_in(topics) == [[], [], []]
        consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": "any", "log_level": 0})
        assert offsets_in(consumer, topics, 0) == (4, 4)
        consumer.close()


@PLANTED
@pytest.mark.slow
def test_planted_bug_is_found_within_fifty_scenarios(kafka: TrialKafka, mutant: str, means: Means) -> None:
    """Only those that have the fault are run: all others cannot reach the bug."""
    sound = LocalSystem(kafka=kafka)
    broken = LocalSystem(kafka=kafka, mutant=mutant, mutant_file=MUTANTS)
    for _, seed in numbered(3, [FAMILY.name], 0, SCENARIOS):
        scenario = as_run(sound, FAMILY, scenario_of(FAMILY, seed))
        if all(fault.means != means for fault in scenario.faults):
            continue
        if not try_scenario(FAMILY, scenario, system=broken).verdict.passed:
            assert try_scenario(FAMILY, scenario, system=sound).verdict.passed
            return
    pytest.fail(f"{mutant} survives {SCENARIOS} scenarios")
