"""Nights with small campaigns, and with campaigns that stand in for those of slow machines."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from onceproof.engine.runtime.spark_session import SparkFailed
from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.campaign.pipeline import CampaignResult, run_campaign
from onceproof.harness.commands.cli import main
from onceproof.harness.model.exit_codes import INTERRUPTED, NOTHING_RAN
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.nightly import night as nightly
from onceproof.harness.nightly.night import NightPlan, Part
from onceproof.harness.nightly.night_history import NightHistory
from onceproof.harness.trials.minimums import KILLS, SCENARIOS, Minimums
from onceproof.harness.trials.output_files import OUTCOMES, OutputUnwritable
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult, run
from onceproof.reports.headline import LEAST_SCENARIOS, conclude, untested_texts
from onceproof.reports.model import RealInput
from onceproof.reports.render import read

FAMILIES = ("page_windows", "tickets", "word_count")


@pytest.fixture
def without_spark(monkeypatch):
    """Start no Spark, and run a campaign without a scenario."""

    @contextmanager
    def none(options, name):
        yield None

    def empty(plan, *_):
        return CampaignResult(RunResult((), (), plan.run.seed, 0))

    monkeypatch.setattr(nightly, "obtained_session", none)
    monkeypatch.setattr(nightly, "run_campaign", empty)


def night(out, families=("word_count",), minimums=Minimums(), run=(), **options):  # noqa: B008
    plan = RunPlan(tuple(families), out=out, max_time=1, **{"seed": 7, **dict(run)})
    campaign = CampaignPlan(plan, minimums=minimums, resumes=False)
    return nightly.nightly(NightPlan(campaign, **options))


def campaign_of(monkeypatch, families, scenarios):
    """Let a run of some scenarios stand in for the campaign."""

    def campaign(plan, *_):
        return CampaignResult(run(RunPlan(families, scenarios=scenarios, seed=plan.run.seed, workers=1)))

    monkeypatch.setattr(nightly, "run_campaign", campaign)


@pytest.mark.spark
def test_a_night_extends_its_campaign_until_it_has_reached_its_minimums(
    without_spark, spark, tmp_path, monkeypatch, capsys
):
    @contextmanager
    def shared(options, name):
        yield spark

    # Each look at the clock takes half a minute, so that the first wave uses up the time of the campaign.
    hours = itertools.count(2e9, 30.0)
    monkeypatch.setattr(nightly, "obtained_session", shared)
    monkeypatch.setattr(nightly, "run_campaign", partial(run_campaign, clock=lambda: next(hours)))
    minimums = Minimums(scenarios=12, kills=3, limit_seconds=1e6)
    assert night(tmp_path, FAMILIES, minimums, {"junit": tmp_path / "junit.xml"}) == 0
    report = read(tmp_path)
    had = [family.scenarios for family in report.families]
    assert min(had) >= 12
    assert max(had) - min(had) <= 1
    assert report.shortfalls == ()
    assert report.oracles is not None
    assert report.oracles.disagreed == 0
    # Python alone judges what is at least once.
    assert 0.7 < report.oracles.scenarios / report.facts.scenarios <= 1
    [row] = NightHistory(tmp_path / "history", 9, print).read()
    assert (row.seed, row.status, row.scenarios) == (7, "passed", report.facts.scenarios)
    assert [family.family for family in row.families] == list(FAMILIES)
    assert (tmp_path / "campaign" / OUTCOMES).read_bytes().count(b"\n") == report.facts.scenarios
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.attrib["name"] for suite in suites] == [*FAMILIES, "run"]
    written = capsys.readouterr()
    assert f"3 families: {min(had)}" in written.out
    assert str(tmp_path / "index.html") in written.out
    assert "nightly run with seed 7" in written.err

    # Where the limit is over with the time of the campaign, nothing is extended.
    minimums = Minimums(scenarios=10_000, limit_seconds=1.0)
    assert night(tmp_path, FAMILIES, minimums=minimums) == NOTHING_RAN
    assert 0 < read(tmp_path).facts.scenarios < 30_000


def test_a_night_that_ran_too_little_ends_with_5_and_says_what_is_missing(
    without_spark, tmp_path, monkeypatch, capsys
):
    campaign_of(monkeypatch, ("tickets", "word_count"), 5)
    assert night(tmp_path, minimums=Minimums(SCENARIOS, KILLS)) == NOTHING_RAN
    report = read(tmp_path)
    headline = conclude(report)
    assert (headline.status, headline.word) == ("empty", "Too little ran")
    said = headline.sentence
    assert said.startswith("2 families had under 100 scenarios: word_count 2 and tickets 3; ")
    assert "properties had under 20 kills: " in said
    assert "5 scenarios in 2 families" in said
    assert f"Too little ran. {said}" in capsys.readouterr().out
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Too little ran" in page
    assert "2 families had under 100 scenarios: word_count 2 and tickets 3" in page
    # It counts as a night: the trend shows that it ran little.
    [row] = NightHistory(tmp_path / "history", 9, print).read()
    assert (row.status, row.scenarios) == ("empty", 5)


def test_a_night_that_has_reached_its_minimums_passes(without_spark, tmp_path, monkeypatch):
    campaign_of(monkeypatch, ("word_count",), 60)
    assert night(tmp_path, minimums=Minimums(60, 0)) == 0
    assert conclude(read(tmp_path)).status == "passed"
    assert SCENARIOS >= LEAST_SCENARIOS


def test_a_failure_counts_more_than_what_is_missing(without_spark, tmp_path, monkeypatch):
    family = tmp_path / "wrong.py"
    text = Path(load_family("word_count").__file__).read_text(encoding="utf-8")
    family.write_text(text.replace("def expected(", "def expected(*_):\n    return []\n\n\ndef former("))
    campaign_of(monkeypatch, (str(family),), 2)
    assert night(tmp_path / "out", minimums=Minimums(SCENARIOS, KILLS)) == 1


def test_a_campaign_without_a_scenario_is_too_little(without_spark, tmp_path):
    for _ in range(2):
        assert night(tmp_path, minimums=Minimums(SCENARIOS, KILLS)) == NOTHING_RAN
    # Nothing is known of that night.
    assert read(tmp_path).nights == ()


def test_parts_of_a_night_run_before_the_campaign_and_stand_in_its_report(
    without_spark, tmp_path, monkeypatch, capsys
):
    campaign_of(monkeypatch, ("word_count",), 60)
    flights = RealInput(name="flights", records=9, rows_expected=3, rows_actual=3)

    def fly(night):
        assert (night.plan.out, night.plan.seed) == (tmp_path, 7)
        night.real_inputs.append(flights)

    def lack(night):
        night.shortfalls.append("2 of 20 planted bugs were measured")

    def fail(night):
        raise SparkFailed("a worker died")

    passing = {"parts": [Part("flights", fly)]}
    assert night(tmp_path, **passing) == 0
    assert read(tmp_path).real_inputs == (flights,)
    assert "flights: 9 records under 0 kills, equal to the row" in capsys.readouterr().out
    assert night(tmp_path, **passing | {"parts": [Part("bugs", lack)]}) == NOTHING_RAN
    assert conclude(read(tmp_path)).sentence.startswith("2 of 20 planted bugs were measured. 60 scenarios")
    # A part that fails does not stop the others.
    with pytest.raises(SparkFailed):
        night(tmp_path, **passing | {"parts": [Part("bugs", fail), Part("flights", fly)]})
    report = read(tmp_path)
    assert report.problems[-1] == "bugs: a worker died"
    assert report.real_inputs == (flights,)
    assert report.facts.scenarios == 60


def test_a_night_without_a_seed_draws_one_and_its_command_repeats_it(monkeypatch):
    plans = []
    monkeypatch.setattr(nightly, "nightly", lambda plan: plans.append(plan.campaign.run) or 0)
    own = nightly.OwnNight("python -m own", ())
    assert (main(["nightly"], own), main(["nightly"], own)) == (0, 0)
    assert [plan.command for plan in plans] == [f"python -m own --seed {plan.seed}" for plan in plans]
    assert plans[0].seed != plans[1].seed


def test_interrupted_night_writes_its_report(without_spark, tmp_path):
    def interrupted(night):
        raise KeyboardInterrupt

    assert night(tmp_path, parts=[Part("flights", interrupted)]) == INTERRUPTED
    assert read(tmp_path).interrupted == "interrupted from the keyboard"


def test_a_night_whose_campaign_fails_writes_report_and_history(without_spark, tmp_path, monkeypatch):
    def failing(*_, **__):
        raise SparkFailed("Spark could not run the campaign: a worker died")

    monkeypatch.setattr(nightly, "run_campaign", failing)
    with pytest.raises(SparkFailed):
        night(tmp_path, run={"seed": 1})
    reason = "campaign: Spark could not run the campaign: a worker died"
    report = read(tmp_path)
    assert reason in report.problems
    headline = conclude(report)
    assert (headline.status, reason in headline.reasons) == ("failed", True)
    [row] = NightHistory(tmp_path / "history", 9, print).read()
    assert (row.seed, row.status) == (1, "failed")


def test_a_night_begins_a_campaign_anew_and_in_the_budget(without_spark, tmp_path, monkeypatch):
    asked = []

    def asking(plan, *_):
        asked.append((plan.resumes, plan.run.budget.seconds))
        return CampaignResult(RunResult((), (), plan.run.seed, 0))

    monkeypatch.setattr(nightly, "run_campaign", asking)
    night(tmp_path, run={"budget": Budget(5.0)})
    assert asked == [(False, 5.0)]


def test_unwritable_history_is_reported_before_the_work_starts(without_spark, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputUnwritable, match=r"file/history: the history of nights cannot be written to"):
        night(tmp_path / "file")
    with pytest.raises(OutputUnwritable, match=r"file/nights: the history of nights cannot be written to"):
        night(tmp_path / "out", history=tmp_path / "file" / "nights")
    assert not (tmp_path / "out").exists()


def test_history_write_error_at_the_end_fails_the_night_and_keeps_its_results(
    without_spark, tmp_path, monkeypatch, capsys
):
    campaign_of(monkeypatch, ("word_count",), 2)

    def full(self, row):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(NightHistory, "add", full)
    assert night(tmp_path, run={"seed": 1}) == 1
    problem = f"{tmp_path}/history: the history of nights cannot be written to: No space left on device"
    assert problem in read(tmp_path).problems
    assert problem in capsys.readouterr().out


def test_mistake_in_a_family_is_reported_before_the_work_starts(without_spark, tmp_path):
    (tmp_path / "broken.py").write_text("name =\n")
    with pytest.raises(FamilyError, match=r"broken.py:1: SyntaxError"):
        night(tmp_path / "out", [str(tmp_path / "broken.py")])
    assert not (tmp_path / "out").exists()


def test_history_keeps_the_given_number_of_nights(without_spark, tmp_path, monkeypatch):
    campaign_of(monkeypatch, ("word_count",), 2)
    for seed in range(3):
        night(tmp_path, run={"seed": seed}, history=tmp_path / "nights", keep=2)
    kept = NightHistory(tmp_path / "nights", 2, print).read()
    assert [row.seed for row in kept] == [1, 2]
    assert not (tmp_path / "history").exists()


def test_jobs_of_one_program_are_families_of_a_night_with_known_failures(
    without_spark, tmp_path, monkeypatch, capsys
):
    (tmp_path / "job.py").write_text(
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "kept = []\n"
        "env.from_collection([1, 2, 3]).map(lambda number: kept.append(number) or len(kept)).print()\n"
        "env.execute('lengths')\n"
        "env.from_collection([1, 2, 3]).map(lambda number: number + 1).print()\n"
        "env.execute('next numbers')\n"
    )
    known = "[[tool.onceproof.known]]\nfamily = 'job'\nproperty = 'exactly_once'\nanomaly = 'wrong value'\n"
    families = ["job.py", "job.py?job=next+numbers"]
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.onceproof]\nfamilies = {families}\nleast_scenarios = 9\nleast_kills = 0\n{known}"
    )
    monkeypatch.chdir(tmp_path)
    campaign_of(monkeypatch, tuple(families), 18)
    assert main(["nightly", "--seed", "5"]) == 0
    assert "known job: exactly_once, wrong value" in capsys.readouterr().out
    report = read(tmp_path / "reports" / "out")
    assert any("judged by its own runs" in text for text in untested_texts(report))
    assert {each.family: each.scenarios for each in report.families} == {"job": 9, "job-next-numbers": 9}
