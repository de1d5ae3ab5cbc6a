"""Unedited PyFlink programs on trial: faulty ones are found, sound ones are never accused."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from onceproof.harness.commands.cli import main
from onceproof.harness.model.family import Declared, Family, FamilyError
from onceproof.harness.model.family_places import address_of, load_family
from onceproof.harness.model.history import Row
from onceproof.harness.scripts.calm_runs import CalmRuns, settled
from onceproof.harness.services.service import ServiceMissing
from onceproof.harness.systems.simulation.stopping import seconds_for_each
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.counterfactuals import confirmed_cause
from onceproof.harness.trials.trial import Trial, check_family, scenario_of, try_scenario

FAULTY = Path(__file__).parent / "faulty"
SOUND = Path(__file__).parents[2] / "corpus" / "programs"
MOST_SCENARIOS = 60
SCENARIOS = 4
NOT_DETERMINED = "time_to_live_too_short"
"""Its rows follow the clock without any fault, so no run can say which are right."""
NAMES = sorted(path.stem for path in FAULTY.glob("*.py") if path.stem != NOT_DETERMINED)
OWN_ENDS = Path(__file__).parent / "sound"
"""Programs whose own sinks and sources are right."""
SOUND_NAMES = (
    "async_lookup",
    "batch_word_count",
    "blocked_words",
    "broadcast_rules",
    "dataclass_state",
    "deduplicate",
    "detached_job",
    "enriched_orders",
    "fraud_detection",
    "sessions",
    "side_outputs",
)


SOUND_PATHS = (*[SOUND / f"{name}.py" for name in SOUND_NAMES], *sorted(OWN_ENDS.glob("*.py")))
ROWS = [
    (name, anomaly)
    for name in ("exactly_once", "restore_anywhere")
    for anomaly in ("lost", "duplicated", "wrong value", "phantom")
]
FOUND = {"commit_moves": [("no_error", "exception")], "uid_of_the_day": [("liveness", "job failed")]}
"""By faulty program how it fails, if not by its rows."""


def first_failure(family: Family) -> Trial | None:
    for seed in range(MOST_SCENARIOS):
        trial = try_scenario(family, scenario_of(family, seed), twice=False)
        if not trial.verdict.passed:
            return trial
    return None


@pytest.mark.parametrize("name", NAMES)
def test_the_bug_of_a_faulty_program_is_found(name: str) -> None:
    trial = first_failure(load_family(str(FAULTY / f"{name}.py")))
    assert trial is not None
    found = trial.verdict.violations[0]
    assert (found.property, found.anomaly) in FOUND.get(name, ROWS)


def test_rows_that_follow_the_clock_are_named() -> None:
    family = load_family(str(FAULTY / f"{NOT_DETERMINED}.py"))
    notes = list(family.notes())  # type: ignore[attr-defined]
    assert any("the output of 'KeyedProcess' depends on the order of arrival" in note for note in notes)


NUMBERED = """
class Number(MapFunction):
    def open(self, context):
        self.numbers = {}

    def map(self, row):
        key = KEY
        self.numbers[key] = self.numbers.get(key, 0) + 1
        return row, self.numbers[key]

"""


@pytest.mark.parametrize(("name", "key"), [("deduplicate", "None"), ("blocked_words", "row")])
def test_a_bug_is_found_where_time_or_parallelism_decides_rows(tmp_path: Path, name: str, key: str) -> None:
    sound = (SOUND / f"{name}.py").read_text()
    imports, class_, rest = sound.partition("\n\nclass ")
    faulty = (
        f"from pyflink.datastream import MapFunction\n{imports}{NUMBERED.replace('KEY', key)}{class_}{rest}"
    )
    faulty = faulty.replace(".print()", ".map(Number()).print()")
    trial = first_failure(load_family(script(tmp_path, faulty)))
    assert trial is not None
    found = trial.verdict.violations[0]
    assert (found.property, found.anomaly) in ROWS


@pytest.mark.parametrize("path", SOUND_PATHS, ids=lambda path: path.stem)
def test_sound_program_passes_every_scenario(path: Path) -> None:
    family = load_family(str(path))
    check_family(family)
    for seed in range(SCENARIOS):
        trial = try_scenario(family, scenario_of(family, seed))
        assert trial.verdict.passed, (seed, trial.verdict.violations)


def test_check_of_a_script_runs_no_variant_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_family(str(SOUND / "detached_job.py"))
    monkeypatch.setattr(CalmRuns, "variants", lambda *_, **__: pytest.fail("its calm run decides"))
    check_family(family)


def script(tmp_path: Path, text: str, name: str = "job.py") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


TWO_JOBS = """
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).print()
env.execute("numbers")
env.from_collection(["a", "b", "c"]).map(lambda letter: letter * 2).print()
env.execute("letters")
"""


def rows_of(family: Family) -> set[object]:

    scenario = scenario_of(family, 1)
    return {row[0] for row in family.expected(scenario.records, Declared())}


def test_the_first_of_several_jobs_is_tried_unless_one_is_named(tmp_path: Path) -> None:
    path = script(tmp_path, TWO_JOBS)
    assert rows_of(load_family(path)) <= {1, 2}
    assert rows_of(load_family(f"{path}?job=letters")) <= {"aa", "bb", "cc"}
    with pytest.raises(FamilyError, match="there are 'numbers', 'letters'"):
        load_family(f"{path}?job=words")


ARGUMENTS = """
import argparse

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--suffix", required=True)
    suffix = parser.parse_args().suffix
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(["a"], Types.STRING()).map(lambda word: word + suffix).print()
    env.execute()


