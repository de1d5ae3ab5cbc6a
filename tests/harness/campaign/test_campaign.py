"""Campaigns on Spark: the same verdicts as any other run, the agreement of oracles, and early ends."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from onceproof.harness.campaign.answers import Answer, answers_in
from onceproof.harness.campaign.campaign_plan import CampaignPlan
from onceproof.harness.campaign.executor import FamilySource, Simulation, Simulations, load
from onceproof.harness.campaign.file_stores import store_of
from onceproof.harness.campaign.scenario_worker import stop_scenario_process
from onceproof.harness.campaign.trial_files import digest_of
from onceproof.harness.campaign.trial_tables import TrialTables, TriedScenario
from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.model.family import NOTHING_DECLARED, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import Row
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run
from onceproof.harness.trials.trial import run_scenario, scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceproof.harness.campaign.pipeline import CampaignResult

WORD_COUNT = load_family("word_count")
RECORD = pa.schema(
    [("split", pa.string()), ("offset", pa.int64()), ("timestamp", pa.int64()), ("word", pa.string())]
)
ROW = pa.schema([("word", pa.string()), ("count", pa.int64())])
TABLES = TrialTables("word_count", RECORD, ROW)

FILE = Path(__file__).parents[3] / "scenarios" / "word_count.py"


@pytest.fixture(autouse=True, scope="module")
def scenario_process() -> Iterator[None]:
    """End the process that simulations of this process have started."""
    yield
    stop_scenario_process()


def table_of(folder: Path) -> pa.Table:
    """Return the rows of a folder of Parquet files, as any tool would read them."""
    # It imports pandas, which a collection need not do.
    from pyarrow import dataset

    return dataset.dataset(folder, format="parquet").to_table()


def own_family(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Write a family of the user's own: word count under another name, with changes in its text."""
    text = FILE.read_text()
    for old, new in (('name = "word_count"', f'name = "{name}"'), *changes):
        assert old in text
        text = text.replace(old, new)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def tried(number: int, rows: list[Row] | None = None, finished: bool = True) -> TriedScenario:
    """Return a scenario that was run, with other rows where some are given."""
    scenario = scenario_of(WORD_COUNT, number)
    outcome, history = run_scenario(WORD_COUNT, scenario)
    trial = TriedScenario.of(number, scenario, outcome, history)
    return TriedScenario(number, scenario, outcome, trial.committed if rows is None else rows, finished)


def without_milliseconds(path: Path) -> list[str]:
    return [re.sub(r'"milliseconds":[^,]*,', "", line) for line in path.read_text().splitlines()]


# Without Spark


def test_a_batch_holds_outcome_records_and_rows_of_each_scenario() -> None:
    trials = [tried(number) for number in range(4)]
    table = TABLES.batch(trials).to_pylist()
    for trial, row in zip(trials, table, strict=True):
        assert row["scenario_id"] == trial.number
        assert row["seed"] == trial.scenario.seed
        assert row["trace_hash"] == trial.outcome.trace_hash
        assert dict(row["points"]) == trial.outcome.points
        differ = False if trial.scenario.is_exactly_once else None
        assert (row["finished"], row["rows_differ"], row["unfit"]) == (True, differ, [])
        assert [(each["split"], each["offset"], each["word"]) for each in row["input"]] == [
            (split, offset, word)
            for split, records in trial.scenario.records.items()
            for offset, (_, word) in enumerate(records)
        ]
        expected = WORD_COUNT.expected(trial.scenario.records, NOTHING_DECLARED)
        committed = [(each["word"], each["count"]) for each in row["committed"]]
        assert sorted(committed) == sorted(expected)


@pytest.mark.parametrize(
    "misfit", [("ant",), ("ant", 1, 2), ("ant", "1"), ("ant", 1.5), ("ant", True), "an", (3, 1)]
)
def test_a_row_that_does_not_fit_the_schema_is_kept_as_text(misfit: Any) -> None:
    (row,) = TABLES.batch([tried(1, [("ant", 1), misfit, (None, None)])]).to_pylist()
    assert row["unfit"] == [repr(misfit)]
    assert row["committed"] == [{"word": "ant", "count": 1}, {"word": None, "count": None}]


def simulation_of(source: FamilySource, folder: Path, **options: Any) -> Simulations:
    usual: dict[str, Any] = {
        "run_seed": 7,
        "families": 1,
        "place": 0,
        "turns": [range(20)],
        "budget": Budget(),
    }
    return Simulations([Simulation(source=source, tables=TABLES, **{**usual, **options})], store_of(folder))


