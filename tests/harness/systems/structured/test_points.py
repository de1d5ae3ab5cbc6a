"""Where the faults of a scenario strike in a query of Structured Streaming."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault, check
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.model.system import applicable, can_strike, find_system
from onceproof.harness.systems.structured.history import RESCALE
from onceproof.harness.systems.structured.points import (
    CAPABILITIES,
    LEAST_BATCHES,
    MISSING,
    MOST_BATCHES,
    MOST_PARTITIONS_AFTER,
    PLACES,
    prepared,
)
from onceproof.harness.trials.trial import run_scenario

SYSTEM = find_system("structured_streaming")
FAMILY = load_family("word_count")
SEEDS = st.integers(0, 2**63)


def with_faults(*faults):
    return msgspec.structs.replace(generate(FAMILY, 6), faults=faults)


@given(SEEDS)
def test_prepared_scenario_is_valid_and_prepared_again_unchanged(seed):
    once = prepared(generate(FAMILY, seed))
    check(once)
    assert prepared(once) == once


@given(SEEDS)
def test_records_are_cut_into_a_few_batches(seed):
    scenario = prepared(generate(FAMILY, seed))
    records = scenario.record_count()
    batches = -(-records // (scenario.checkpoint_interval_ms // STEPS_PER_RECORD))
    assert batches <= MOST_BATCHES
    assert batches >= min(records, LEAST_BATCHES)


@given(SEEDS)
def test_applicable_faults_name_only_points_and_tasks_of_a_query(seed):
    scenario = prepared(generate(FAMILY, seed))
    taken, left = applicable(scenario.faults, CAPABILITIES, MISSING)
    assert len(taken) + sum(left.values()) == len(scenario.faults)
    assert {fault.point for fault in taken} <= set(PLACES.values())
    assert {fault.task for fault in taken} <= {"*"}
    assert max((fault.rescale_to for fault in taken), default=0) <= MOST_PARTITIONS_AFTER
    assert not any(
        kind.startswith("kill") and kind != "kill_master" for kind, point in left if point in PLACES
    )


def test_kill_at_completed_strikes_between_the_sink_and_the_commit_log():
    [fault] = prepared(with_faults(Fault("kill_task", "completed", checkpoint=1, rescale_to=3))).faults
    assert fault == Fault("kill_task", "committed", checkpoint=1, rescale_to=3)
    assert can_strike(SYSTEM, fault.kind, fault.point)


def test_kill_in_a_snapshot_strikes_before_the_driver_has_the_rows():
    [fault] = prepared(with_faults(Fault("kill_all", "uploaded", task="count-1", checkpoint=2))).faults
    assert fault == Fault("kill_all", "pre_committed")


@pytest.mark.parametrize(
    ("kind", "point"),
    [("lose_message", "notified"), ("tear_write", "snapshotted"), ("kill_process", "aborted")],
)
def test_fault_without_a_place_in_a_query_is_kept_and_not_applicable(kind, point):
    fault = Fault(kind, point)
    assert prepared(with_faults(fault)).faults == (fault,)
    assert applicable([fault], CAPABILITIES, MISSING) == ((), {(kind, point): 1})


def test_every_fault_point_of_a_query_is_a_point_of_process_kills():
    assert set(PLACES.values()) <= set(FAULTS["kill_process"].points)


class AllStrike:
    """A stand-in for Structured Streaming: no query runs, and every applicable fault strikes at its point."""

    name = SYSTEM.name
    capabilities = CAPABILITIES
    missing = MISSING

    def prepared(self, scenario):
        return prepared(scenario)

    def run(self, family, scenario, trace=False):
        taken, left = applicable(scenario.faults, CAPABILITIES, MISSING)
        history = History()
        history.job_finished(1)
        history.statistics.coverage = Counter((fault.kind, fault.point) for fault in taken)
        history.statistics.not_applicable = left
        return history


def test_fault_is_planned_where_it_strikes_not_where_it_was_drawn():
    drawn = with_faults(
        Fault("kill_task", "completed", checkpoint=1),
        Fault("kill_process", "aligned"),
        Fault("lose_message", "notified"),
    )
    outcome, _ = run_scenario(FAMILY, drawn, AllStrike())
    assert outcome.planned == outcome.coverage == {"kill_task/committed": 1, "kill_process/element": 1}
    assert outcome.not_applicable == {"lose_message/notified": 1}


def test_kill_is_planned_even_if_spark_refuses_its_rescale():
    class Refusing(AllStrike):
        def run(self, family, scenario, trace=False):
            history = super().run(family, scenario)
            history.statistics.not_applicable[RESCALE] = 1
            return history

    drawn = with_faults(Fault("kill_task", "completed", checkpoint=1, rescale_to=2))
    outcome, _ = run_scenario(FAMILY, drawn, Refusing())
    assert outcome.planned == {"kill_task/committed": 1}
    assert outcome.not_applicable == {"rescale/restoring": 1}