if __name__ == "__main__":
    main()
"""


def test_arguments_reach_the_program_and_missing_ones_are_named(tmp_path: Path) -> None:
    path = script(tmp_path, ARGUMENTS)
    family = load_family(f"{path}?argument=--suffix&argument=x")
    assert rows_of(family) <= {"ax"}
    assert load_family(address_of(family)) is family
    with pytest.raises(FamilyError, match="--suffix; its own arguments follow --"):
        load_family(path)


SAMPLED = """
from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaSource

source = (
    KafkaSource.builder()
    .set_bootstrap_servers("broker:9092")
    .set_topics("orders")
    .set_group_id("totals")
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").print()
env.execute()
"""


def test_source_far_away_reads_a_sample_and_asks_for_one(tmp_path: Path) -> None:
    path = script(tmp_path, SAMPLED)
    with pytest.raises(FamilyError, match="give some with --sample orders=FILE"):
        load_family(path)
    (tmp_path / "orders.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    assert rows_of(load_family(f"{path}?sample=orders=orders.jsonl")) <= {'{"id": 1}', '{"id": 2}'}
    with pytest.raises(FamilyError, match="no source 'order'; did you mean orders"):
        load_family(f"{path}?sample=order=orders.jsonl")


def test_program_that_executes_nothing_is_no_script(tmp_path: Path) -> None:
    with pytest.raises(FamilyError, match="it executes no job"):
        load_family(script(tmp_path, "x = 1\n"))


FROM_PYFLINK = "from pyflink.datastream import StreamExecutionEnvironment\n"


def test_job_that_fails_by_itself_is_refused_with_its_error(tmp_path: Path) -> None:
    text = f"""{FROM_PYFLINK}
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 0]).map(lambda number: 1 / number).print()
env.execute()
"""
    with pytest.raises(FamilyError, match=r"the job fails without a fault: .*ZeroDivisionError"):
        load_family(script(tmp_path, text))


def test_table_api_is_explained(tmp_path: Path) -> None:
    with pytest.raises(FamilyError, match="HiveCatalog of PyFlink is missing"):
        load_family(script(tmp_path, "from pyflink.table.catalog import HiveCatalog\n"))


def test_operator_is_named_whose_output_follows_the_order_of_arrival(tmp_path: Path) -> None:
    text = f"""{FROM_PYFLINK}
from pyflink.datastream import KeyedProcessFunction


class Numbered(KeyedProcessFunction):
    def open(self, context):
        self.number = 0

    def process_element(self, value, ctx):
        self.number += 1
        yield value, self.number


env = StreamExecutionEnvironment.get_execution_environment()
numbered = env.from_collection(list(range(12))).key_by(lambda value: value).process(Numbered())
numbered.name("numbered").map(lambda row: row).print()
env.execute()
"""
    family = load_family(script(tmp_path, text))
    notes = list(family.notes())  # type: ignore[attr-defined]
    assert any("the output of 'numbered' depends on the order of arrival" in note for note in notes)


def test_state_in_a_file_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    text = f"""{FROM_PYFLINK}
from pathlib import Path

COUNT = Path(__file__).with_name("count.txt")


