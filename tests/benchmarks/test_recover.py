"""The benchmark of recoveries, over systems that answer at once: what it runs, and what it makes of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.harness.model.history import History, Recovery
from onceproof.harness.model.scenario import Fault, check
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.spark.system import CAPABILITIES, CLUSTER_MEANS, LOCAL_MEANS
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.recover import DEATHS, NotRecovered, measure, scenario_of, seconds_after

SECONDS = {
    "worker": (1.0, 5.0, 3.0),
    "driver": (8.0, 9.0, 7.0),
    "java": (4.0, 2.0, 3.0),
    "executor": (2.0,) * 3,
}
PEER_SECONDS = {"worker": (6.0, 6.0, 6.5), "driver": (12.0, 18.0, 16.0)}


class Answering:
    """Survives everything, and says how long it took."""

    capabilities = CAPABILITIES
    missing = frozenset()

    def __init__(self, name, seconds):
        self.name = name
        self.seconds = {death: list(each) for death, each in seconds.items()}
        self.closed = 0

    def run(self, family, scenario, trace=False):
        history: History = SimulatedSystem().run(family, replace(scenario, faults=()))
        for fault in scenario.faults:
            death = fault.means or {"kill_task": "worker", "kill_process": "driver"}[fault.kind]
            recovery = Recovery(fault.kind, fault.point, "*", 2, seconds=self.seconds[death].pop(0))
            history.statistics.recoveries.append(recovery)
        return history

    def close(self):
        self.closed += 1


def test_the_figures_are_the_median_and_the_worst():
    systems = {
        "spark": Answering("spark", SECONDS),
        "spark-cluster": Answering("spark-cluster", SECONDS),
        "structured_streaming": Answering("structured_streaming", PEER_SECONDS),
    }
    found = measure(3, systems.__getitem__)
    assert found.figures == {
        "rounds": 3,
        "worker_seconds": 3.0,
        "worker_seconds_worst": 5.0,
        "driver_seconds": 8.0,
        "driver_seconds_worst": 9.0,
        "java_seconds": 3.0,
        "java_seconds_worst": 4.0,
        "executor_seconds": 2.0,
        "executor_seconds_worst": 2.0,
    }
    assert found.floors["driver_seconds"] == 16.0
    assert found.ratios == {"worker": 2.0, "driver": 2.0, "java": 5.333, "executor": 8.0}
    assert [system.closed for system in systems.values()] == [1, 1, 1]


def test_a_kill_that_did_not_fire_is_no_measurement():
    silent = Answering("spark", SECONDS)
    silent.run = lambda family, scenario: SimulatedSystem().run(family, replace(scenario, faults=()))
    with pytest.raises(NotRecovered, match="spark: kill_task struck 0 times, not once"):
        seconds_after(silent, scenario_of(Fault("kill_task", "pre_committed")))


def test_a_failing_run_is_no_measurement():
    wrong = Answering("spark", SECONDS)
    wrong.run = lambda family, scenario: History()
    with pytest.raises(NotRecovered, match="spark: liveness, unfinished"):
        seconds_after(wrong, scenario_of(Fault("kill_task", "pre_committed")))


def test_the_kills_are_supported_by_their_systems():
    assert load_benchmark("recover") is measure
    for death in DEATHS.values():
        check(scenario_of(Fault(death.kind, "pre_committed", checkpoint=2, means=death.means)))
        means = CLUSTER_MEANS if death.system == "spark-cluster" else LOCAL_MEANS
        assert not death.means or death.means in means
