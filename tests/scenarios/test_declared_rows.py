"""Oracles judge declared rows that no correct run gives, and do not raise."""

from __future__ import annotations

import pytest

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Declared, options_of
from onceproof.harness.model.family_places import family_names, load_family

DECLARING = [name for name in family_names() if options_of(load_family(name)).declares]
SEEDS = range(6)


@pytest.mark.parametrize("name", DECLARING)
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_row_with_a_value_missing_is_judged(name: str, is_whole: bool) -> None:
    family = load_family(name)
    for seed in SEEDS:
        scenario = generate(family, seed)
        records, parameters = scenario.records, scenario.parameters
        rows = list(family.expected(records, Declared(parameters=parameters)))
        for row in rows[:20]:
            for column in range(len(row)):
                broken = (*row[:column], None, *row[column + 1 :])
                family.expected(records, Declared([broken, *rows], is_whole, parameters))
