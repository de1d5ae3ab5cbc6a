"""Rows that are lost behind a producer of the simulation, which the engine's producer hears of."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.kafka.kafka_errors import ClientError
from onceproof.engine.connectors.kafka.transactions import ProducerRecord
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import TASK_FAILED, History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.kafka_transactions import ModelTransactions, RowLost
from onceproof.harness.trials.trial import Trial, try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

KAFKA_ROWS = load_family("kafka_rows")
LOST = Fault("lose_row", "element", occurrence=7)


def test_producer_raises_for_a_row_that_was_lost_and_keeps_the_others() -> None:
    system = TransactionalSystem(History(), Clock())
    faults = [None, LOST, None]
    system.row_fault = lambda: faults.pop(0)
    producer = ModelTransactions(system).begin("a", 1000)
    with pytest.raises(RowLost, match="a row for topic 'rows' at simulation is lost: Local: Message timed"):
        producer.produce([ProducerRecord("rows", number) for number in range(3)])  # type: ignore[arg-type]
    [transaction] = system.transactions.values()
    assert transaction.rows == [0, 2]


def trial_of_a_lost_row() -> Trial:
    return try_scenario(KAFKA_ROWS, scenario_with(LOST, family="kafka_rows"), continued=False)


def test_attempt_whose_producer_has_lost_a_row_fails_and_nothing_is_missing() -> None:
    trial = trial_of_a_lost_row()
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage["lose_row", "element"] == 1
    [failed] = [event for event in trial.history.events if event[1] == TASK_FAILED]
    assert failed[3]["injected"] is True
    assert failed[3]["cause"].startswith("RowLost: a row for topic 'rows'")


def test_row_whose_loss_is_forgotten_is_lost() -> None:
    with find_mutant("row-that-was-not-stored-is-forgotten").applied():
        violations = trial_of_a_lost_row().verdict.violations
    assert ("exactly_once", "lost") in [(each.property, each.anomaly) for each in violations]


def test_codes_of_errors_are_those_of_the_client_library() -> None:
    library = pytest.importorskip("confluent_kafka", reason="needs the extra kafka").KafkaError
    own = {"TIMED_OUT", "UNKNOWN_TOPIC", "UNKNOWN_PARTITION", "MSG_TIMED_OUT"}
    for code in ClientError:
        assert code == getattr(library, f"_{code.name}" if code.name in own else code.name)
