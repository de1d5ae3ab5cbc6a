"""Campaigns that lose a worker, trials, a driver or room on the disk, and how they say so and resume."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import msgspec
import pytest

from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.campaign.executor import FamilySource
from onceproof.harness.campaign.file_stores import store_of
from onceproof.harness.campaign.trial_files import TrialsLost
from onceproof.harness.campaign.trial_store import TrialStore, manifest_of
from onceproof.harness.model.exit_codes import USAGE, exit_code_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.services.object_store_server import BUCKET
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceproof.harness.campaign.pipeline import CampaignResult

pytestmark = pytest.mark.spark

WORD_COUNT = Path(__file__).parents[3] / "scenarios" / "word_count.py"
FIRST_LINE = "    chance = Chance(random)\n"
SCENARIOS = 120


def campaign(spark: SparkSession, family: str | Path, **options: Any) -> CampaignResult:
    from onceproof.harness.campaign.pipeline import run_campaign

    plan = RunPlan((str(family),), **{"scenarios": SCENARIOS, **options})
    return run_campaign(CampaignPlan(plan), spark)


def poisoned(folder: Path) -> Path:
    """Write a family with a few scenarios that abort their process."""
    path = folder / "poisoned.py"
    text = WORD_COUNT.read_text(encoding="utf-8").replace('name = "word_count"', 'name = "poisoned"')
    evil = f"{FIRST_LINE}    if chance.integer(1, 60) == 1:\n        import os\n        os.abort()\n"
    assert FIRST_LINE in text
    path.write_text(text.replace(FIRST_LINE, evil), encoding="utf-8")
    return path


def test_a_family_that_aborts_its_workers_ends_no_campaign(spark: SparkSession, tmp_path: Path) -> None:
    family = poisoned(tmp_path)
    # The same scenarios as in a run, with the same outcomes.
    plain = run(RunPlan((str(family),), scenarios=SCENARIOS, workers=2))
    assert 0 < plain.tally.failed < 12
    result = campaign(spark, family, out=tmp_path / "out", budget=Budget(20.0))
    tally = result.run.tally
    assert (tally.scenarios, tally.failed, result.judged) == (SCENARIOS, plain.tally.failed, SCENARIOS)
    assert result.disagreements == []
    [group] = tally.groups.values()
    assert group.signature == ("no_error", "its process died: SIGABRT")
    assert tally.trace_hash() == plain.tally.trace_hash()
    assert group.first.seed in {scenario_seed(0, "poisoned", number) for number in range(SCENARIOS)}


def parts(folder: Path) -> list[Path]:
    return sorted((folder / "trials" / "parts").glob("part-*"))


def after_the_wave(monkeypatch: pytest.MonkeyPatch, harm: Any) -> None:
    """Do harm once, after the executors have answered and before Spark SQL judges."""
    from onceproof.harness.campaign.judge import Judgement

    judge, harms = Judgement.run, [harm]

    def harmed(self: Judgement, session: SparkSession) -> Any:
        while harms:
            harms.pop()()
        return judge(self, session)

    monkeypatch.setattr(Judgement, "run", harmed)


def test_trials_that_are_gone_are_not_judged_and_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceproof.harness.campaign.pipeline import CampaignStopped

    deleted: list[str] = []

    def delete_all_but_one() -> None:
        for path in parts(tmp_path)[1:]:
            deleted.append(path.name)
            path.unlink()

    after_the_wave(monkeypatch, delete_all_but_one)
    with pytest.raises(CampaignStopped) as stopped:
        campaign(spark, "word_count", out=tmp_path)
    mistake = stopped.value.mistake
    assert isinstance(mistake, TrialsLost)
    assert exit_code_of(mistake) == USAGE
    assert "\n" not in str(mistake)
    assert any(name in str(mistake) for name in deleted)
    assert "was written and is gone" in str(mistake)
    assert stopped.value.campaign.judged == 0

    again = campaign(spark, "word_count", out=tmp_path)
    assert 0 < again.resumed < SCENARIOS
    assert (again.judged, again.run.tally.scenarios, again.passed) == (SCENARIOS, SCENARIOS, True)


def test_trials_that_vanish_while_they_are_judged_are_no_mistake_of_the_sql(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceproof.harness.campaign import judge
    from onceproof.harness.campaign.pipeline import CampaignStopped

    table_in = judge.table_in

    def vanishing(*arguments: Any) -> Any:
        table = table_in(*arguments)
        parts(tmp_path)[0].unlink()
        return table

    monkeypatch.setattr(judge, "table_in", vanishing)
    with pytest.raises(CampaignStopped, match="was written and is gone") as stopped:
        campaign(spark, "word_count", scenarios=20, out=tmp_path)
    assert isinstance(stopped.value.mistake, TrialsLost)


def test_outcomes_that_are_gone_fail_the_campaign_by_number(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceproof.harness.campaign.pipeline import CampaignStopped

    def shorten() -> None:
        path = tmp_path / "outcomes.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-20]))

    after_the_wave(monkeypatch, shorten)
    with pytest.raises(
        CampaignStopped, match="holds 100 outcomes of 120 scenarios, and Spark SQL has judged"
    ):
        campaign(spark, "word_count", out=tmp_path)


def test_a_full_disk_keeps_what_was_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceproof.harness.campaign.pipeline import CampaignStopped
    from onceproof.harness.trials.output_files import OutcomeFile

    monkeypatch.setattr("onceproof.harness.campaign.pace.LARGEST_WAVE", 50)
    write, waves = OutcomeFile.write, []

    def full(self: OutcomeFile, lines: Any) -> None:
        waves.append(1)
        if len(waves) > 1:
            raise OutputUnwritable(f"{self.path}: cannot be written: No space left on device")
        write(self, lines)

    with monkeypatch.context() as patched:
        patched.setattr(OutcomeFile, "write", full)
        with pytest.raises(CampaignStopped, match="No space left"):
            campaign(spark, "word_count", out=tmp_path)
    again = campaign(spark, "word_count", out=tmp_path)
    # The second wave is there, and of the one that ran beside it what its tasks have written.
    assert again.resumed >= 85
    assert (again.judged, again.run.tally.scenarios, again.passed) == (SCENARIOS, SCENARIOS, True)
    plain = run(RunPlan(("word_count",), scenarios=SCENARIOS, workers=1))
    assert again.run.tally.trace_hash() == plain.tally.trace_hash()


@pytest.mark.slow
def test_executors_write_to_an_object_store(tmp_path: Path, object_store: object) -> None:
    store = f"s3://{BUCKET}/trials-{os.urandom(4).hex()}"
    command = [sys.executable, "-m", "onceproof", "campaign", "word_count", "--scenarios", "12"]
    command += ["--out", "out", "--store", store]
    # Processes of their own: the workers of a session that runs already do not know the server's address.
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    # What is at least once, Python alone judges.
    assert re.search(r"agree on 1[012] scenarios", ended.stdout), ended.stdout
    assert len((tmp_path / "out" / "outcomes.jsonl").read_bytes().splitlines()) == 12
    assert not (tmp_path / "out" / "trials").exists()
    try:
        files = store_of(store)
        assert msgspec.json.decode(files.read("campaign.json"))["is_finished"]
        assert all(name.startswith("part-") for name in files.below("parts").names())
        files.write("mine.csv", b"mine")
        files.delete("campaign.json")
        family = load_family("word_count")
        trials = TrialStore(store, manifest_of([family], [FamilySource(family.name)], 0, 12))
        with pytest.raises(OutputUnwritable, match=r"holds 'mine\.csv', which no campaign has written"):
            trials.resumes()
    finally:
        # The client of an object store keeps the server's address; another test may have another server.
        fsspec.filesystem("s3").clear_instance_cache()
