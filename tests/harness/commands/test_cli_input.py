"""Unusable input is a one-line error with the documented exit code and nothing on stdout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.engine.runtime.java import JavaMissing
from onceproof.harness.commands.cli import EVERYDAY
from onceproof.harness.model.exit_codes import FAILED, INTERNAL, PASSED, SKIPPED, USAGE, exit_code_of, line_of
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import to_json
from onceproof.harness.trials.pool import WorkerDied, WorkerFailed
from onceproof.harness.trials.trial import scenario_of

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command, CommandResult


def assert_refused(ended: CommandResult, *words: str, code: int = USAGE) -> None:
    assert ended.code == code
    assert ended.out == ""
    lines = ended.error.splitlines()
    assert len(lines) == 1, ended.error
    assert lines[0].startswith("onceproof: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rum"], ["'rum'", "'run'"]),
        (["run", "wrod_count"], ["wrod_count", "did you mean word_count?"]),
        (["run", "mine.py"], ["mine.py", "no such file"]),
        (["run", "word_count", "word_count"], ["word_count", "already"]),
        (["run", "--scenarois", "5"], ["--scenarois", "did you mean --scenario-time or --scenarios?"]),
        (["run", "--seed", "seven"], ["--seed", "seven"]),
        (["run", "--seed", str(2**63)], ["--seed", str(2**63)]),
        (["replay", str(2**63), "--family", "word_count"], [str(2**63), str(2**63 - 1)]),
        (["run", "--scenarios", "many"], ["--scenarios", "many"]),
        (["run", "--scenarios", "-1"], ["--scenarios", "-1"]),
        (["run", "-n", "0"], ["-n", "0"]),
        (["run", "--system", "simulatde"], ["simulatde", "simulated"]),
        (["replay"], ["SEED|FILE.json"]),
        (["replay", "5"], ["--family", "word_count"]),
        (["replay", "five", "--family", "word_count"], ["'five'", "neither a seed"]),
        (["replay", "-5", "--family", "word_count"], ["-5"]),
        (["replay", "absent.json"], ["absent.json", "cannot be read"]),
        (["explain", "absent.json"], ["absent.json", "cannot be read"]),
        (["merge", "absent"], ["absent", "no results of a run"]),
        (["mutants", "--only", "absent"], ["--load"]),
        (["mutants", "--load", "absent.py"], ["absent.py", "no such file"]),
    ],
)
def test_unusable_argument_is_a_one_line_error(
    onceproof: Command, arguments: list[str], words: list[str]
) -> None:
    assert_refused(onceproof(*arguments), *words)


def test_missing_command_prints_the_help(onceproof: Command) -> None:
    ended = onceproof()
    assert ended.code == USAGE
    assert "replay" in ended.out
    assert ended.error == "onceproof: no command is given\n"


def test_help_exits_with_0(onceproof: Command) -> None:
    assert onceproof("--help").code == 0
    assert onceproof("run", "--help").code == 0


def test_help_shows_the_everyday_commands_first(onceproof: Command) -> None:
    everyday, others = onceproof("--help").out.split("Everyday commands")[1].split("Other commands")
    assert re.findall(r"^│ (\w+) ", everyday, re.MULTILINE) == list(EVERYDAY)
    assert {"hunt", "merge", "job"} <= set(re.findall(r"^│ (\w+) ", others, re.MULTILINE))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def expected(records, declared):", "def expected(records, declared)", ["SyntaxError"]),
        ("return Workload", "return Worklaod", ["NameError", "Worklaod"]),
        ("io.sink(", "io.snik(", ["AttributeError", "snik"]),
        ('"total": "keyed"', '"sum": "keyed"', ["'tasks'", "total"]),
        ('"total": "keyed"', '"total": "key"', ["'tasks'"]),
        ("oracle_sql =", "sql =", ["oracle_sql", "missing"]),
        ("(at, (shop, cents))", "(at, [shop, cents])", ["tuple"]),
        ("(at, (shop, cents))", "(at, {shop: cents})", ["records"]),
        ("(at, (shop, cents))", "(at, (shop, cents / 0.0))", ["ZeroDivisionError"]),
        ("rows.append((shop, total))", "rows.append([shop, total])", ["expected()", "tuple"]),
    ],
)
def test_mistake_in_a_family_is_a_one_line_error(
    onceproof: Command, sales: Path, old: str, new: str, words: list[str]
) -> None:
    text = sales.read_text(encoding="utf-8")
    assert old in text
    sales.write_text(text.replace(old, new), encoding="utf-8")
    assert_refused(onceproof("run", str(sales), "--scenarios", "5"), "sales.py", *words)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", ["generate() returns None", "Workload"]),
        ("yield 1", ["generate() returns <generator object"]),
        ("return Workload([])", ["records", "a mapping, not []"]),
        ("return Workload({'a': 5})", ["generate() returns 5 for split 'a'"]),
        ("return Workload({'a': 'xyz'})", ["generate() returns 'xyz' for split 'a'"]),
        ("return Workload({}, parameters=5)", ["parameters", "a mapping, not 5"]),
        ("return Workload({'a': [(0, ('shop', 2**70))]})", ["a scenario cannot hold", "ints"]),
        ("return Workload({'a': [(0, ('shop', 2**63))]})", ["a scenario cannot hold", "64 bits"]),
        ("return Workload({'a': [(0, ('shop', 2**63 - 1))] * 3})", ["job writes", "64 bits"]),
    ],
)
def test_generate_of_another_type_is_a_one_line_error(
    onceproof: Command, sales: Path, body: str, words: list[str]
) -> None:
    text = sales.read_text(encoding="utf-8")
    before, _, rest = text.partition("def generate(random):\n")
    _, _, behind = rest.partition("\n\n\n")
    sales.write_text(f"{before}def generate(random):\n    {body}\n\n\n{behind}", encoding="utf-8")
    assert_refused(onceproof("run", str(sales), "--scenarios", "5", "-n", "1"), "sales.py", *words)


def test_value_that_only_a_late_seed_draws_is_a_one_line_error(onceproof: Command, sales: Path) -> None:
    text = sales.read_text(encoding="utf-8")
    wrong = "([shop] if random.random() < 0.02 else shop, cents)"
    sales.write_text(text.replace("(shop, cents))", f"{wrong})", 1), encoding="utf-8")
    ended = onceproof("run", str(sales), "--scenarios", "60", "-n", "1", "--shrink-runs", "0")
    assert ended.code == USAGE
    assert "a scenario cannot hold" in ended.error.splitlines()[-1]


@pytest.mark.parametrize("name", ["a\"b'; DROP TABLE x --", "ü:ö%s{b}"])
def test_a_family_of_any_printable_name_leaves_its_failures_in_the_folder(
    onceproof: Command, forgetful: Path, name: str
) -> None:
    text = forgetful.read_text(encoding="utf-8")
    assert 'name = "forgetful"' in text
    forgetful.write_text(text.replace('name = "forgetful"', f"name = {name!r}"), encoding="utf-8")
    words = ("--scenarios", "8", "-n", "1", "--shrink-runs", "0", "--out", "out")
    ended = onceproof("run", "forgetful.py", *words)
    assert ended.code == FAILED
    assert "internal error" not in ended.error
    [path, *_] = Path("out", "failures").glob("*.original.json")
    assert onceproof("replay", str(path), "--family", "forgetful.py").code == FAILED
    assert {each.name for each in Path().iterdir()} <= {"forgetful.py", "sales.py", "out", ".onceproof"}


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "7", "--family", "absent.py"),
        ("replay", "7", "--family", "word_count", "--unknown"),
        ("replay", "7", "--family", "word_count", "--system", "absent"),
    ],
)
def test_a_bisection_skips_a_commit_without_a_verdict(onceproof: Command, words: tuple[str, ...]) -> None:
    assert onceproof(*words).code == USAGE
    assert onceproof(*words, "--bisect").code == SKIPPED


def test_a_bisection_keeps_the_exit_code_of_a_verdict(onceproof: Command, forgetful: Path) -> None:
    assert onceproof("replay", "7", "--family", "word_count", "--bisect").code == PASSED
    codes = {onceproof("replay", str(seed), "--family", "forgetful.py", "--bisect").code for seed in range(8)}
    assert codes == {PASSED, FAILED}


def test_mistake_in_a_file_is_reported_with_its_line_number(onceproof: Command, sales: Path) -> None:
    text = sales.read_text(encoding="utf-8")
    sales.write_text(text.replace("def job(env, io):", "def job(env, io)"), encoding="utf-8")
    line = text[: text.index("def job")].count("\n") + 1
    # The working directory holds the file.
    assert_refused(onceproof("run", "sales.py"), f"sales.py:{line}: SyntaxError")
    Path("mutants.py").write_text("import harness\nharness.absent\n", encoding="utf-8")
    assert_refused(onceproof("mutants", "--load", "mutants.py"), "mutants.py:2: AttributeError")


def test_family_that_calls_sys_exit_is_a_one_line_error(onceproof: Command, sales: Path) -> None:
    sales.write_text("import sys\n\ngenerator_version = 1\nsys.exit(0)\n", encoding="utf-8")
    assert_refused(onceproof("run", str(sales)), "ended the program")


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.json"
    path.write_text(to_json(scenario_of(load_family("word_count"), 5)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("parallelisn", 2, ["parallelisn"]),
        ("parallelism", "two", ["parallelism", "int"]),
        ("format_version", 99, ["99", "newer"]),
        ("family", "mine", ["mine", "--family"]),
        ("faults", [{"kind": "kill_tsak", "point": "element"}], ["kill_tsak", "faults"]),
    ],
)
def test_wrong_field_of_a_scenario_file_is_a_one_line_error(
    onceproof: Command, scenario_file: Path, field: str, value: object, words: list[str]
) -> None:
    scenario = json.loads(scenario_file.read_text(encoding="utf-8"))
    scenario[field] = value
    scenario_file.write_text(json.dumps(scenario), encoding="utf-8")
    assert_refused(onceproof("replay", str(scenario_file)), "scenario.json", *words)


def test_truncated_scenario_file_is_a_one_line_error(onceproof: Command, scenario_file: Path) -> None:
    scenario_file.write_bytes(scenario_file.read_bytes()[:100])
    assert_refused(onceproof("replay", str(scenario_file)), "scenario.json", "not JSON")


def test_scenario_of_another_family_is_refused(onceproof: Command, scenario_file: Path) -> None:
    assert_refused(onceproof("replay", str(scenario_file), "--family", "page_views"), "word_count")


def test_unwritable_folder_is_a_one_line_error(onceproof: Command, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder", encoding="utf-8")
    assert_refused(onceproof("run", "word_count", "--out", "taken/out"), "taken/out", "cannot be written")


def test_unexpected_error_is_an_internal_error() -> None:
    assert exit_code_of(KeyError("x")) == INTERNAL
    assert line_of(KeyError("x")) == "internal error: KeyError: 'x'; --debug shows where"
    failed = WorkerFailed("Traceback (most recent call last):\n  File ...\nKeyError: 'x'\n")
    assert line_of(failed) == "internal error: KeyError: 'x'; --debug shows where"
    replayed = "internal error: KeyError: 'x'; --debug shows where; it comes again with: onceproof replay 5"
    again = WorkerFailed(f"{failed}it comes again with: onceproof replay 5\n")
    assert line_of(again) == replayed
    noted = KeyError("x")
    noted.add_note("a note of another library")
    noted.add_note("it comes again with: onceproof replay 5")
    assert line_of(noted) == replayed
    assert (exit_code_of(WorkerDied("a worker")), line_of(WorkerDied("a worker"))) == (INTERNAL, "a worker")


def test_missing_java_is_a_usage_error() -> None:
    missing = JavaMissing("no Java 17 or later: run `make setup`")
    assert exit_code_of(missing) == USAGE
    assert line_of(missing) == str(missing)


def test_run_on_spark_without_java_is_refused(onceproof: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(environment: object) -> None:
        raise JavaMissing("no Java 17 or later: run `make setup`")

    monkeypatch.setattr("onceproof.harness.systems.spark.system.find_java", find_none)
    assert_refused(onceproof("run", "word_count", "--system", "spark", "-n", "2"), "no Java 17", "make setup")


@pytest.mark.parametrize("flag", [[], ["--debug"]])
def test_debug_option_adds_the_traceback(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch, flag: list[str]
) -> None:
    def break_down(as_json: bool) -> int:
        raise RuntimeError("out of order")

    monkeypatch.setattr("onceproof.harness.commands.table_commands.families_command", break_down)
    ended = onceproof("families", *flag)
    assert ended.code == INTERNAL
    assert ("Traceback" in ended.error) is bool(flag)
    assert (
        ended.error.splitlines()[-1]
        == "onceproof: internal error: RuntimeError: out of order; --debug shows where"
    )
