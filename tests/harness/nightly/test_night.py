"""A night in small: part of the year, one planted bug, a few seconds of campaign."""

from __future__ import annotations

import time
from contextlib import contextmanager
from unittest.mock import create_autospec
from xml.etree import ElementTree

import pytest

from onceproof.harness.campaign.pipeline import CampaignResult, run_campaign
from onceproof.harness.flights import on_local as flights_trial
from onceproof.harness.flights.data import DataMissing, write_year
from onceproof.harness.flights.on_local import run_flights
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.mutants import find_mutant
from onceproof.harness.nightly import night as nightly
from onceproof.harness.nightly.night_history import NightHistory
from onceproof.harness.trials.mutant_trials import Result
from onceproof.harness.trials.runner import OUTCOMES, OutputUnwritable, RunResult
from onceproof.reports.render import read

SOME_FAMILIES = ["page_windows", "tickets", "word_count"]
"""All that there are for a small night; that each family can be judged on Spark is for the oracle's tests."""


@pytest.fixture
def small(monkeypatch):
    """Little of everything, and no Spark."""

    @contextmanager
    def none(name):
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

    monkeypatch.setattr(nightly, "spark_session", none)
    monkeypatch.setattr(nightly, "run_campaign", empty)
    monkeypatch.setattr(nightly, "write_year", part_of_year)
    monkeypatch.setattr(nightly, "built_in_mutants", lambda: (find_mutant("commit-before-completion"),))
    monkeypatch.setattr(nightly, "family_names", lambda: SOME_FAMILIES)
    monkeypatch.setattr(nightly, "usable_processors", lambda: 1)
    monkeypatch.setattr(flights_trial, "INTERVAL_RECORDS", 200)
    monkeypatch.setattr(flights_trial, "BUFFER_RECORDS", 10)


@pytest.fixture
def smallest(small, monkeypatch):
    """A night that has no flights either."""

    def missing(folder):
        raise DataMissing("the flights are not installed: make setup")

    monkeypatch.setattr(nightly, "write_year", missing)


@pytest.mark.spark
@pytest.mark.local_kill
@pytest.mark.slow
def test_a_night_that_passes_tells_of_all_its_parts(small, spark, tmp_path, monkeypatch, capsys):
    @contextmanager
    def shared(name):
        yield spark

    monkeypatch.setattr(nightly, "spark_session", shared)
    monkeypatch.setattr(nightly, "run_campaign", run_campaign)
    # What comes of flights on Spark is for a test of their own: here they are the local ones once more.
    flown = []

    def fly(*arguments, **options):
        flown.append(run_flights(*arguments, **options))
        return flown[0]

    monkeypatch.setattr(nightly, "run_flights", fly)
    # They are asked for as the real ones would be.
    on_spark = create_autospec(nightly.run_flights_on_spark, side_effect=lambda *_, **__: flown[0])
    monkeypatch.setattr(nightly, "run_flights_on_spark", on_spark)
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
    assert "the night of seed 7" in written.err


def test_a_night_without_its_data_fails_and_does_the_rest(smallest, tmp_path, capsys):
    # The second night knows the first, and the command that repeats it.
    for _ in range(2):
        assert nightly.nightly(tmp_path, seconds=1) == 1
    report = read(tmp_path)
    assert [real.error for real in report.real_inputs] == ["the flights are not installed: make setup"] * 2
    # No more has the campaign, which is none here: a night that tried nothing must not pass.
    assert report.problems == ("the campaign came to no scenario",)
    assert [mutant.killed for mutant in report.mutants] == [True]
    assert [night.status for night in report.nights] == ["failed", "failed"]
    assert len(list((tmp_path / "history").glob("*.parquet"))) == 2
    assert report.facts.command.startswith("onceproof nightly --seed ")
    assert "the flights are not installed" in capsys.readouterr().out


def test_a_planted_bug_that_one_sample_does_not_catch_has_another(smallest, tmp_path, monkeypatch):
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


def test_planted_bugs_that_there_was_no_time_for_are_told(smallest, tmp_path, monkeypatch, capsys):
    two = tuple(map(find_mutant, ("commit-before-completion", "FLINK-9263")))

    def slowly(mutants, *_, **__):
        for mutant in mutants:
            time.sleep(2 * nightly.MUTANT_SECONDS)
            yield Result(mutant.id, "", "", True, True, "exactly_once", 1, None, 1.0)

    monkeypatch.setattr(nightly, "built_in_mutants", lambda: two)
    monkeypatch.setattr(nightly, "MUTANT_SECONDS", 0.5)
    monkeypatch.setattr(nightly, "measure_all", slowly)
    nightly.nightly(tmp_path, seconds=1, seed=0)
    assert "1 of 1 planted bug caught; there was no time for 1 more" in capsys.readouterr().err


def test_a_night_that_is_interrupted_keeps_what_was_done(small, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(nightly, "run_flights", interrupted)
    assert nightly.nightly(tmp_path, seconds=1, seed=1) == 130
    assert read(tmp_path).interrupted == "interrupted from the keyboard"


def test_what_is_left_of_the_last_night_that_cannot_be_replaced_is_one_clear_line(small, tmp_path):
    (tmp_path / "flights").write_text("a file where a folder should be")
    with pytest.raises(OutputUnwritable, match=r"flights: cannot be emptied: Not a directory"):
        nightly.nightly(tmp_path, seconds=1, seed=1)


def test_a_history_that_cannot_be_kept_is_told_before_anything_is_done(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnwritable, match=r"file/history: the history of nights cannot be written to"):
        nightly.nightly(tmp_path / "file", seconds=1, seed=1)
    with pytest.raises(OutputUnwritable, match=r"file/nights: the history of nights cannot be written to"):
        nightly.nightly(tmp_path / "out", seconds=1, seed=1, history=tmp_path / "file" / "nights")
    assert not (tmp_path / "out").exists()


def test_a_history_that_cannot_be_kept_in_the_end_fails_the_night_and_loses_nothing(
    smallest, tmp_path, monkeypatch, capsys
):
    def full(self, row):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(NightHistory, "add", full)
    assert nightly.nightly(tmp_path, seconds=1, seed=1) == 1
    told = f"{tmp_path}/history: the history of nights cannot be written to: No space left on device"
    assert told in read(tmp_path).problems
    assert told in capsys.readouterr().out


def test_a_family_with_a_mistake_is_told_before_anything_is_done(small, tmp_path):
    (tmp_path / "broken.py").write_text("name =\n")
    with pytest.raises(FamilyError, match=r"broken.py:1: SyntaxError"):
        nightly.nightly(tmp_path / "out", seconds=1, seed=1, families=[str(tmp_path / "broken.py")])
    assert not (tmp_path / "out").exists()


def test_only_so_many_nights_are_kept(smallest, tmp_path):
    for seed in range(3):
        nightly.nightly(tmp_path, seconds=1, seed=seed, history=tmp_path / "nights", keep=2)
    kept = NightHistory(tmp_path / "nights", 2, print).read()
    assert [row.seed for row in kept] == [1, 2]
    assert not (tmp_path / "history").exists()
