"""A small nightly run: part of the year, one planted bug, a campaign of a few seconds."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from onceproof.engine.runtime.spark_session import SparkFailed
from onceproof.harness.campaign.pipeline import CampaignResult, run_campaign
from onceproof.harness.flights.data import DataMissing, write_year
from onceproof.harness.flights.plans import LOCAL, run_plan
from onceproof.harness.model.budget import Budget
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.mutants import find_mutant
from onceproof.harness.nightly import night as nightly
from onceproof.harness.nightly.night_history import NightHistory
from onceproof.harness.trials.mutant_trials import Result
from onceproof.harness.trials.runner import OUTCOMES, OutputUnwritable, RunResult
from onceproof.reports.headline import LEAST_SCENARIOS, conclude
from onceproof.reports.render import read

SOME_FAMILIES = ["page_windows", "tickets", "word_count"]
"""The families of a small night. The tests of the oracle judge all families on Spark."""


@pytest.fixture
def small(monkeypatch):
    """Replace the parts of a night by small ones without Spark."""

    @contextmanager
    def none(options, name):
        yield None

    def part_of_year(folder):
        files = []
        for path in write_year(folder):
            files.append(folder / "part" / path.name)
            files[-1].parent.mkdir(exist_ok=True)
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            files[-1].write_text("".join(lines[:2001]), encoding="utf-8")
        return files

    def empty(names, *, seed, **_):
        return CampaignResult(RunResult((), (), seed, 0))

    monkeypatch.setattr(nightly, "obtained_session", none)
    monkeypatch.setattr(nightly, "run_campaign", empty)
    monkeypatch.setattr(nightly, "write_year", part_of_year)
    monkeypatch.setattr(nightly, "built_in_mutants", lambda: (find_mutant("commit-before-completion"),))
    monkeypatch.setattr(nightly, "family_names", lambda: SOME_FAMILIES)
    monkeypatch.setattr(nightly, "usable_processors", lambda: 1)
    monkeypatch.setattr(nightly, "LOCAL", replace(LOCAL, interval_records=200, buffer_records=10))


@pytest.fixture
def smallest(small, monkeypatch):
    """A small night whose flights data are missing."""

    def missing(folder):
        raise DataMissing("the flights are not installed: make setup")

    monkeypatch.setattr(nightly, "write_year", missing)


@pytest.mark.spark
@pytest.mark.local_kill
@pytest.mark.slow
def test_passing_night_reports_flights_mutants_campaign_and_history(
    small, spark, tmp_path, monkeypatch, capsys
):
    @contextmanager
    def shared(options, name):
        yield spark

    monkeypatch.setattr(nightly, "obtained_session", shared)
    monkeypatch.setattr(nightly, "run_campaign", run_campaign)
    # Flights on Spark have their own test. Here the result of the local run stands in for them.
    flown = []

    def fly(plan, *arguments):
        flown.append(run_plan(plan, *arguments) if plan.master is None else flown[0])
        return flown[0]

    monkeypatch.setattr(nightly, "run_plan", fly)
    assert nightly.nightly(tmp_path, seconds=2, seed=7, junit=tmp_path / "junit.xml") == 0
    report = read(tmp_path)
    local, on_spark = report.real_inputs
    for real in (local, on_spark):
        assert (real.records, real.rows_expected, real.rows_different, real.error) == (6000, 6000, 0, "")
    assert (len(local.kills), local.rescales) == (12, 2)
    assert (on_spark.name, len(on_spark.kills)) == ("flights on Spark", 12)
    assert [mutant.killed for mutant in report.mutants] == [True]
    assert report.facts.scenarios > 0
    assert report.oracles is not None
    assert report.oracles.disagreed == 0
    [row] = NightHistory(tmp_path / "history", 9, print).read()
    assert (row.seed, row.status, row.scenarios) == (7, "passed", report.facts.scenarios)
    assert [family.family for family in row.families] == SOME_FAMILIES
    assert row.records_replayed_median == report.costs[0].median
    assert (row.mutants_tried, row.mutants_killed) == (1, 1)
    assert row.real_inputs[0].kills == 12
    assert (tmp_path / "index.html").is_file()
    assert (tmp_path / "campaign" / OUTCOMES).read_bytes().count(b"\n") == report.facts.scenarios
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.attrib["name"] for suite in suites] == [*SOME_FAMILIES, "planted_bugs", "run"]
    written = capsys.readouterr()
    assert "flights: 6,000 records under 12 kills, equal to the row" in written.out
    assert str(tmp_path / "index.html") in written.out
    assert "nightly run with seed 7" in written.err


def test_night_without_flights_data_fails_but_runs_the_other_parts(smallest, tmp_path, capsys):
    # The second night reads the first from the history.
    for _ in range(2):
        assert nightly.nightly(tmp_path, seconds=1) == 1
    report = read(tmp_path)
    assert [real.error for real in report.real_inputs] == ["the flights are not installed: make setup"] * 2
    # The campaign of this fixture is empty, and an empty campaign must not pass.
    assert report.problems == ("the campaign ran no scenario",)
    assert [mutant.killed for mutant in report.mutants] == [True]
    assert [night.status for night in report.nights] == ["failed", "failed"]
    assert len(list((tmp_path / "history").glob("*.parquet"))) == 2
    assert report.facts.command.startswith("onceproof nightly --seed ")
    assert "the flights are not installed" in capsys.readouterr().out


def test_night_gives_each_family_more_scenarios_than_a_sample_has(smallest, tmp_path, monkeypatch):
    asked = []

    def asking(names, *, seed, least_each, **_):
        asked.append(least_each)
        return CampaignResult(RunResult((), (), seed, 0))

    monkeypatch.setattr(nightly, "run_campaign", asking)
    nightly.nightly(tmp_path, seconds=1, seed=7)
    assert asked == [nightly.SCENARIOS_EACH]
    assert nightly.SCENARIOS_EACH >= LEAST_SCENARIOS


def test_surviving_mutant_is_measured_on_a_second_sample(smallest, tmp_path, monkeypatch):
    seeds = []

    def second_sample_catches(mutants, families, seed, **_):
        seeds.append(seed)
        for mutant in mutants:
            caught = len(seeds) == 2
            yield Result(mutant.id, "", "", True, caught, "exactly_once" if caught else None, 500, None, 1.0)

    monkeypatch.setattr(nightly, "measure_all", second_sample_catches)
    nightly.nightly(tmp_path, seconds=1, seed=7)
    [mutant] = read(tmp_path).mutants
    assert (mutant.killed, mutant.scenarios) == (True, 1000)
    assert seeds == [7, 8]


def test_mutants_after_the_time_limit_are_counted(smallest, tmp_path, monkeypatch, capsys):
    two = tuple(map(find_mutant, ("commit-before-completion", "FLINK-9263")))

    def slowly(mutants, *_, **__):
        for mutant in mutants:
            time.sleep(2 * nightly.MUTANT_SECONDS)
            yield Result(mutant.id, "", "", True, True, "exactly_once", 1, None, 1.0)

    monkeypatch.setattr(nightly, "built_in_mutants", lambda: two)
    monkeypatch.setattr(nightly, "MUTANT_SECONDS", 0.5)
    monkeypatch.setattr(nightly, "measure_all", slowly)
    nightly.nightly(tmp_path, seconds=1, seed=0)
    assert "1 of 1 planted bug caught; no time for 1 more" in capsys.readouterr().err


def test_interrupted_night_writes_its_report(small, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(nightly, "run_plan", interrupted)
    assert nightly.nightly(tmp_path, seconds=1, seed=1) == 130
    assert read(tmp_path).interrupted == "interrupted from the keyboard"


def test_a_night_whose_campaign_fails_writes_report_and_history(smallest, tmp_path, monkeypatch):
    def failing(*_, **__):
        raise SparkFailed("Spark could not run the campaign: a worker died")

    monkeypatch.setattr(nightly, "run_campaign", failing)
    with pytest.raises(SparkFailed):
        nightly.nightly(tmp_path, seconds=1, seed=1)
    reason = "campaign: Spark could not run the campaign: a worker died"
    report = read(tmp_path)
    assert reason in report.problems
    headline = conclude(report)
    assert (headline.status, reason in headline.reasons) == ("failed", True)
    [row] = NightHistory(tmp_path / "history", 9, print).read()
    assert (row.seed, row.status) == (1, "failed")


def test_a_night_begins_a_campaign_anew_and_in_the_budget(smallest, tmp_path, monkeypatch):
    asked = []

    def asking(names, *, seed, resumes, budget, **_):
        asked.append((resumes, budget.seconds))
        return CampaignResult(RunResult((), (), seed, 0))

    monkeypatch.setattr(nightly, "run_campaign", asking)
    nightly.nightly(tmp_path, seconds=1, seed=7, budget=Budget(5.0))
    assert asked == [(False, 5.0)]


def test_results_that_cannot_be_replaced_are_a_one_line_error(small, tmp_path):
    (tmp_path / "flights").write_text("a file where a folder should be")
    with pytest.raises(OutputUnwritable, match=r"flights: cannot be emptied: Not a directory"):
        nightly.nightly(tmp_path, seconds=1, seed=1)


def test_unwritable_history_is_reported_before_the_work_starts(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnwritable, match=r"file/history: the history of nights cannot be written to"):
        nightly.nightly(tmp_path / "file", seconds=1, seed=1)
    with pytest.raises(OutputUnwritable, match=r"file/nights: the history of nights cannot be written to"):
        nightly.nightly(tmp_path / "out", seconds=1, seed=1, history=tmp_path / "file" / "nights")
    assert not (tmp_path / "out").exists()


def test_history_write_error_at_the_end_fails_the_night_and_keeps_its_results(
    smallest, tmp_path, monkeypatch, capsys
):
    def full(self, row):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(NightHistory, "add", full)
    assert nightly.nightly(tmp_path, seconds=1, seed=1) == 1
    problem = f"{tmp_path}/history: the history of nights cannot be written to: No space left on device"
    assert problem in read(tmp_path).problems
    assert problem in capsys.readouterr().out


def test_mistake_in_a_family_is_reported_before_the_work_starts(small, tmp_path):
    (tmp_path / "broken.py").write_text("name =\n")
    with pytest.raises(FamilyError, match=r"broken.py:1: SyntaxError"):
        nightly.nightly(tmp_path / "out", seconds=1, seed=1, families=[str(tmp_path / "broken.py")])
    assert not (tmp_path / "out").exists()


def test_history_keeps_the_given_number_of_nights(smallest, tmp_path):
    for seed in range(3):
        nightly.nightly(tmp_path, seconds=1, seed=seed, history=tmp_path / "nights", keep=2)
    kept = NightHistory(tmp_path / "nights", 2, print).read()
    assert [row.seed for row in kept] == [1, 2]
    assert not (tmp_path / "history").exists()
