"""Drawn patterns: their runs pass under faults, and the draws have matches of each kind."""

from collections import Counter
from pathlib import Path
from random import Random

from onceproof.harness.model.family import Declared
from onceproof.harness.model.family_places import load_family
from tests.scenarios.passing_runs import passing_runs

FAMILY = str(Path(__file__).parents[2] / "scenarios" / "patterns" / "drawn_patterns.py")


def test_patterns_match_exactly_once_under_faults():
    transactions, _ = passing_runs(FAMILY, 12)
    assert transactions


def test_draws_have_matches_and_matches_out_of_time_for_each_way_to_skip():
    family = load_family(FAMILY)
    kinds = Counter()
    for seed in range(150):
        drawn = family.generate(Random(seed))
        for row in family.expected(drawn.records, Declared(parameters=drawn.parameters)):
            kinds[drawn.parameters["skip"], row[2]] += 1
    assert min(kinds.values()) > 10
    assert {kind for kind, _ in kinds} == {"no_skip", "skip_to_next", "skip_past_last_event"}
    assert kinds["no_skip", "timed out"]
