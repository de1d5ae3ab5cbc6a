"""Runs that record their checkpoints: the same runs, and no second one for what is restored."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.checkpoint_recorder import COMPLETIONS
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.trial import scenario_of, try_scenario

SCENARIOS = 12


def scenarios(family: Family) -> list[Scenario]:
    return [scenario_of(family, scenario_seed(0, family.name, index)) for index in range(SCENARIOS)]


class OwnWay(SimulatedSystem):
    """Runs scenarios in a way of its own."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, family: Family, scenario: Scenario, trace: bool = False) -> History:
        self.runs += 1
        return super().run(family, scenario, trace)


def test_run_that_records_its_checkpoints_is_the_same_run() -> None:
    family, system = load_family("word_count"), SimulatedSystem()
    checkpoints = 0
    for scenario in scenarios(family):
        plain = system.run(family, scenario, trace=True)
        history, recorded = system.run_recorded(family, scenario, trace=True)
        assert history.events == plain.events
        assert history.trace_hash == plain.trace_hash
        assert history.trace == plain.trace
        assert history.statistics.points == plain.statistics.points
        assert history.statistics.coverage == plain.statistics.coverage
        assert history.statistics.not_applicable == plain.statistics.not_applicable
        checkpoints += len(recorded.checkpoints)
        completed = [event[2] for event in history.events if event[1] in COMPLETIONS]
        assert [each.metadata.checkpoint_id for each in recorded.checkpoints] == completed
    assert checkpoints > SCENARIOS


def test_continued_scenario_runs_once_with_its_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_family("word_count")
    scenario = next(each for each in scenarios(family) if each.faults)
    with_faults: list[bool] = []
    make = World.__init__

    def counted(world: World, family: Family, scenario: Scenario, *others: Any, **named: Any) -> None:
        with_faults.append(bool(scenario.faults))
        make(world, family, scenario, *others, **named)

    monkeypatch.setattr(World, "__init__", counted)
    assert try_scenario(family, scenario, twice=False, continued=True).verdict.passed
    assert with_faults[0]
    assert len(with_faults) > 1
    assert not any(with_faults[1:]), "what is restored and compared has no faults"


def test_system_with_a_way_of_its_own_is_asked_to_run_a_continued_scenario() -> None:
    family, system = load_family("word_count"), OwnWay()
    trial = try_scenario(family, scenarios(family)[0], twice=False, continued=True, system=system)
    assert trial.verdict.passed
    assert system.runs == 1
