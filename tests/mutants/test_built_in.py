"""Every planted bug is found by the scenarios of one fixed seed, and what finds it is small.

A mutant that survives here is a hole in the generator, the simulation or the checkers, and is closed there:
its budget is not raised, and its bug is not made coarser.
"""

from __future__ import annotations

import pytest

from onceproof.harness.checkers import CONTINUATIONS, PROPERTIES
from onceproof.harness.model.family import Family, family_names, load_family
from onceproof.harness.model.mutants import Mutant, built_in_mutants, find_mutant
from onceproof.harness.trials.mutant_trials import SCENARIOS, Result, measure

SEED = 2
MOST_RECORDS = 6
MOST_FAULTS = 2
AMPLE_SECONDS = 120.0
"""It takes one to ten seconds; on a slow or busy machine the search for a small one must not be cut off."""

MUTANTS = built_in_mutants()
MANDATORY = (
    "commit-before-completion",
    "offsets-missing",
    "barrier-does-not-block",
    "pending-dropped-on-restore",
    "key-groups-cut-unevenly",
    "FLINK-9269",
    "old-attempt-acknowledges",
    "second-commit-writes-again",
)
"""One mutant for each kind of failure of such an engine."""


@pytest.fixture(scope="module")
def families() -> list[Family]:
    return [load_family(name) for name in family_names()]


def check_killed(result: Result) -> None:
    assert result.reached
    assert result.killed
    assert result.property in (*PROPERTIES, *CONTINUATIONS)


@pytest.mark.parametrize(
    "each", [each for each in MUTANTS if each.id not in MANDATORY], ids=lambda each: each.id
)
def test_a_planted_bug_is_reached_and_killed(each: Mutant, families: list[Family]) -> None:
    check_killed(measure(each, families, SEED, SCENARIOS, shrink_seconds=0))


@pytest.mark.parametrize("mutant_id", MANDATORY)
def test_the_scenario_that_kills_a_mandatory_mutant_is_small(mutant_id: str, families: list[Family]) -> None:
    result = measure(find_mutant(mutant_id), families, SEED, SCENARIOS, shrink_seconds=AMPLE_SECONDS)
    check_killed(result)
    assert result.shrunk is not None
    assert result.shrunk.records <= MOST_RECORDS
    assert result.shrunk.faults <= MOST_FAULTS


def test_each_mutant_names_its_property_and_its_bug() -> None:
    assert len(MUTANTS) >= 14
    for each in MUTANTS:
        assert each.breaks in (*PROPERTIES, *CONTINUATIONS)
        assert each.summary[0].islower()
        assert not each.summary.endswith(".")
        assert each.patches.__doc__
