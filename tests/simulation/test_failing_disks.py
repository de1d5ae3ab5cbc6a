"""Disks that fail below the databases of keyed state: an attempt ends, and the next one goes on."""

from __future__ import annotations

from itertools import count, islice

import pytest

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import TASK_FAILED
from onceproof.harness.model.scenario import Fault, Point, Scenario
from onceproof.harness.systems.simulation.comparison_runs import recorded_checkpoints
from onceproof.harness.systems.simulation.modelled_databases import has_real_databases
from onceproof.harness.trials.checkpoint_trials import check_continuations
from onceproof.harness.trials.trial import try_scenario
from tests.harness.systems.words import scenario_with


@pytest.mark.parametrize(("point", "occurrence"), [("restoring", 1), ("snapshotted", 2)])
def test_disk_that_fails_costs_an_attempt_and_no_row(point: Point, occurrence: int) -> None:
    failed = Fault("fail_database", point, occurrence=occurrence)
    scenario = scenario_with(failed, state_backend="rocksdb")
    trial = try_scenario(load_family(scenario.family), scenario, continued=False)
    assert trial.verdict.violations == ()
    assert trial.history.statistics.coverage == {("fail_database", point): 1}
    [failure] = [event for event in trial.history.events if event[1] == TASK_FAILED]
    assert failure[3]["injected"] is True
    assert "Input/output error" in failure[3]["cause"]


def test_checkpoints_before_a_failing_disk_are_restored_from_the_same_databases() -> None:
    """Without its fault, each of these scenarios would open databases of RocksDB."""
    family = load_family("word_count")
    failed = Fault("fail_database", "snapshotted", occurrence=3)
    for seed in islice(filter(has_real_databases, count(1)), 3):
        scenario = scenario_with(failed, state_backend="rocksdb", seed=seed)
        assert recorded_checkpoints(family, scenario)
        assert check_continuations(family, scenario) == ()


def test_only_disks_below_databases_are_drawn_to_fail() -> None:
    def failing(scenario: Scenario) -> bool:
        return any(fault.kind == "fail_database" for fault in scenario.faults)

    drawn = [generate(load_family("running_sum"), seed) for seed in range(1000)]
    in_databases = [each for each in drawn if each.state_backend == "rocksdb"]
    assert 0.15 < sum(map(failing, in_databases)) / len(in_databases) < 0.45
    assert not any(failing(each) for each in drawn if each.state_backend != "rocksdb")
