"""Trials as a query judges them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onceproof.harness.campaign.trial_tables import TriedScenario
from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.model.family import Declared, FamilyOptions, Records, Rows
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario


class Totals:
    """Adds up numbers in one row."""

    options = FamilyOptions(late="late")
    oracle_sql = "SELECT scenario_id, 'total', sum(number) FROM records GROUP BY 1"

    def expected(self, records: Records, declared: Declared) -> Rows:
        return [("total", sum(number for split in records.values() for _, number in split))]  # type: ignore[misc]


def tried(make_scenario: Callable[..., Scenario]) -> TriedScenario:
    scenario = make_scenario(records={"numbers": ((0, 1), (5, 2))})
    outcome = outcome_of(scenario, History(), Verdict(()))
    return TriedScenario(0, scenario, outcome, [("total", 1), ("total", 2)], True)


def test_a_query_gets_one_firing_where_the_checkers_have_confirmed_two(
    make_scenario: Callable[..., Scenario],
) -> None:
    family: Any = Totals()
    assert tried(make_scenario).for_query(family).committed == [("total", 3)]


def test_a_query_gets_the_visible_rows_of_a_family_without_late_ones(
    make_scenario: Callable[..., Scenario],
) -> None:
    family: Any = Totals()
    family.options = FamilyOptions(declares=True)
    assert tried(make_scenario).for_query(family).committed == [("total", 1), ("total", 2)]


@pytest.mark.parametrize("finished", [False, True])
def test_a_table_of_a_job_that_has_not_finished_may_show_earlier_rows(
    make_scenario: Callable[..., Scenario], finished: bool
) -> None:
    family: Any = Totals()
    family.options = FamilyOptions(table_keys=1, versions=lambda records: [("total", 1), ("total", 3)])
    trial = replace(tried(make_scenario), committed=[("total", 1)], finished=finished)
    assert trial.for_query(family).committed == ([("total", 1)] if finished else ())


def test_without_a_query_values_and_rows_are_kept_as_text(make_scenario: Callable[..., Scenario]) -> None:
    family: Any = Totals()
    family.oracle_sql = ""
    trial = tried(make_scenario).for_query(family)
    assert trial.committed == [("('total', 1)",), ("('total', 2)",)]
    assert trial.scenario.records == {"numbers": ((0, "1"), (5, "2"))}
