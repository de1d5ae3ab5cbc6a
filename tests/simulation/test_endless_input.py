"""Sources without an end in the simulation: they wait, and a stop that drains ends the job."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.connectors.source import SplitDiscovery
from onceproof.engine.operators.source import SourceOperator
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import INPUT_READ, JOB_FINISHED, JOB_STOPPED
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import Scenario, ScenarioError, from_json, to_json
from onceproof.harness.trials.trial import Trial, scenario_of, try_scenario


def endless(family: str, seed: int) -> Scenario:
    """Return the scenario of a seed without faults and requests, on sources that never end."""
    drawn = scenario_of(load_family(family), seed)
    # A job without checkpoints cannot be stopped.
    return replace(drawn, faults=(), operations=UNSET, endless=True, without_checkpoints=UNSET)


def sound(scenario: Scenario) -> Trial:
    trial = try_scenario(load_family(scenario.family), scenario)
    assert trial.verdict.passed
    return trial


@pytest.mark.parametrize("family", ["word_count", "window_sum", "full_join", "pausing_sensors"])
def test_job_is_drained_once_and_ends_when_it_is_started_again(family: str) -> None:
    for seed in range(10):
        events = sound(endless(family, seed)).history.events
        kinds = [event[1] for event in events if event[1] != INPUT_READ]
        assert kinds.count(JOB_STOPPED) == 1
        assert kinds[-1] == JOB_FINISHED


def test_source_that_waits_is_not_polled() -> None:
    # A stop whose savepoint expires costs an attempt.
    drawn = [endless("word_count", seed) for seed in range(24)]
    ample = [each for each in drawn if each.checkpoint_timeout_ms > 3000]
    assert len(ample) > 12
    for scenario in ample:
        waiting = sound(scenario).history.statistics
        reading = sound(replace(scenario, endless=UNSET)).history.statistics
        # Besides, records arrive, the user looks, and the job is stopped and started again.
        assert waiting.steps < 3 * reading.steps + 400


def test_input_without_any_record_is_drained_as_well() -> None:
    scenario = endless("word_count", 1)
    sound(replace(scenario, records=dict.fromkeys(scenario.records, ())))


def test_what_has_arrived_is_there_for_the_next_attempt() -> None:
    """Faults and stops are those of the seed; a job that reads again finds the records at once."""
    family = load_family("page_views")
    drawn = [scenario_of(family, seed) for seed in range(60)]
    ending = [each for each in drawn if each.faults and each.endless is UNSET and each.takes_checkpoints]
    scenarios = [replace(each, endless=True) for each in ending]
    ample = [each for each in scenarios if each.checkpoint_timeout_ms > 3000]
    assert len(ample) > 20
    for scenario in ample:
        sound(scenario)


def test_an_endless_scenario_is_read_as_it_was_written() -> None:
    scenario = endless("word_count", 2)
    assert '"endless":true' in to_json(scenario)
    assert from_json(to_json(scenario)) == scenario
    with pytest.raises(ScenarioError, match="expected `bool`, got `int` at endless"):
        from_json(to_json(scenario).replace('"endless":true', '"endless":1'))


def test_splits_that_come_while_the_job_runs_are_discovered_and_read() -> None:
    discovered = 0
    sound_take = SourceOperator._take_discovered

    def counted(self: SourceOperator, discovery: SplitDiscovery) -> None:
        nonlocal discovered
        before = len(self.positions())
        sound_take(self, discovery)
        discovered += len(self.positions()) - before

    family = load_family("running_sum")
    with replaced(SourceOperator, "_take_discovered", counted):
        for seed in range(40):
            # With all its faults: a split that is not in a checkpoint is discovered again. Scenarios without
            # checkpoints draw no endless input.
            drawn = replace(scenario_of(family, seed), endless=True, without_checkpoints=UNSET)
            trial = try_scenario(family, drawn)
            assert trial.verdict.violations == ()
    assert discovered > 40
