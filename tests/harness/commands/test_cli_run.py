"""`onceproof run`: its output, its files and its exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.spark.system import SparkSystem
from onceproof.harness.trials.output_files import OUTCOMES
from onceproof.harness.trials.trial import as_run
from onceproof.reports.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from onceproof.harness.model.family import Family
    from onceproof.harness.model.scenario import Fault
    from onceproof.harness.model.system import System
    from tests.harness.commands.conftest import Command


def seed_of_run(
    family: Family, system: System, fits: Callable[[Sequence[Fault]], bool], first: int = 0
) -> int:
    """Return a seed of a run whose first scenario has fitting faults, as the system runs it.

    It also has some records. The search begins at the seed where it is known to succeed.
    """
    for seed in count(first):
        scenario = as_run(system, family, generate(family, scenario_seed(seed, family.name, 0)))
        if scenario.record_count() > 10 and fits(scenario.faults):
            return seed
    raise AssertionError


def kills_workers_and_loses_messages(faults: Sequence[Fault]) -> bool:
    """Return whether a run on Spark meets a kill of a worker for certain, none of the driver, and no message.

    A kill of the driver would take much longer.
    """
    kills = [fault for fault in faults if fault.kind in KILLS]
    early = [fault for fault in kills if fault.kind == "kill_task" and fault.checkpoint < 2]
    return (
        any(fault.kind == "lose_message" for fault in faults)
        and {fault.kind for fault in kills} == {"kill_task"}
        and any(fault.point == "pre_committed" and fault.occurrence == 1 for fault in early)
    )


def kills_the_process_after_a_checkpoint(faults: Sequence[Fault]) -> bool:
    """Return whether nothing but a death of the process happens, as its first checkpoint is complete."""
    return [
        (fault.kind, fault.point, fault.checkpoint, fault.occurrence, fault.after) for fault in faults
    ] == [("kill_process", "completed", 1, 1, 0)]


def test_sound_family_passes(onceproof: Command, sales: Path) -> None:
    ended = onceproof("run", str(sales), "--scenarios", "40", "-n", "1", "--out", "out")
    assert ended.code == 0
    assert "sales: 40 scenarios, passed" in ended.out
    assert ended.error == ""
    assert {path.name for path in Path("out").iterdir()} == {OUTCOMES, "index.html", "report.json"}


def test_families_that_passed_share_a_line_and_one_that_failed_has_its_own(
    onceproof: Command, forgetful: Path
) -> None:
    names = ("word_count", "page_views", str(forgetful))
    ended = onceproof("run", *names, "--scenarios", "32", "-n", "1", "--out", "out", "--shrink-runs", "0")
    assert ended.code == 1
    lines = [line for line in ended.out.splitlines() if re.search(r"\d scenarios.*(passed|FAILED)$", line)]
    assert lines[0] == "2 families: 11 scenarios each, passed"
    assert re.fullmatch(r"forgetful: 10 scenarios, \d+ FAILED", lines[1])
    assert len(lines) == 2


@pytest.mark.local_kill
def test_run_on_the_local_runtime_kills_processes_and_passes(onceproof: Command) -> None:
    found = seed_of_run(load_family("word_count"), LocalSystem(), kills_the_process_after_a_checkpoint, 1207)
    seed = str(found)
    options = ["--scenarios", "2", "--seed", seed, "-n", "1", "--out", "out"]
    ended = onceproof("run", "word_count", "--system", "local", *options)
    assert ended.code == 0, ended.error
    report = json.loads(Path("out", "report.json").read_bytes())
    assert report["facts"]["system"] == "local"
    outcomes = [from_line(line) for line in Path("out", OUTCOMES).read_bytes().splitlines()]
    assert sum(outcome.kills for outcome in outcomes) > 0
    replayed = onceproof("replay", str(outcomes[0].seed), "--family", "word_count", "--system", "local")
    assert replayed.code == 0


@pytest.mark.spark
@pytest.mark.local_kill
def test_run_on_spark_kills_workers_and_passes(onceproof: Command) -> None:
    seed = str(seed_of_run(load_family("word_count"), SparkSystem(), kills_workers_and_loses_messages, 6107))
    options = ["--scenarios", "1", "--seed", seed, "-n", "1", "--out", "out"]
    ended = onceproof("run", "word_count", "--system", "spark", *options)
    assert ended.code == 0, ended.error
    report = json.loads(Path("out", "report.json").read_bytes())
    assert report["facts"]["system"] == "spark"
    # A fault that cannot strike on Spark has no cell, and the report counts it.
    cells = {(cell["kind"], cell["point"]) for cell in report["coverage"]["cells"]}
    assert ("kill_task", "pre_committed") in cells
    assert ("lose_message", "notified") not in cells
    outcomes = [from_line(line) for line in Path("out", OUTCOMES).read_bytes().splitlines()]
    assert sum(outcome.kills for outcome in outcomes) > 0
    planned = sum([sum(outcome.not_applicable.values()) for outcome in outcomes])
    assert planned > 0
    expected = f"{counted(planned, 'planned fault')} that this system cannot inject"
    assert ["not applicable", expected] in report["facts"]["others"]
    replayed = onceproof(
        "replay", str(outcomes[0].seed), "--family", "word_count", "--system", "spark", "--json"
    )
    assert (replayed.code, json.loads(replayed.out)["verdict"]) == (0, "passed")


@pytest.mark.local_kill
def test_failure_on_the_local_runtime_is_shrunk_and_drawn(onceproof: Command, forgetful: Path) -> None:
    seed = str(seed_of_run(load_family(str(forgetful)), LocalSystem(), kills_the_process_after_a_checkpoint))
    options = ["--scenarios", "1", "--seed", seed, "-n", "1", "--out", "out", "--shrink-runs", "3"]
    ended = onceproof("run", "forgetful.py", "--system", "local", *options)
    assert ended.code == 1
    replays = [line for line in ended.out.splitlines() if line.startswith("  onceproof replay")]
    assert replays
    assert all(line.endswith("--system local") for line in replays)
    assert re.search(r"; (not shrunk|shrunk to .*) in \d+ runs?$", ended.out, re.MULTILINE)
    [failure, *_] = json.loads(Path("out", "report.json").read_bytes())["failures"]
    assert failure["shrinking"]["runs"] >= 1
    assert failure["shrink"].endswith("--system local")
    assert failure["trace"]["lanes"][0] == "job"
    assert failure["trace"]["kills"]
    assert "runs on local" in failure["notes"][0] or "run on local" in failure["notes"][0]


@pytest.mark.local_kill
def test_explain_writes_a_page_for_a_failure_on_the_local_runtime(
    onceproof: Command, forgetful: Path
) -> None:
    family = load_family(str(forgetful))
    seed = str(
        scenario_seed(
            seed_of_run(family, LocalSystem(), kills_the_process_after_a_checkpoint), family.name, 0
        )
    )
    options = ["--system", "local", "--shrink-runs", "3", "--out", "why"]
    ended = onceproof("explain", seed, "--family", "forgetful.py", *options)
    assert ended.code == 1, ended.error
    lines = ended.out.splitlines()
    assert lines[1].startswith("FAILED exactly_once, ")
    assert re.fullmatch(r"(not shrunk|shrunk to .*) in \d+ runs?", lines[2])
    titles = ["what happened", "how the job recovered", "method and limits"]
    assert [line for line in lines if line in titles] == titles
    page = Path("why", "index.html").read_text(encoding="utf-8")
    assert "Why a scenario fails" in page
    assert "Space-time diagram of failure 1" in page
    [small] = [path for path in Path("why", "failures").glob("*.json") if "original" not in path.name]
    assert f"onceproof replay {small} --family forgetful.py --system local" in lines


def test_family_of_the_readme_is_named_sales(sales: Path) -> None:
    assert load_family(str(sales)).name == "sales"


def test_failure_is_printed_with_commands_that_replay_it(onceproof: Command, forgetful: Path) -> None:
    options = ("--scenarios", "8", "-n", "1", "--out", "out", "--shrink-runs", "20")
    ended = onceproof("run", "forgetful.py", *options)
    assert ended.code == 1
    first = next(line for line in ended.out.splitlines() if line.startswith("FAILED forgetful: "))
    property_, anomaly = first.removeprefix("FAILED forgetful: ").split(", ")[:2]
    commands = [line.split() for line in ended.out.splitlines() if line.startswith("  onceproof replay")]
    assert len(commands) >= 2
    outcomes = [from_line(line) for line in Path("out", OUTCOMES).read_bytes().splitlines()]
    for command in commands[:2]:
        replayed = onceproof(*command[1:], "--json")
        assert replayed.code == 1
        document = json.loads(replayed.out)
        assert document["verdict"] == "failed"
        assert is_same_failure(tuple(document["signature"]), (property_, anomaly))
        seed = command[2]
        same = [outcome for outcome in outcomes if str(outcome.seed) == seed]
        assert not seed.isdecimal() or same[0].trace_hash == document["trace_hash"]


def test_shrunk_failure_is_small_and_stands_in_the_report(onceproof: Command, forgetful: Path) -> None:
    options = ("--scenarios", "8", "--seed", "2", "-n", "1", "--out", "out", "--shrink-runs", "1000")
    onceproof("run", "forgetful.py", *options)
    report = json.loads(Path("out", "report.json").read_bytes())
    for failure in report["failures"]:
        assert len(failure["records"]) <= 6
        assert len(failure.get("faults", ())) <= 2
    failure = report["failures"][0]
    assert failure["property"] == "exactly_once"
    assert failure["replay"].endswith("--family forgetful.py")
    assert failure["sentence"]
    assert failure["trace"]["lanes"][0] == "coordinator"
    kept = sorted(path.name for path in Path("out", "failures").iterdir())
    signatures = sum(1 + len(failure.get("symptoms", ())) for failure in report["failures"])
    assert len(kept) == 2 * signatures


def test_json_output_is_one_document_with_fixed_fields(onceproof: Command) -> None:
    ended = onceproof(
        "run", "word_count", "page_views", "--scenarios", "6", "-n", "1", "--out", "out", "--json"
    )
    document = json.loads(ended.out)
    counts = ["findings", "near_misses", "scenarios", "passed", "failed", "families"]
    costs = ["seconds", "scenario_seconds", "phase_seconds", "waiting_share"]
    found = ["not_applicable", "asked", "situations", "sample", "exhausted", "trace_hash"]
    assert list(document) == [*counts, *found, *costs, "out"]
    # The simulation starts no process, and runs every family.
    assert (document["not_applicable"], document["waiting_share"]) == ({}, None)
    assert document["asked"]["consistent_cut"] == 6
    assert document["sample"][0] == "under 50 scenarios in each of 2 families"
    assert document["families"] == {
        "page_views": {"scenarios": 3, "failed": 0, "timers_only_at_end": False},
        "word_count": {"scenarios": 3, "failed": 0, "timers_only_at_end": False},
    }
    assert (document["scenarios"], document["passed"], document["failed"]) == (6, 6, 0)
    assert document["out"] == "out"


def test_with_json_the_failures_go_to_stderr(onceproof: Command, forgetful: Path) -> None:
    options = ("--scenarios", "12", "-n", "1", "--out", "out", "--shrink-runs", "0", "--json")
    ended = onceproof("run", "forgetful.py", *options)
    assert ended.code == 1
    assert json.loads(ended.out)["failed"] > 0
    assert "  onceproof replay out/failures/forgetful-" in ended.error


def test_run_without_scenarios_exits_with_5(onceproof: Command) -> None:
    ended = onceproof("run", "word_count", "--scenarios", "0", "-n", "1", "--out", "out")
    assert ended.code == 5


def test_run_ends_at_its_time_limit(onceproof: Command) -> None:
    ended = onceproof("run", "word_count", "--max-time", "0.2", "-n", "1", "--out", "out", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["scenarios"] >= 1
    assert json.loads(ended.out)["seconds"] < 60


def test_error_in_a_family_ends_the_run_and_keeps_finished_scenarios(onceproof: Command, sales: Path) -> None:
    text = sales.read_text(encoding="utf-8")
    path = sales.with_name("fragile.py")
    path.write_text(
        text.replace("    rows = []", "    rows = []\n    1 // (sum(map(len, records.values())) - 44)"),
        encoding="utf-8",
    )
    ended = onceproof("run", "fragile.py", "--scenarios", "200", "-n", "2", "--out", "out")
    assert ended.code == 4
    lines = ended.error.splitlines()
    assert len(lines) == 1
    assert "fragile.py:" in lines[0]
    assert "ZeroDivisionError" in lines[0]
    done = Path("out", OUTCOMES).read_bytes().splitlines()
    assert all(from_line(line).passed for line in done)
    assert f"sales: {len(done)} scenario" in ended.out or not done


def test_merge_of_a_single_folder_renders_the_same_page_again(onceproof: Command) -> None:
    onceproof("run", "word_count", "--scenarios", "4", "-n", "1", "--out", "out")
    page = Path("out", "index.html")
    before = page.read_bytes()
    page.unlink()
    assert onceproof("merge", "out").code == 0
    assert page.read_bytes() == before
