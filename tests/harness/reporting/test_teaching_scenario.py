"""The example scenario of a report, drawn in the simulation for a run on another system."""

from __future__ import annotations

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.reporting.teaching_scenario import teaching_example
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.trial import try_scenario

FAMILY = load_family("word_count")


def result_with(seed: int) -> RunResult:
    """Return a run whose only candidate is this seed, as if another system had killed it."""
    result = RunResult((FAMILY,), ("word_count",), 0, 1)
    result.tally.examples.append((0, "word_count", seed))
    return result


def has_kills(seed: int) -> bool:
    """Return whether the scenario of a seed passes in the simulation and has a kill."""
    trial = try_scenario(FAMILY, generate(FAMILY, seed), twice=False, continued=False)
    kinds = [event[2] for event in trial.history.events if event[1] == "fault_fired"]
    return trial.verdict.passed and any("kill" in str(kind) for kind in kinds)


def test_scenario_without_a_kill_in_the_simulation_is_no_example() -> None:
    calm = next(seed for seed in range(100) if not has_kills(seed))
    assert teaching_example(result_with(calm)) is None


def test_scenario_with_a_kill_in_the_simulation_is_the_example() -> None:
    killed = next(seed for seed in range(100) if has_kills(seed))
    example = teaching_example(result_with(killed))
    assert example is not None
    assert "a kill at step" in example.sentence