def answer_of(simulation: Simulations) -> Answer:
    [answer] = answers_in(pa.Table.from_batches(list(simulation.run())))
    return answer


@pytest.mark.spark
def test_at_least_once_is_judged_by_python_alone(spark: SparkSession) -> None:
    from onceproof.harness.campaign.judge import Trials, judge

    exactly = tried(0)
    twice = replace(exactly.scenario, mode=CheckpointMode("at_least_once"))
    rows = [*exactly.committed, *exactly.committed]
    trials = [TriedScenario(1, twice, exactly.outcome, rows, True)]
    batch = TABLES.batch(trials)
    assert batch.column("rows_differ").to_pylist() == [None]
    table = spark.createDataFrame(pa.Table.from_batches([batch]))
    [judged] = judge(spark, [Trials(WORD_COUNT, table.select, 1)])
    assert (judged.scenarios, judged.disagreements) == (1, ())


def test_executors_run_the_same_scenarios_as_a_run(tmp_path: Path) -> None:
    simulation = simulation_of(
        FamilySource("word_count"), tmp_path / "trials", families=3, place=1, turns=[range(2), range(3, 5)]
    )
    answer = answer_of(simulation)
    outcomes = [from_line(line) for line in zlib.decompress(answer.lines).splitlines()]
    turns = [0, 1, 3, 4]
    assert answer.turns == (range(2), range(3, 5))
    assert [outcome.seed for outcome in outcomes] == [scenario_seed(7, "word_count", turn) for turn in turns]
    rows = table_of(tmp_path / "trials").to_pylist()
    assert [row["scenario_id"] for row in rows] == [3 * turn + 1 for turn in turns]
    assert [row["trace_hash"] for row in rows] == [outcome.trace_hash for outcome in outcomes]


def test_a_task_acknowledges_the_rows_and_the_digest_of_its_file(tmp_path: Path) -> None:
    simulation = simulation_of(FamilySource("word_count"), tmp_path, turns=[range(5, 7)])
    names = set()
    for _ in range(2):
        written = answer_of(simulation).written
        assert written is not None
        data = (tmp_path / written.name).read_bytes()
        assert (written.rows, written.digest) == (2, digest_of(data))
        names.add(written.name)
    # No attempt replaces the file that another one has acknowledged.
    assert len(names) == 2


def test_trials_that_cannot_be_written_are_an_error_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "trials").write_text("a file where a folder should be")
    with pytest.raises(OutputUnwritable, match="trials: cannot be written to: ") as error:
        list(simulation_of(FamilySource("word_count"), tmp_path / "trials", turns=[range(1)]).run())
    assert "\n" not in str(error.value)


def test_no_scenario_is_started_after_the_deadline(tmp_path: Path) -> None:
    source = FamilySource("word_count")
    simulation = simulation_of(source, tmp_path / "trials", turns=[range(1, 3)], deadline=1.0)
    assert list(simulation.run()) == []
    assert not (tmp_path / "trials").exists()


def test_the_first_scenario_of_each_family_runs_after_the_deadline_too(tmp_path: Path) -> None:
    source = FamilySource("word_count")
    simulation = simulation_of(source, tmp_path / "trials", families=3, place=2, deadline=1.0)
    assert answer_of(simulation).turns == (range(1),)


def test_a_user_s_file_is_copied_to_machines_without_it(tmp_path: Path) -> None:
    mistake = "raise KeyError('lost')"
    path = own_family(tmp_path, "travelling", ("unit, word_count =", f"{mistake}\n    unit, word_count ="))
    line = path.read_text().splitlines().index(f"    {mistake}") + 1
    source = FamilySource.of(str(path))
    path.unlink()
    assert load(source).name == "travelling"
    with pytest.raises(FamilyError) as error:
        list(simulation_of(source, tmp_path / "trials").run())
    # The error names the path that the user gave, not that of the loaded copy.
    seed = scenario_seed(7, "travelling", 0)
    assert str(error.value) == f"{path}:{line}: seed {seed}: KeyError: 'lost'"


def with_neighbour(folder: Path, name: str, helper: str) -> Path:
    """Write a family that imports the module ``helper``, which is not written."""
    line = "from onceproof.engine.types import Types\n"
    return own_family(folder, name, (line, f"{line}from {helper} import NOTHING\n"))