def numbered(value):
    number = int(COUNT.read_text()) + 1 if COUNT.exists() else 1
    COUNT.write_text(str(number))
    return number, value


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(["a", "b"]).map(numbered).print()
env.execute()
"""
    with pytest.raises(FamilyError, match=r"state outlives the program in .*count\.txt"):
        load_family(script(tmp_path, text))


def test_cause_names_the_attribute_that_is_no_state() -> None:
    family = load_family(str(FAULTY / "totals_in_a_dict.py"))
    trial = first_failure(family)
    assert trial is not None
    signature = trial.verdict.signature
    assert signature is not None
    cause = confirmed_cause(family, trial.scenario, signature, trial.scenario)
    assert cause is not None
    assert cause.what.startswith("Total keeps `self.totals` outside Flink state")


ONE_JOB = f"""{FROM_PYFLINK}
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(double).print()
env.execute()
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("while True: pass", "job.py: the program does not return: .*computes without an end, in <module>"),
        (ONE_JOB.replace("double", "lambda value: exec('while True: pass')"), "its job does not return"),
        ("import os; os._exit(5)", r"job.py: the program calls os._exit\(5\)"),
        ("import sys; sys.exit('no input')", "ends with exit code 1 before it executes a job: no input;"),
        ("import sys; sys.exit(3)", "ends with exit code 3 before it executes a job;"),
    ],
)
def test_program_that_never_gets_to_its_end_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with seconds_for_each(0.3), pytest.raises(FamilyError, match=message):
        load_family(script(tmp_path, text))


def test_program_may_change_its_folder_and_sleep(tmp_path: Path) -> None:
    current = os.getcwd()
    text = f"import os, time\nos.chdir({str(tmp_path)!r})\ntime.sleep(9**9)\n"
    family = load_family(script(tmp_path, text + ONE_JOB.replace("double", "lambda value: 2 * value")))
    assert rows_of(family) <= {2, 4}
    assert os.getcwd() == current


def test_what_other_records_do_not_determine_is_not_judged() -> None:
    seen: Counter[Row] = Counter({("a", None): 1})
    calm: Counter[Row] = Counter({("a", 1): 1})
    assert settled(seen, [calm, calm]) == calm
    assert settled(seen, [calm, calm], (0,)) == seen
    assert settled(Counter(), [calm, calm], (0,)) == calm
    # Records on which runs differ, of a job whose rows others determine: a restore may show yet others.
    assert settled(seen, [calm, Counter({("a", 2): 1})]) == seen


def test_how_often_watermarks_come_is_the_scenarios() -> None:
    family = load_family(str(SOUND / "flink1_settings.py"))
    scenario = replace(scenario_of(family, 1), watermark_interval_ms=7)
    vertices = World(family, scenario).job.build_graph().vertices
    assert {vertex.auto_watermark_interval_ms for vertex in vertices} == {7}


def test_values_that_fail_if_one_source_comes_first_are_not_drawn() -> None:
    # It keeps the orders of customers that are not there yet in a list, which takes no None.
    family = load_family(str(SOUND / "enriched_orders.py"))
    drawn = [scenario_of(family, seed).records for seed in range(MOST_SCENARIOS)]
    orders = {value for records in drawn for _, value in records["collection-source.0"]}
    customers = {value for records in drawn for _, value in records["collection-source-2.0"]}
    assert not any(None in order for order in orders)  # type: ignore[operator]
    assert any(None in customer for customer in customers)  # type: ignore[operator]


def test_flink_that_is_missing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "Apache Flink is not installed"

    def find_flink() -> None:
        raise ServiceMissing(text)

    monkeypatch.setattr("onceproof.harness.systems.flink.system.find_flink", find_flink)
    path = script(tmp_path, ONE_JOB.replace("double", "str"))
    assert main(["run", path, "--system", "flink", "--scenarios", "1", "--out", str(tmp_path / "out")]) == 4
    assert capsys.readouterr().err.splitlines()[-1] == f"onceproof: {text}"


LATE = f"""{FROM_PYFLINK}
from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream.window import TumblingEventTimeWindows


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


ROWS = [("a", 1), ("hi", 7), ("b", 3), ("hi", 4), ("a", 12), ("hi", 1), ("hi", 5), ("hi", 8), ("hi", 15)]
env = StreamExecutionEnvironment.get_execution_environment()
rows = env.from_collection(ROWS, Types.TUPLE([Types.STRING(), Types.INT()]))
watermarks = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
timed = rows.assign_timestamps_and_watermarks(watermarks.with_timestamp_assigner(Second()))
windows = timed.map(lambda row: (row[0], 1)).key_by(lambda row: row[0])
windows.window(TumblingEventTimeWindows.of(Time.milliseconds(5))).sum(1).print()
env.execute()
"""


def test_window_that_fires_again_as_a_record_is_late_no_more_is_no_mistake(tmp_path: Path) -> None:
    family = load_family(script(tmp_path, LATE))
    for rows in ([("hi", 3)], [("hi", 3), ("hi", 3)]):
        assert Counter(family.expected(scenario_of(family, 1).records, Declared(rows=rows))) == Counter(rows)
