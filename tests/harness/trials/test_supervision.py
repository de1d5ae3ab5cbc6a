"""A scenario that ends its process, never ends or exhausts its memory: it alone fails, with its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceproof.harness.model.budget import Budget
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.failures import examine_failures
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult, run
from onceproof.harness.trials.supervised_checks import supervised_mistakes

SCENARIOS = 40
CULPRIT = scenario_seed(0, "shelves", 17)
FAMILY = """
import ctypes, os, signal, sys, time
from onceproof import Chance, Workload
from onceproof.engine import Types

name = "shelves"
generator_version = 1
tasks = {"books": "source", "labels": "map", "ledger": "sink"}
tasks = {"books -> books": "source", "ledger": "sink"}
record_schema = "number BIGINT"
row_schema = "number BIGINT"
oracle_sql = "SELECT scenario_id, number FROM records"


def evil():
    DEED


def generate(random):
    number = random.getrandbits(40)
    DURING_GENERATE
    return Workload({"one": [(0, (number,)), (1, (number,))]})


def number_of(record):
    DURING_RUN
    return record


def job(env, io):
    books = env.from_source(io.source("books"), None, "books").uid("books")
    rows = books.map(number_of).name("books").uid("map").rebalance()
    rows.add_sink(io.sink("ledger")).name("ledger").uid("ledger")


def expected(records, declared):
    return [value for values in records.values() for _, value in values]
"""


def family(folder: Path, deed: str, during: str) -> str:
    """Write a family whose 18th scenario does something evil."""
    from onceproof.harness.generation.generator import generate
    from onceproof.harness.model.family_places import load_family

    path = folder / "shelves.py"
    sound = FAMILY.replace("DEED", "pass").replace("DURING_GENERATE", "pass").replace("DURING_RUN", "pass")
    path.write_text(sound, encoding="utf-8")
    records = generate(load_family(str(path)), CULPRIT).records
    [number] = {value[0] for values in records.values() for _, value in values}
    places = {"DEED": deed, "DURING_GENERATE": "pass", "DURING_RUN": "pass"}
    if during == "generate()":
        places["DURING_GENERATE"] = f"number == {number} and evil()"
    else:
        places["DURING_RUN"] = f"record[0] == {number} and evil()"
    text = FAMILY
    for name, line in places.items():
        text = text.replace(name, line)
    path.write_text(text, encoding="utf-8")
    return str(path)


def tried(path: str, out: Path | None = None, **options: Any) -> RunResult:
    return run(RunPlan((path,), scenarios=SCENARIOS, workers=2, budget=Budget(2.0, 256), **options), out)


@pytest.mark.parametrize(
    ("deed", "anomaly", "during"),
    [
        ("os.abort()", "its process died: SIGABRT", "generate()"),
        ("ctypes.string_at(0)", "its process died: SIGSEGV", "its run"),
        ("os._exit(0)", "calls os._exit(0)", "its run"),
        ("ctypes.CDLL(None)._exit(0)", "its process ended: exit code 0", "its run"),
        # The child keeps the pipe to the parent open.
        (
            "(os.fork() and ctypes.CDLL(None)._exit(9)) or (time.sleep(20), os._exit(0))",
            "its process ended: exit code 9",
            "generate()",
        ),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its process died: SIGKILL", "its run"),
        ("while True: pass", "time exceeded: it computes without an end", "its run"),
        ("time.sleep(10**6)", "time exceeded: it waits and does nothing", "generate()"),
    ],
)
def test_a_scenario_that_never_answers_fails_alone(
    tmp_path: Path, deed: str, anomaly: str, during: str
) -> None:
    path = family(tmp_path, deed, during)
    result = tried(path, out=tmp_path / "out")
    assert (result.tally.scenarios, result.tally.failed) == (SCENARIOS, 1)
    [group] = result.tally.groups.values()
    assert (group.first.seed, group.signature) == (CULPRIT, ("no_error", anomaly))
    # All others are those of an undisturbed run.
    seeds = {seed for _, seed, _ in result.tally.hashes}
    assert seeds == {scenario_seed(0, "shelves", number) for number in range(SCENARIOS)}

    [case] = examine_failures(result, RunPlan((), out=tmp_path / "out"))
    assert case.replay_seed == f"onceproof replay {CULPRIT} --family {path}"
    assert f"{anomaly}, during {during}" in case.explanation.sentence
    if "process ended" not in anomaly and "SIGKILL" not in anomaly:
        assert f"evil ({path}:" in case.explanation.sentence
    assert not case.repeated


@pytest.mark.parametrize("during", ["its run", "generate()"])
def test_a_scenario_that_exhausts_its_memory_fails_alone(tmp_path: Path, during: str) -> None:
    hoard = "hoard = []\n    while True: hoard.append(bytearray(50_000_000))"
    result = tried(family(tmp_path, hoard, during), out=tmp_path / "out")
    assert (result.tally.scenarios, result.tally.failed) == (SCENARIOS, 1)
    [group] = result.tally.groups.values()
    assert group.first.seed == CULPRIT
    expected = ("MemoryError", "evil") if during == "its run" else ("no_error", "memory exceeded")
    assert group.signature == expected
    # Shrinking runs it here, and is limited as well.
    [case] = examine_failures(result, RunPlan((), out=tmp_path / "out", shrink_runs=100))
    assert case.signature == expected


@pytest.mark.parametrize("deed", ["sys.exit(0)", "raise KeyboardInterrupt", "raise GeneratorExit"])
def test_an_exception_that_ends_programs_fails_its_scenario_alone(tmp_path: Path, deed: str) -> None:
    result = tried(family(tmp_path, deed, "generate()"))
    assert (result.tally.scenarios, result.tally.failed) == (SCENARIOS, 1)
    [group] = result.tally.groups.values()
    name = "SystemExit" if "exit" in deed else deed.split()[1]
    assert group.signature == ("no_error", f"raised {name}")


def test_a_forked_child_that_returns_from_a_scenario_ends(tmp_path: Path) -> None:
    path = family(tmp_path, "os.fork()", "generate()")
    result = tried(path, out=tmp_path / "out")
    assert (result.tally.scenarios, result.tally.failed) == (SCENARIOS, 0)
    lines = (tmp_path / "out" / "outcomes.jsonl").read_bytes().splitlines()
    assert len(lines) == SCENARIOS


def test_the_check_of_a_family_names_a_scenario_that_ends_its_process(tmp_path: Path) -> None:
    path = family(tmp_path, "os.abort()", "its run")
    [mistake] = supervised_mistakes(path, 0, 18)
    assert mistake.member == "job"
    said = f"seed {CULPRIT}: its process died: SIGABRT, during its run, in evil ({path}:"
    assert mistake.sentence.startswith(said)


def test_the_same_scenario_is_lost_in_every_run(tmp_path: Path) -> None:
    path = family(tmp_path, "os.abort()", "its run")
    first, second = tried(path, out=tmp_path / "first"), tried(path, out=tmp_path / "second")
    assert first.tally.trace_hash() == second.tally.trace_hash()