def test_a_family_brings_the_modules_beside_it_to_machines_without_them(tmp_path: Path) -> None:
    path = with_neighbour(tmp_path, "with_neighbour", "neighbour_that_travels")
    helper = tmp_path / "neighbour_that_travels.py"
    helper.write_text("NOTHING = 1\n")
    source = FamilySource.of(str(path))
    path.unlink()
    helper.unlink()
    assert load(source).name == "with_neighbour"


def test_a_family_whose_neighbour_is_not_in_its_folder_names_the_folder(tmp_path: Path) -> None:
    path = with_neighbour(tmp_path, "without_neighbour", "neighbour_elsewhere")
    line = path.read_text().splitlines().index("from neighbour_elsewhere import NOTHING") + 1
    source = FamilySource.of(str(path))
    path.unlink()
    with pytest.raises(FamilyError) as error:
        load(source)
    assert str(error.value) == (
        f"{path}:{line}: ModuleNotFoundError: No module named 'neighbour_elsewhere': a Spark executor has"
        f" what is installed there, and the modules in {tmp_path}: put the module there, or install it on the"
        " executors"
    )


# On Spark


def campaign(
    spark: SparkSession | None,
    *families: str | Path,
    progress: Callable[[int, int], None] = lambda simulated, failed: None,
    **options: Any,
) -> CampaignResult:
    from onceproof.harness.campaign.pipeline import run_campaign

    plan = RunPlan(tuple([str(family) for family in families]), **options)
    return run_campaign(CampaignPlan(plan), spark, progress)


@pytest.mark.spark
def test_a_campaign_is_the_run_of_the_same_seed(spark: SparkSession, tmp_path: Path) -> None:
    own = str(own_family(tmp_path, "own"))
    shown: list[tuple[int, int]] = []
    result = campaign(
        spark,
        "flights",
        own,
        scenarios=21,
        seed=5,
        out=tmp_path / "spark",
        progress=lambda simulated, failed: shown.append((simulated, failed)),
    )
    plain = run(RunPlan(("flights", own), scenarios=21, seed=5, workers=1), tmp_path / "plain")
    assert result.passed
    assert result.judged == result.run.tally.scenarios == 21
    assert result.run.tally.trace_hash() == plain.tally.trace_hash()
    spark_lines = without_milliseconds(tmp_path / "spark" / "outcomes.jsonl")
    assert spark_lines == without_milliseconds(tmp_path / "plain" / "outcomes.jsonl")
    assert shown == sorted(shown)
    assert shown[-1] == (21, 0)

    # What was judged can be looked at with any tool that reads Parquet.
    trials = table_of(tmp_path / "spark" / "trials" / "parts")
    assert sorted(trials.column("scenario_id").to_pylist()) == list(range(21))
    for row in trials.to_pylist():
        assert row["family"] == ("flights", "own")[row["scenario_id"] % 2]


@pytest.mark.spark
@pytest.mark.parametrize("scenarios", [0, 2])
def test_a_campaign_may_have_fewer_scenarios_than_families(
    spark: SparkSession, tmp_path: Path, scenarios: int
) -> None:
    result = campaign(spark, "flights", "page_views", "word_count", scenarios=scenarios, out=tmp_path)
    assert (result.run.tally.scenarios, result.judged) == (scenarios, scenarios)
    assert result.passed


