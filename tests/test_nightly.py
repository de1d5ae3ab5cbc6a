"""The night of this project: the flights, and the planted bugs against their recorded kills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import pytest

from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.model.exit_codes import FAILED, NOTHING_RAN, PASSED
from onceproof.harness.model.mutants import Mutant
from onceproof.harness.nightly.night import Night
from onceproof.harness.reporting.progress import progress_bar
from onceproof.harness.trials.mutant_trials import Result
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.reports.headline import survivors
from onceproof.reports.model import Report
from onceproof.scenarios._year_of_flights import DataMissing, write_year
from tests import nightly
from tests.flights.plans import LOCAL
from tests.planted.catalogue import find_mutant
from tests.planted.kills import Kill, recorded_kills

RECORDED = "commit-before-completion"


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with progress_bar(None, None) as bar:
        plan = RunPlan(("word_count",), seed=7, out=tmp_path, command="python -m tests.nightly")
        night = Night(CampaignPlan(plan))
        night.bar = bar
        yield night


def planted(monkeypatch: pytest.MonkeyPatch, *mutants: Mutant, killed: bool = False) -> None:
    """Let planted bugs be measured in no time, and survive or die."""

    def measured(mutants: list[Mutant], *arguments: Any) -> Iterator[Result]:
        for mutant in mutants:
            name = "exactly_once" if killed else None
            yield Result(mutant.id, "", "exactly_once", True, killed, name, 500, None, 1.0)

    monkeypatch.setattr(nightly, "built_in_mutants", lambda: mutants)
    monkeypatch.setattr(nightly, "measure_all", measured)


def test_a_survivor_that_dies_in_its_recorded_scenario_is_no_news(
    night: Night, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, find_mutant(RECORDED))
    nightly.planted_bugs(night, recorded_kills())
    [mutant] = night.mutants
    assert (mutant.killed, mutant.scenarios) == (True, 501)
    assert mutant.property == "exactly_once"
    assert survivors(Report(mutants=tuple(night.mutants))) == ()
    assert "1 of 1 planted bug caught, 1 of them in the recorded scenario only" in capsys.readouterr().err


@pytest.mark.parametrize("kills", [{}, {RECORDED: Kill(family="no_such_family", index=0)}])
def test_a_survivor_that_no_recorded_scenario_kills_is_news(
    night: Night, monkeypatch: pytest.MonkeyPatch, kills: dict[str, Kill]
) -> None:
    planted(monkeypatch, find_mutant(RECORDED))
    nightly.planted_bugs(night, kills)
    [mutant] = night.mutants
    assert (mutant.killed, mutant.scenarios) == (False, 500)
    assert survivors(Report(mutants=tuple(night.mutants))) == (RECORDED,)


def test_a_recorded_scenario_that_kills_no_longer_makes_its_bug_news(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = replace(find_mutant(RECORDED), patches=find_mutant("FLINK-9269").patches)
    planted(monkeypatch, sound)
    # The scenario of the record has no list state, so this bug changes nothing in it.
    nightly.planted_bugs(night, {RECORDED: Kill(family="running_sum", index=1)})
    assert [mutant.killed for mutant in night.mutants] == [False]


def test_planted_bugs_end_with_their_time_where_enough_are_measured(
    night: Night, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, *[find_mutant(RECORDED)] * 30, killed=True)
    clock = count(0.0, nightly.MUTANT_SECONDS / 24.5)
    nightly.planted_bugs(night, {}, clock=lambda: next(clock))
    assert len(night.mutants) == 25
    assert night.shortfalls == []
    assert "25 of 25 planted bugs caught; no time for 5 more" in capsys.readouterr().err


@pytest.mark.parametrize(("seconds", "measured"), [(30.0, 20), (100.0, 10)])
def test_a_slow_machine_gets_more_time_for_planted_bugs_but_not_for_ever(
    night: Night, monkeypatch: pytest.MonkeyPatch, seconds: float, measured: int
) -> None:
    planted(monkeypatch, *[find_mutant(RECORDED)] * 30, killed=True)
    clock = count(0.0, seconds)
    nightly.planted_bugs(night, {}, clock=lambda: next(clock))
    assert len(night.mutants) == measured
    assert night.shortfalls == (["10 of 20 planted bugs were measured"] if measured == 10 else [])


def test_flights_that_are_not_installed_are_reported_for_each_runtime(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(folder: Path) -> list[Path]:
        raise DataMissing("the flights are not installed: make setup")

    night.session = None
    monkeypatch.setattr(nightly, "write_year", missing)
    [part, *_] = nightly.own_night(["--seed", "7"]).parts
    part.run(night)
    assert [real.name for real in night.real_inputs] == ["flights", "flights on Spark"]
    assert {real.error for real in night.real_inputs} == {"the flights are not installed: make setup"}


@pytest.mark.spark
@pytest.mark.local_kill
@pytest.mark.slow
def test_flights_of_a_part_of_the_year_are_counted_under_kills(
    night: Night, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def part_of_year(folder: Path) -> list[Path]:
        files = []
        for path in write_year(folder):
            files.append(folder / "part" / path.name)
            files[-1].parent.mkdir(exist_ok=True)
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            files[-1].write_text("".join(lines[:2001]), encoding="utf-8")
        return files

    night.session = spark
    monkeypatch.setattr(nightly, "write_year", part_of_year)
    plan = replace(LOCAL, interval_records=200, buffer_records=10)
    nightly.flights(night, {nightly.FOLDER_OF_FLIGHTS: plan})
    [real] = night.real_inputs
    assert (real.records, real.rows_expected, real.rows_different, real.error) == (6000, 6000, 0, "")
    assert (len(real.kills), real.rescales) == (12, 2)


def test_the_night_of_the_project_repeats_itself_with_its_own_command() -> None:
    own = nightly.own_night(["--seed", "7"])
    assert own.command == "python -m tests.nightly --seed 7"
    assert [part.name for part in own.parts] == ["flights", "programs", "planted bugs"]
    assert all(isinstance(part.run, partial) for part in own.parts)


def test_an_example_that_ends_otherwise_is_said(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(command: list[str], **options: Any) -> CompletedProcess[str]:
        return CompletedProcess(command, FAILED if "flink" in command[4] else PASSED, "", "a row is lost\n")

    monkeypatch.setattr(nightly, "subprocess", SimpleNamespace(run=ran))
    nightly.programs(night, {"spark/copies": (PASSED,), "flink/copies": (PASSED, NOTHING_RAN)})
    assert night.shortfalls == ["flink/copies ended with exit code 1 instead of 0: a row is lost"]
    assert all((nightly.EXAMPLES / f"{name}.toml").is_file() for name in nightly.PROGRAMS)
