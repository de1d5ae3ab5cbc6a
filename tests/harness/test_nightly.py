"""A night in small: part of the year, one planted bug, a few seconds of campaign."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from harness import nightly
from harness.campaign.pipeline import CampaignResult, run_campaign
from harness.flights import trial as flights_trial
from harness.flights.data import DataMissing, write_year
from harness.mutants import find_mutant
from harness.running.runner import OutputUnwritable, RunResult
from reports.render import read


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
    monkeypatch.setattr(nightly, "usable_processors", lambda: 1)
    monkeypatch.setattr(flights_trial, "INTERVAL_RECORDS", 200)
    monkeypatch.setattr(flights_trial, "BUFFER_RECORDS", 10)


@pytest.mark.spark
@pytest.mark.local_kill
@pytest.mark.slow
def test_a_night_that_passes_tells_of_all_its_parts(small, spark, tmp_path, monkeypatch, capsys):
    @contextmanager
    def shared(name):
        yield spark

    monkeypatch.setattr(nightly, "spark_session", shared)
    monkeypatch.setattr(nightly, "run_campaign", run_campaign)
    assert nightly.nightly(tmp_path, seconds=10, seed=7) == 0
    report = read(tmp_path)
    [real] = report.real_inputs
    assert (real.records, real.rows_expected, real.rows_different, real.error) == (6000, 6000, 0, "")
    assert (len(real.kills), real.rescales) == (12, 2)
    assert [mutant.killed for mutant in report.mutants] == [True]
    assert report.facts.scenarios > 0
    assert report.oracles is not None
    assert report.oracles.disagreed == 0
    assert (tmp_path / "index.html").is_file()
    written = capsys.readouterr()
    assert "flights: 6,000 records under 12 kills, equal to the row" in written.out
    assert str(tmp_path / "index.html") in written.out
    assert "the night of seed 7" in written.err


def test_a_night_without_its_data_fails_and_does_the_rest(small, tmp_path, monkeypatch, capsys):
    def missing(folder):
        raise DataMissing("the flights are not installed: make setup")

    monkeypatch.setattr(nightly, "write_year", missing)
    # The second night knows the first, and the command that repeats it.
    for _ in range(2):
        assert nightly.nightly(tmp_path, seconds=1) == 1
    report = read(tmp_path)
    assert [real.error for real in report.real_inputs] == ["the flights are not installed: make setup"]
    # No more has the campaign, which is none here: a night that tried nothing must not pass.
    assert report.problems == ("the campaign came to no scenario",)
    assert [mutant.killed for mutant in report.mutants] == [True]
    assert len(report.nights) == 1
    assert report.facts.command.startswith("onceproof nightly --seed ")
    assert "the flights are not installed" in capsys.readouterr().out


def test_a_night_that_is_interrupted_keeps_what_was_done(small, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(nightly, "run_flights", interrupted)
    assert nightly.nightly(tmp_path, seconds=1, seed=1) == 130
    assert read(tmp_path).interrupted == "interrupted from the keyboard"


def test_a_folder_that_cannot_be_written_to_is_one_clear_line(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnwritable, match=r"file/flights: cannot be written to: Not a directory"):
        nightly.nightly(tmp_path / "file", seconds=1, seed=1)
