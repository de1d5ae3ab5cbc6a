"""Every planted bug is found by the scenarios of one fixed seed, and what finds it is small.

The recorded scenario of a mutant is tried first; where it kills no longer, all scenarios of the seed are.
A mutant that survives here is a hole in the generator, the simulation or the checkers, and is closed there:
its budget is not raised, and its bug is not made coarser. Those of which it is known that no scenario shows
them are not tried; they are named in harness/docs/power.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from onceproof.harness.checkers import CONTINUATIONS, PROPERTIES
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.mutants import Mutant
from onceproof.harness.shrinking.shrinker import MOST_RUNS
from onceproof.harness.trials.mutant_trials import SCENARIOS, Result, measure
from tests.conftest import KILLED_ELSEWHERE
from tests.planted.catalogue import built_in_mutants, find_mutant
from tests.planted.kills import SEED, kill_of, recorded_kills, tried_where_recorded

MOST_RECORDS = 6
MOST_FAULTS = 2

ROOT = Path(__file__).parents[2]

Recorder = Callable[[str, object], None]

MUTANTS = [each for each in built_in_mutants() if not each.unseen]
KILLS = recorded_kills()
SHRUNK = ("commit-before-completion", "pending-dropped-on-restore", "second-commit-writes-again")
"""Mutants that show how small a failure gets. All sizes: ``python -m tests.planted.shrunk_sizes``."""

FROM_TRACKERS = (
    "repeated_recoveries",
    "ends_of_subtasks",
    "ends_of_jobs",
    "late_answers",
    "restored_windows",
    "restored_state",
    "starting_points",
    "barriers_and_notices",
    "due_times",
    "answers_and_watermarks",
    "open_transactions",
    "positions",
    "files_of_databases",
    "pending_and_restored",
    "times_and_targets",
    "restarts_and_sweeps",
    "splits_and_windows",
    "joins_and_stops",
    "orders_and_names",
)
"""The themes whose bugs all stand in the list of origins."""


@pytest.fixture(scope="module")
def families() -> list[Family]:
    return [load_family(name) for name in family_names()]


def found(each: Mutant, families: list[Family], record_property: Recorder, shrink_runs: int = 0) -> Result:
    """Return how a planted bug dies: in its recorded scenario, otherwise in the first one that kills it."""
    result = tried_where_recorded(each, KILLS.get(each.id), shrink_runs)
    if result is None:
        record_property(KILLED_ELSEWHERE, each.id)
        result = measure(each, families, SEED, SCENARIOS, shrink_runs)
    return result


def check_killed(result: Result) -> None:
    assert result.reached
    assert result.killed
    assert result.property in (*PROPERTIES, *CONTINUATIONS)


@pytest.mark.parametrize(
    "each", [each for each in MUTANTS if each.id not in SHRUNK], ids=lambda each: each.id
)
def test_a_planted_bug_is_reached_and_killed(
    each: Mutant, families: list[Family], record_property: Recorder
) -> None:
    check_killed(found(each, families, record_property))


@pytest.mark.parametrize("mutant_id", SHRUNK)
def test_the_scenario_that_kills_a_planted_bug_is_shrunk(
    mutant_id: str, families: list[Family], record_property: Recorder
) -> None:
    result = found(find_mutant(mutant_id), families, record_property, shrink_runs=MOST_RUNS)
    check_killed(result)
    assert result.shrunk is not None
    assert result.shrunk.records <= MOST_RECORDS
    assert result.shrunk.faults <= MOST_FAULTS


def test_recorded_kill_is_named_by_the_number_of_its_scenario(families: list[Family]) -> None:
    each = find_mutant("FLINK-9269")
    result = measure(each, families, SEED, SCENARIOS, shrink_runs=0)
    again = tried_where_recorded(each, kill_of(result, each, families), 0)
    assert again is not None
    assert again.killing is not None
    assert result.killing is not None
    assert again.killing.scenario == result.killing.scenario


def test_each_mutant_names_its_property_and_its_bug() -> None:
    assert len(MUTANTS) >= 14
    for each in built_in_mutants():
        assert each.breaks in (*PROPERTIES, *CONTINUATIONS)
        assert each.summary[0].islower()
        assert not each.summary.endswith(".")
        assert each.patches.__doc__


def test_what_no_scenario_shows_is_named_with_the_reason() -> None:
    unseen = [each for each in built_in_mutants() if each.unseen]
    text = (ROOT / "harness" / "docs" / "power.md").read_text()
    _, _, known = text.partition("## Not seen")
    for each in unseen:
        assert f"`{each.id}`" in known, each.id


def test_each_planted_bug_of_a_tracker_is_in_the_list_of_origins() -> None:
    text = Path(__file__).with_name("origins.md").read_text()
    listed = dict(re.findall(r"^\| (\S+) \|.*\| `([^`|]+)` \|$", text, flags=re.MULTILINE))
    ids = {each.id for each in built_in_mutants()}
    assert set(listed.values()) <= ids
    for each in built_in_mutants():
        if each.module.rpartition(".")[2] in FROM_TRACKERS:
            assert listed[each.origin] == each.id
