"""Runs whose numbers differ a little from the expected ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.tolerance import within_tolerance
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.explanation.sentences import sentence_of
from onceproof.harness.model.columns import OrderedBy
from onceproof.harness.model.family import (
    Declared,
    FamilyError,
    FamilyOptions,
    Records,
    Rows,
)
from onceproof.harness.model.history import History, Row
from onceproof.harness.model.job_settings import CheckpointMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from onceproof.harness.model.scenario import Scenario

EXPECTED: list[Row] = [("ant", 0.3), ("bee", 0.7), ("cat", 2)]
ROUNDED: list[Row] = [("ant", 0.1 + 0.2), ("bee", 0.7), ("cat", 2)]


class Means:
    row_schema = "name STRING, mean DOUBLE"

    def __init__(self, **tolerance: float) -> None:
        self.options = FamilyOptions(tolerance=tolerance)

    def expected(self, records: Records, declared: Declared) -> Rows:
        return EXPECTED


def history_of(rows: list[Row], *gone: Row) -> History:
    history = History()
    history.attempt_started(1, "1", 1, None, outside=True)
    history.rows_found(2, "look 1", "1", rows)
    if gone:
        history.rows_gone(3, "look 2", gone)
    history.job_finished(4)
    return history


def anomalies(scenario: Scenario, family: Means, rows: list[Row]) -> list[tuple[str, str]]:
    oracle = PythonOracle(family, scenario)
    verdict = judge(scenario, within_tolerance(history_of(rows), oracle), oracle)
    return [(each.property, each.anomaly) for each in verdict.violations]


def test_rounding_passes_with_a_tolerance(make_scenario: Callable[..., Scenario]) -> None:
    assert anomalies(make_scenario(), Means(mean=1e-9), ROUNDED) == []


def test_rounding_without_a_tolerance_is_a_near_miss(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario()
    assert anomalies(scenario, Means(), ROUNDED) == [("exactly_once", "near miss")]
    (found,) = ExactlyOnce().check(scenario, history_of(ROUNDED), PythonOracle(Means(), scenario))
    assert sentence_of(found) == (
        "A near miss: row (ant, 0.30000000000000004) is expected as (ant, 0.3) and differs by 5.6e-17 in mean"
        " only; 1 row in all. If such rounding is right, declare tolerance = { mean = 1e-9 }."
    )


def test_a_near_miss_at_least_once_is_one_as_well(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario(mode=CheckpointMode(barriers="at_least_once"))
    assert anomalies(scenario, Means(), ROUNDED) == [("mode", "near miss")]


@pytest.mark.parametrize("mean", [0.3001, 0.31, 3])
def test_a_difference_that_is_no_rounding_is_no_near_miss(
    make_scenario: Callable[..., Scenario], mean: float
) -> None:
    rows = [("ant", mean), *EXPECTED[1:]]
    for family in (Means(), Means(mean=1e-9)):
        assert anomalies(make_scenario(), family, rows) == [("exactly_once", "wrong value")]


def test_what_is_wrong_beside_rounding_comes_first(make_scenario: Callable[..., Scenario]) -> None:
    repeated = [*ROUNDED, ("ant", 0.3)]
    assert anomalies(make_scenario(), Means(), repeated) == [
        ("exactly_once", "duplicated"),
        ("exactly_once", "near miss"),
    ]
    assert anomalies(make_scenario(), Means(mean=1e-9), repeated) == [("exactly_once", "duplicated")]
    assert anomalies(make_scenario(), Means(mean=1e-9), ROUNDED[:1]) == [("exactly_once", "lost")]


def test_a_rounded_row_that_goes_is_hidden(make_scenario: Callable[..., Scenario]) -> None:
    scenario = make_scenario()
    oracle = PythonOracle(Means(mean=1e-9), scenario)
    history = within_tolerance(history_of([*ROUNDED, ROUNDED[0]], ROUNDED[0]), oracle)
    assert [each.anomaly for each in judge(scenario, history, oracle).violations] == ["hidden"]
    assert Mode().check(scenario, history, oracle) == ()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (FamilyOptions(tolerance={"meen": 1e-9}), "tolerance: no column 'meen'; did you mean mean?"),
        (
            FamilyOptions(ordered_by=OrderedBy(key=("id",))),
            "ordered_by: no column 'id'; there are name, mean",
        ),
        (
            FamilyOptions(ordered_by=OrderedBy(), declares=True),
            "ordered_by: rows that a run declares need the column by which they ascend: 'ascending'",
        ),
    ],
)
def test_a_column_that_rows_do_not_have_is_a_problem(options: FamilyOptions, problem: str) -> None:
    assert list(options.wrong_columns(("name", "mean"))) == [problem]


@pytest.mark.parametrize("amount", [0, 1, -1e-9, True, "1e-9", float("nan")])
def test_a_tolerance_is_between_0_and_1(amount: object) -> None:
    with pytest.raises(FamilyError, match="'tolerance' in FamilyOptions must be by column a number above 0"):
        FamilyOptions(tolerance={"mean": amount})  # type: ignore[dict-item]
