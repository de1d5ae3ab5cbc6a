"""The trial of all kinds of real faults, over a system that answers at once: its plan, shares and table."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from onceproof.harness.model.fault_kinds import CLIENT_ANSWERS
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.model.history import History, Recovery
from onceproof.harness.model.scenario import check, read_scenario
from onceproof.harness.model.system import applicable
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.spark.system import (
    CAPABILITIES,
    CLUSTER_MEANS,
    LOCAL_MEANS,
    MISSING,
    STANDALONE_MEANS,
    SparkSystem,
)
from tests.benchmarks import real_faults as trial
from tests.benchmarks.real_faults import FAMILIES, PLANS, SYSTEMS, cases, main, read_results

TAKEN = {"spark": LOCAL_MEANS, "spark-cluster": CLUSTER_MEANS, "spark-standalone": STANDALONE_MEANS}
ROUND = 11
"""Scenarios."""


class Surviving(SparkSystem):
    """Survives everything in half a second; on request it loses a row."""

    closed = 0

    def __init__(self, name, loses=False):
        self.name = name
        self._loses = loses

    def run(self, family, scenario, trace=False):
        history: History = SimulatedSystem().run(family, replace(scenario, faults=()))
        for fault in scenario.faults:
            recovery = Recovery(fault.kind, fault.point, "*", 2, means=fault.means, commit_seconds=0.5)
            history.statistics.recoveries.append(recovery)
        if self._loses:
            history.events = [event for event in history.events if event[1] != "transaction_visible"]
        return history

    def close(self):
        Surviving.closed += 1


@pytest.fixture
def find(monkeypatch):
    """Puts systems in the place of the real ones."""

    def placed(loses):
        monkeypatch.setattr(trial, "find_system", lambda name: Surviving(name, loses))

    return placed


def test_a_round_is_thirty_faults_of_all_kinds_that_the_systems_can_take():
    assert [sum(map(len, PLANS[system])) for system in SYSTEMS] == [15, 15, 3]
    met = {(kind.kind, kind.means) for plan in PLANS.values() for kinds in plan for kind in kinds}
    assert {means for _, means in met} == {
        "",
        *[means for kind in JOB_FAULTS if FAULTS[kind].needs in CAPABILITIES for means in FAULTS[kind].means],
    } - {*CLIENT_ANSWERS}, "how a client reports a failed commit is one of its details"
    assert any(kind.is_late for plan in PLANS.values() for kinds in plan for kind in kinds)


def test_each_scenario_is_one_that_its_system_can_take_and_the_seed_decides_it():
    found = list(cases(3, 5))
    assert found == list(cases(3, 5))
    assert found != list(cases(4, 5))
    assert len(found) == 5 * ROUND
    assert Counter((each.system, each.scenario.family) for each in found) == {
        (system, family): len(PLANS[system]) for system in SYSTEMS for family in FAMILIES
    }
    for each in found:
        check(each.scenario)
        faults = each.scenario.faults
        assert applicable(faults, CAPABILITIES, MISSING) == (faults, {})
        assert {fault.means for fault in faults} <= TAKEN[each.system] | {""}
        assert [fault.checkpoint for fault in faults] == [1, 2, 3]


def test_shares_are_parts_of_the_whole_and_the_table_is_of_all(tmp_path, find, capsys):
    find(loses=False)
    for first in range(3):
        options = ["--rounds", "2", "--shares", "3", "--first", str(first), "--out", str(tmp_path)]
        assert main(options) == 0
    results = read_results(tmp_path)
    assert [each.number for each in results] == list(range(2 * ROUND))
    capsys.readouterr()
    assert main(["--out", str(tmp_path), "--table"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "| fault | local[2,4] | local-cluster | standalone | median s | worst s |"
    assert "| SIGKILL of an executor's Java | 0 | 8 | 0 | 0.5 | 0.5 |" in said
    assert "| SIGKILL of a worker | 6 | 4 | 0 | 0.5 | 0.5 |" in said
    assert said[-3:] == [
        "| all 66 | 30 | 30 | 6 | | |",
        "",
        "22 scenarios, 66 faults planned, 66 fired, 0 scenarios FAILED",
    ]


def test_a_failing_scenario_is_written_and_reported(tmp_path, find, capsys):
    find(loses=True)
    assert main(["--rounds", "1", "--shares", "10", "--out", str(tmp_path)]) == 1
    assert "FAILED" in capsys.readouterr().err
    [result] = read_results(tmp_path)
    assert any(violation.startswith("exactly_once, lost") for violation in result.violations)
    assert read_scenario(tmp_path / "failed-0.json") == next(cases(0, 1)).scenario