@pytest.mark.spark
def test_oracles_that_disagree_fail_a_campaign(spark: SparkSession, tmp_path: Path) -> None:
    wrong_python = own_family(tmp_path, "wrong_python", ("+ 1\n            rows", "+ 2\n            rows"))
    wrong_sql = own_family(tmp_path, "wrong_sql", ("sequence(1, count(*))", "sequence(2, count(*) + 1)"))
    result = campaign(spark, wrong_python, wrong_sql, scenarios=20, out=tmp_path / "out")
    assert not result.passed
    # To the engine nothing happened; but every verdict of Python's on the first family is wrong.
    assert {family for family, _ in result.run.tally.groups} == {"wrong_python"}
    found = {(each.difference.family, each.difference.python_differs) for each in result.disagreements}
    assert found == {("wrong_python", True), ("wrong_sql", False)}
    for each in result.disagreements:
        about = each.difference
        assert each.seed == scenario_seed(0, about.family, about.scenario // 2)
        assert str(each).startswith(f"{about.family}, seed {each.seed}: rows differ for ")
        assert bool(about.sample) is not each.difference.python_differs


@pytest.mark.spark
def test_python_and_spark_find_the_same_wrong_rows(spark: SparkSession) -> None:
    from onceproof.harness.campaign.judge import Trials, judge

    # Rows of a scenario that runs at least once are not judged.
    right = [trial for trial in map(tried, range(8)) if trial.scenario.is_exactly_once]
    full = max(right, key=lambda trial: len(trial.committed))
    rows = list(full.committed)
    cases = [
        (rows, True, False),
        (rows[1:], True, True),
        # What is not there yet is not lost while the job has not finished.
        (rows[1:], False, False),
        ([*rows, rows[0]], False, True),
        ([*rows, ("unknown", "1")], True, True),
    ]
    trials = [
        TriedScenario(number, full.scenario, full.outcome, committed, finished)
        for number, (committed, finished, _) in enumerate(cases)
    ]
    table = spark.createDataFrame(pa.Table.from_batches([TABLES.batch(trials)]))
    [judged] = judge(spark, [Trials(WORD_COUNT, table.select, len(trials))])
    found = judged.disagreements
    # All of them claim that rows do not differ for Python.
    differing = [number for number, case in enumerate(cases) if case[2]]
    assert [each.difference.scenario for each in found] == differing
    assert "('unknown', '1') does not fit row_schema" in str(found[-1])


@pytest.mark.spark
def test_the_death_of_a_worker_does_not_change_the_result(spark: SparkSession, tmp_path: Path) -> None:
    died = tmp_path / "died"
    killing = own_family(
        tmp_path,
        "mortal",
        (
            "    chance = Chance(random)\n",
            "    import os, pathlib\n"
            f"    if os.getpid() != {os.getpid()} and not pathlib.Path({str(died)!r}).exists():\n"
            f"        pathlib.Path({str(died)!r}).touch()\n"
            "        os.kill(os.getpid(), 9)\n"
            "    chance = Chance(random)\n",
        ),
    )
    result = campaign(spark, killing, scenarios=12, out=tmp_path / "out")
    assert died.exists()
    assert result.passed
    assert result.run.tally.scenarios == 12
    plain = run(RunPlan((str(killing),), scenarios=12, workers=1))
    assert result.run.tally.trace_hash() == plain.tally.trace_hash()


FIRST_LINE = "    chance = Chance(random)\n"
FAILS_ELSEWHERE = f"    import os\n    assert os.getpid() == {os.getpid()}, 'boo'\n"


@pytest.mark.spark
def test_a_program_is_judged_by_itself_and_a_family_by_both_oracles(
    spark: SparkSession, tmp_path: Path
) -> None:
    from onceproof.harness.reporting.report_builder import add_oracle_agreement, build_report

    path = tmp_path / "words.py"
    path.write_text(
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "kept = []\n"
        "def count(word):\n"
        "    kept.append(word)\n"
        "    return word, len(kept), 0.5\n"
        "env.from_collection(['a', 'b', 'c']).map(count).print()\n"
        "env.execute('words')\n"
    )
    families = (f"{path}?job=words", "word_count")
    result = campaign(spark, *families, scenarios=16, seed=5, out=tmp_path / "out")
    plain = run(RunPlan(families, scenarios=16, seed=5, workers=1))
    assert result.run.tally.trace_hash() == plain.tally.trace_hash()
    assert result.run.tally.families["words-words"].failed > 0
    assert (result.judged, result.compared, result.disagreements) == (16, 8, [])
    report = add_oracle_agreement(build_report(result.run, []), result)
    assert report.oracles is not None
    assert report.oracles.scenarios == 8
    assert ("judged by Python alone", "words-words: without oracle_sql") in report.facts.others


@pytest.mark.spark
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (FIRST_LINE, FAILS_ELSEWHERE + FIRST_LINE, "AssertionError: boo"),
        ("FROM records", "FROM recordings", "oracle_sql of family broken: .*recordings"),
        (
            ', count BIGINT"',
            ', count STRING"',
            r"row_schema says count STRING, which does not hold 1 of \('gnu', 1\) that expected\(\)",
        ),
        ('"word STRING"\n', '"word BIGINT"\n', "record_schema says word BIGINT, which does not hold 'gnu'"),
        (
            '"word STRING"\n',
            '"word STRNG"\n',
            "record_schema of family broken: 'word STRNG' is not valid Spark DDL",
        ),
    ],
    # The texts hold a process id, and the workers of a test run must name their tests alike.
    ids=["exception", "query", "row", "value", "schema"],
)
def test_an_error_in_a_family_is_one_line(
    spark: SparkSession, tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = own_family(tmp_path, "broken", (old, new))
    with pytest.raises(Exception, match=said) as error:
        campaign(spark, path, scenarios=12, out=tmp_path / "out")
    assert isinstance(getattr(error.value, "mistake", error.value), FamilyError)
    assert "\n" not in str(error.value)
    if "boo" in said:
        assert str(error.value).startswith(f"{path}:")


@pytest.mark.spark
def test_an_interrupt_ends_the_campaign_with_the_result_so_far(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = "onceproof.harness.campaign.pace"
    monkeypatch.setattr(f"{pace}.LARGEST_WAVE", 10)
    monkeypatch.setattr(f"{pace}.JUDGED_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(f"{pace}.JUDGED_AFTER_JUDGEMENTS", 0.0)

    def interrupt(simulated: int, failed: int) -> None:
        if simulated > 10:
            raise KeyboardInterrupt

    result = campaign(spark, "word_count", scenarios=40, out=tmp_path, progress=interrupt)
    assert result.run.interrupted
    # What tasks of the interrupted waves had written counts, too; a judgement may have run beside them.
    kept = result.run.tally.scenarios
    assert 10 <= kept <= 30
    assert result.judged <= kept
    assert len((tmp_path / "outcomes.jsonl").read_text().splitlines()) == kept
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []

    again = campaign(spark, "word_count", scenarios=40, out=tmp_path)
    assert again.resumed >= kept
    assert (again.judged, again.passed) == (40, True)
    plain = run(RunPlan(("word_count",), scenarios=40, workers=1), tmp_path / "plain")
    assert again.run.tally.trace_hash() == plain.tally.trace_hash()
    assert without_milliseconds(tmp_path / "outcomes.jsonl") == without_milliseconds(
        tmp_path / "plain" / "outcomes.jsonl"
    )
    written = table_of(tmp_path / "trials" / "parts").column("scenario_id").to_pylist()
    assert sorted(written) == list(range(40))


def test_a_campaign_that_ended_early_shows_the_number_of_unjudged_scenarios() -> None:
    from onceproof.harness.campaign.pipeline import CampaignResult
    from onceproof.harness.reporting.report_builder import add_oracle_agreement, build_report

    result = run(RunPlan(("word_count",), scenarios=12, workers=1))
    result.interrupted = True
    early = "interrupted from the keyboard; Spark SQL has not judged {} of 12 scenarios"
    for judged, agreed_on in ((0, None), (8, 8)):
        campaign = CampaignResult(result, judged=judged, compared=judged)
        report = add_oracle_agreement(build_report(result, []), campaign)
        assert report.interrupted == early.format(12 - judged)
        assert (report.oracles.scenarios if report.oracles else None) == agreed_on
    whole = add_oracle_agreement(build_report(result, []), CampaignResult(result, judged=12, compared=12))
    assert whole.interrupted == "interrupted from the keyboard"


@pytest.mark.spark
def test_a_campaign_with_a_time_limit_ends_with_what_it_has_run(spark: SparkSession, tmp_path: Path) -> None:
    result = campaign(spark, "page_views", "word_count", max_time=2.0, out=tmp_path)
    assert result.passed
    # Without the limit it would not end. How close it comes is tested on simulated machines.
    assert result.judged == result.run.tally.scenarios > 0
    # Which scenarios there was time for differs; that they are those of the seed does not.
    lines = (tmp_path / "outcomes.jsonl").read_bytes().splitlines()
    scenarios = {(outcome.family, outcome.seed) for outcome in map(from_line, lines)}
    families = ("page_views", "word_count")
    assert scenarios <= {
        (family, scenario_seed(0, family, index)) for index in range(9999) for family in families
    }
    assert {family for family, _ in scenarios} == set(families)


def test_each_family_s_scenarios_come_from_its_own_numbers() -> None:
    # Guards the file that stands in for a user's: a change of it must not pass unseen.
    assert WORD_COUNT.generate(Random(1)).records == load_family(str(FILE)).generate(Random(1)).records
