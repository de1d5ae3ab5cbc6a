"""An experiment on Spark: the same trials as without Spark, and the section in the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from pyarrow import parquet

from onceproof.harness.commands.sensitivity import document, experiment_of, report_in, study_trials
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import from_json
from onceproof.harness.sensitivity.experiment import REPLICATES, DesignedTrial, Experiment
from onceproof.harness.sensitivity.on_spark import run_experiment
from onceproof.harness.systems.simulation.cost_meter import MeasuredSystem
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.trial import run_scenario, try_scenario
from onceproof.reports.render import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAMILY = load_family("word_count")
SCENARIOS = 320


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return experiment_of(FAMILY, SCENARIOS, 7)


@pytest.fixture(scope="module")
def trials(spark: SparkSession, experiment: Experiment) -> list[DesignedTrial]:
    parts: list[float] = []
    found = run_experiment(spark, "word_count", experiment, parts.append)
    assert parts == sorted(parts)
    return found


def run_of(name: str = "word_count", seed: int = 7) -> RunResult:
    return RunResult((load_family(name),), (name,), seed, 2)


@pytest.mark.spark
def test_executors_return_the_same_trials_as_a_local_run(
    trials: list[DesignedTrial], experiment: Experiment
) -> None:
    assert [trial.number for trial in trials] == list(range(SCENARIOS))
    for number in (0, 5, 130, SCENARIOS - 1):
        scenario = experiment.scenario(FAMILY, number)
        outcome, history = run_scenario(FAMILY, scenario, MeasuredSystem())
        here = DesignedTrial.of(number, scenario, outcome, history)
        there = trials[number]
        assert there.scenario == scenario
        assert there.costs == here.costs
        assert replace(there.outcome, milliseconds=0.0) == replace(outcome, milliseconds=0.0)
    assert all(trial.outcome.passed and trial.outcome.kills == 1 for trial in trials)


@pytest.mark.spark
def test_the_report_names_the_parameters_that_drive_a_cost(
    trials: list[DesignedTrial], experiment: Experiment, tmp_path: Path
) -> None:
    studied = study_trials(run_of(), experiment, trials, tmp_path, None, command="onceproof sensitivity x")
    written = document(studied, tmp_path)
    assert (written["scenarios"], written["points"], written["failed"]) == (
        SCENARIOS,
        SCENARIOS // REPLICATES,
        0,
    )
    recovery, alignment = written["costs"]["recovery"], written["costs"]["alignment"]
    # Each subtask is restored in a step of its own, and a channel more is one more to wait for.
    assert recovery["explained"]
    assert max(recovery["total"], key=recovery["total"].get) == "parallelism"
    assert alignment["explained"]
    assert max(alignment["total"], key=alignment["total"].get) == "parallelism"
    # Word count knows no event time.
    for cost in (recovery, alignment):
        assert cost["first_order"]["disorder of timestamps"] < 0.05
    page = studied.page.read_text(encoding="utf-8")
    assert 'id="sensitivity"' in page
    assert "The parallelism drives this cost" in page
    assert read(tmp_path).facts.scenarios == SCENARIOS
    again = study_trials(run_of(), experiment, trials, tmp_path, None)
    assert document(again, tmp_path) == written


@pytest.mark.spark
def test_each_scenario_can_be_replayed_from_its_row(
    trials: list[DesignedTrial], experiment: Experiment, tmp_path: Path
) -> None:
    studied = study_trials(run_of(), experiment, trials, tmp_path, None)
    rows = parquet.read_table(studied.trials).to_pylist()
    assert len(rows) == SCENARIOS
    row = rows[17]
    scenario = from_json(row["scenario"])
    assert {name: row[name] for name in ("keys", "skew", "parallelism")} == {
        name: scenario.parameters[name] for name in ("keys", "skew", "parallelism")
    }
    statistics = try_scenario(FAMILY, scenario, system=MeasuredSystem()).history.statistics
    assert row["records_read_again"] == statistics.records_replayed
    assert row["recovery"] == statistics.recovery_steps
    assert row["alignment"] == statistics.alignment_steps


@pytest.mark.spark
def test_an_experiment_is_added_to_an_existing_report(
    trials: list[DesignedTrial], experiment: Experiment, tmp_path: Path
) -> None:
    study_trials(run_of(), experiment, trials, tmp_path, None)
    before = report_in(tmp_path)
    assert before is not None
    marked = replace(before, title="The report of a night")
    study_trials(run_of(), experiment, trials, tmp_path, marked)
    after = read(tmp_path)
    assert after.title == "The report of a night"
    assert after.families == before.families
    assert len(after.sensitivity) == 1
