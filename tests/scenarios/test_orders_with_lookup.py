"""The family whose orders are looked up in a table: its oracle, and its lookups in the simulation."""

from __future__ import annotations

import asyncio

from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Declared
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.simulated_io import FAILURES, SimulatedLookup
from onceproof.harness.trials.trial import try_scenario
from onceproof.scenarios.orders_with_lookup import CUSTOMERS, STRANGER, TRIES, expected

ORDERS = {"orders-0": [(0, (0, 1, 10)), (1, (1, 2, 20))], "orders-1": [(0, (1000, STRANGER, 5))]}


def test_orders_may_come_in_any_order() -> None:
    first = [("north", 1, 0, 10), ("north", 2, 1, 30), ("unknown", 1, 1000, 5)]
    second = [("north", 1, 1, 20), ("north", 2, 0, 30), ("unknown", 1, 1000, 5)]
    for rows in (first, second):
        assert sorted(expected(ORDERS, Declared(rows))) == rows


def test_rows_may_be_missing_before_the_end_alone() -> None:
    some = [("north", 1, 1, 20)]
    assert expected(ORDERS, Declared(some, is_whole=False)) == some
    assert len(expected(ORDERS, Declared(some))) == 3


def test_order_that_counts_twice_and_a_total_that_was_lost_follow_from_no_choice() -> None:
    twice = [("north", 1, 0, 10), ("north", 2, 0, 20), ("north", 3, 1, 40)]
    assert expected(ORDERS, Declared(twice, is_whole=False)) == [("north", 1, 0, 10), ("north", 2, 1, 30)]
    lost = [("north", 1, 0, 10), ("north", 1, 1, 20)]
    assert expected(ORDERS, Declared(lost, is_whole=False)) == [("north", 1, 0, 10), ("north", 2, 1, 30)]


def test_simulated_database_is_away_for_some_keys_at_first() -> None:
    assert FAILURES <= TRIES
    lookup = SimulatedLookup("customers", CUSTOMERS)

    async def failures(key: int) -> int:
        for failed in range(FAILURES + 1):
            try:
                assert await lookup.row_of(key) == (None if key == STRANGER else CUSTOMERS[key - 1])
            except DatabaseUnavailable:
                continue
            return failed
        raise AssertionError(f"{key} is never found")

    assert {asyncio.run(failures(key)) for key in range(1, STRANGER + 1)} == {0, FAILURES}


def test_scenarios_of_a_few_seeds_pass() -> None:
    family = load_family("orders_with_lookup")
    for index in range(25):
        scenario = generate(family, scenario_seed(7, family.name, index))
        verdict = try_scenario(family, scenario, twice=False, continued=index % 25 == 0).verdict
        assert verdict.passed, (scenario.seed, verdict)
