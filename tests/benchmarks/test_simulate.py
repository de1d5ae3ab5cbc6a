"""The benchmark of the simulation, at a tiny size: it measures scenarios that really are what it says."""

from __future__ import annotations

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, CHECKPOINT_COMPLETED, FAULT_FIRED
from onceproof.harness.model.scenario import check
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from tests.benchmarks import minimal_simulation
from tests.benchmarks import simulate as benchmarks_simulate
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.simulate import WrongRows, measure, reference_scenario


def test_simulation_and_floor_are_measured() -> None:
    found = measure(scenarios=3, rounds=2)
    assert set(found.floors) == set(found.ratios) <= set(found.figures)
    assert all(value > 0 for values in (found.figures, found.floors) for value in values.values())
    for name, ratio in found.ratios.items():
        assert ratio == pytest.approx(found.figures[name] / found.floors[name], rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_the_reference_case_is_as_documented(seed: int) -> None:
    family = load_family("word_count")
    scenario = reference_scenario(family, seed)
    check(scenario)
    assert scenario.record_count() == 50
    history = SimulatedSystem().run(family, scenario)
    started = [payload["parallelism"] for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED]
    assert started == [2, 3], "one kill, and the counts are three from then on"
    kinds = [kind for _, kind, _, _ in history.events]
    assert kinds.count(FAULT_FIRED) == 1
    assert 2 <= kinds.count(CHECKPOINT_COMPLETED) <= 4


def test_seeds_are_different_cases() -> None:
    family = load_family("word_count")
    one, other = reference_scenario(family, 1), reference_scenario(family, 2)
    assert one == reference_scenario(family, 1)
    assert (one.records, one.schedule) != (other.records, other.schedule)


def test_wrong_rows_spoil_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks_simulate, "WORDS_A_SPLIT", 3)
    family = load_family("word_count")
    monkeypatch.setattr(family, "expected", lambda records, declared: [("ant", 1)])
    with pytest.raises(WrongRows, match="the reference case 0 ends in wrong rows"):
        measure(scenarios=1, rounds=1)


def test_the_floor_counts_correctly() -> None:
    run = minimal_simulation.Run
    words = [["ant", "bee"] * 12, ["ant"] * 25]
    assert run(words, 1).run() == run(words, 1).run() != run(words, 2).run()


def test_the_command_knows_it() -> None:
    assert load_benchmark("simulate") is measure
