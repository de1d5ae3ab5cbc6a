"""A consumer takes the visible output of a simulated job away, and the engine knows what it has committed."""

from __future__ import annotations

from collections import Counter

import pytest

from onceproof.harness.checkers.situations import situations_of
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import FAULT_FIRED, TRANSACTION_VISIBLE
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.trial import Trial, try_scenario
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import find_mutant

FILES = load_family("files_rolling")
OBJECTS = load_family("objects_rolling")
BOTH = pytest.mark.parametrize("family", [FILES, OBJECTS], ids=lambda family: family.name)
SITUATION = "visible output taken away before a restore"
TAKEN = Fault("move_output", "committed", occurrence=1)
KILL = Fault("kill_process", "committed", occurrence=1)
"""It strikes as the next subtask commits: the pass at which the output is taken does not count."""


def scenario_of(family: Family, *faults: Fault) -> Scenario:
    return scenario_with(*faults, family=family.name)


def trial_of(family: Family, *faults: Fault, continued: bool = False) -> Trial:
    return try_scenario(family, scenario_of(family, *faults), continued=continued, twice=True)


def fired(trial: Trial) -> list[str]:
    return [event[2] for event in trial.history.events if event[1] == FAULT_FIRED]


def rows(trial: Trial) -> Counter[object]:
    shown = [event[3]["rows"] for event in trial.history.events if event[1] == TRANSACTION_VISIBLE]
    return Counter(row for each in shown for row in each)


@BOTH
def test_output_that_is_taken_away_before_a_restore_counts_once(family: Family) -> None:
    trial = trial_of(family, TAKEN, KILL, continued=True)
    assert trial.verdict.violations == ()
    assert fired(trial) == ["move_output", "kill_process"]
    assert trial.history.statistics.attempts == 2
    assert SITUATION in situations_of(trial.scenario, trial.history)
    calm = trial_of(family)
    assert rows(trial) == rows(calm)
    assert SITUATION not in situations_of(calm.scenario, calm.history)


@BOTH
def test_output_that_is_taken_away_again_and_again_counts_once(family: Family) -> None:
    taken = [Fault("move_output", "committed", occurrence=nth) for nth in (1, 1, 1, 3, 3)]
    trial = trial_of(family, *taken, KILL, Fault("kill_all", "committed", occurrence=3))
    assert trial.verdict.violations == ()
    assert fired(trial).count("move_output") > 2


@BOTH
@pytest.mark.parametrize("commit", ["fail_commit", "commit_error_after_success"])
def test_commit_that_fails_beside_the_consumer_is_repeated(family: Family, commit: str) -> None:
    faults = Fault(commit, "committing", occurrence=2), TAKEN, KILL  # type: ignore[arg-type]
    trial = trial_of(family, *faults)
    assert trial.verdict.violations == ()
    assert {commit, "move_output"} <= set(fired(trial))


def test_consumer_takes_no_notes_and_no_hidden_files() -> None:
    for family in (FILES, OBJECTS):
        world = World(family, scenario_of(family, TAKEN, KILL))
        world.run()
        files = [each for each in world.external.transactions.values() if each.key]
        assert any(each.is_taken for each in files)
        assert all(each.can_vanish and each.rows for each in files if each.is_taken)


def test_what_has_no_name_cannot_be_taken_away() -> None:
    """A transaction of the plain external system, a batch, a row of a table or a topic."""
    for name in ("word_count", "word_batches", "word_commits", "postgres_rows", "kafka_rows"):
        family = load_family(name)
        assert not any(
            fault.kind == "move_output" for seed in range(60) for fault in generate(family, seed).faults
        )
        scenario = generate(family, scenario_seed(3, name, 0))
        trial = try_scenario(family, scenario_of(family, TAKEN, KILL) if name == "word_count" else scenario)
        assert trial.verdict.passed
        assert "move_output" not in fired(trial)


@pytest.mark.parametrize(
    ("family", "mutant"),
    [(FILES, "file-that-was-taken-away-is-lost"), (OBJECTS, "object-that-was-taken-away-is-lost")],
    ids=["files", "objects"],
)
def test_commit_that_calls_what_was_taken_away_lost_is_found(family: Family, mutant: str) -> None:
    with find_mutant(mutant).applied():
        assert "no_error" in trial_of(family, TAKEN, KILL).verdict.failed_properties()
        assert trial_of(family, KILL).verdict.passed


@pytest.mark.parametrize("name", ["files_rolling", "objects_rolling", "objects_parquet"])
def test_drawn_scenarios_with_a_consumer_pass_and_restore_after_it(name: str) -> None:
    family, restored, tried = load_family(name), 0, 0
    for index in range(160):
        scenario = generate(family, scenario_seed(17, name, index))
        if not any(fault.kind == "move_output" for fault in scenario.faults):
            continue
        trial = try_scenario(family, scenario, continued=index % 3 == 0, twice=index % 3 == 1)
        assert trial.verdict.passed, (index, trial.verdict)
        tried += 1
        restored += SITUATION in situations_of(scenario, trial.history)
    assert 2 < tried < 20
    assert restored > 0
