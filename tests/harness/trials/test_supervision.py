"""A scenario that ends its process, never ends or exhausts its memory: it alone fails, with its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from onceproof.harness.checkers.checker import Signature
from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.trials.failures import FailureCase, examine_failures
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunResult, run
from onceproof.harness.trials.supervised_checks import supervised_mistakes

SCENARIOS = 40
CULPRIT = scenario_seed(0, "shelves", 17)
DEEDS = {
    "os.abort()": ("its process died: SIGABRT", "generate()"),
    "ctypes.string_at(0)": ("its process died: SIGSEGV", "its run"),
    "os._exit(0)": ("calls os._exit(0)", "its run"),
    "ctypes.CDLL(None)._exit(0)": ("its process ended: exit code 0", "its run"),
    # The child keeps the pipe to the parent open.
    "(os.fork() and ctypes.CDLL(None)._exit(9)) or (time.sleep(20), os._exit(0))": (
        "its process ended: exit code 9",
        "generate()",
    ),
    "os.kill(os.getpid(), signal.SIGKILL)": ("its process died: SIGKILL", "its run"),
    "while True: pass": ("time exceeded: it computes without an end", "its run"),
    "time.sleep(10**6)": ("time exceeded: it waits and does nothing", "generate()"),
    "sys.exit(0)": ("raised SystemExit", "generate()"),
    "raise KeyboardInterrupt": ("raised KeyboardInterrupt", "generate()"),
    "raise GeneratorExit": ("raised GeneratorExit", "generate()"),
}
"""What scenarios do: the anomaly, and during what it happens."""
CULPRITS = {deed: 2 + 3 * place for place, deed in enumerate(DEEDS)}
"""The number of the scenario that does each of them."""
FAMILY = """
import ctypes, os, signal, sys, time
from onceproof import Chance, Workload
from onceproof.engine import Types

name = "shelves"
generator_version = 1
tasks = {"books -> books": "source", "ledger": "sink"}
record_schema = "number BIGINT"
row_schema = "number BIGINT"
oracle_sql = "SELECT scenario_id, number FROM records"


def evil(number):
    pass  # DEEDS


def generate(random):
    number = random.getrandbits(40)
    if number in {()}:  # DURING_GENERATE
        evil(number)
    return Workload({"one": [(0, (number,)), (1, (number,))]})


def number_of(record):
    if record[0] in {()}:  # DURING_RUN
        evil(record[0])
    return record


def job(env, io):
    books = env.from_source(io.source("books"), None, "books").uid("books")
    rows = books.map(number_of).name("books").uid("map").rebalance()
    rows.add_sink(io.sink("ledger")).name("ledger").uid("ledger")


def expected(records, declared):
    return [value for values in records.values() for _, value in values]
"""


def number_in(family: Family, scenario: int) -> int:
    """Return the number in the records of a scenario, which no other scenario has."""
    records = generate(family, scenario_seed(0, "shelves", scenario)).records
    [number] = {value[0] for values in records.values() for _, value in values}
    return cast(int, number)


def family(folder: Path, *deeds: tuple[int, str, str]) -> str:
    """Write a family of which some scenarios do something evil: their number, the deed, and during what."""
    path = folder / "shelves.py"
    path.write_text(FAMILY, encoding="utf-8")
    sound = load_family(str(path))
    lines, places = [], {"generate()": {()}, "its run": {()}}
    for scenario, deed, during in deeds:
        number = number_in(sound, scenario)
        lines.append(f"    if number == {number}:\n        {deed}\n")
        places[during].add(number)
    text = FAMILY.replace("    pass  # DEEDS\n", "".join(lines))
    text = text.replace("{()}:  # DURING_GENERATE", f"{places['generate()']}:")
    text = text.replace("{()}:  # DURING_RUN", f"{places['its run']}:")
    path.write_text(text, encoding="utf-8")
    return str(path)


def tried(path: str, out: Path | None = None, **options: Any) -> RunResult:
    return run(RunPlan((path,), scenarios=SCENARIOS, workers=2, budget=Budget(2.0, 256), **options), out)


class Evil(NamedTuple):
    """A run in which each deed is done once."""

    path: str
    result: RunResult
    failures: dict[Signature, FailureCase]


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Evil:
    folder = tmp_path_factory.mktemp("evil")
    path = family(folder, *((CULPRITS[deed], deed, during) for deed, (_, during) in DEEDS.items()))
    result = tried(path, out=folder / "out")
    cases = examine_failures(result, RunPlan((), out=folder / "out", shrink_runs=0))
    return Evil(path, result, {case.signature: case for case in cases})


def test_scenarios_that_end_their_process_leave_all_others_as_they_are(evil: Evil) -> None:
    tally = evil.result.tally
    assert (tally.scenarios, tally.failed) == (SCENARIOS, len(DEEDS))
    lines = (Path(evil.path).parent / "out" / "outcomes.jsonl").read_bytes().splitlines()
    seeds = {from_line(line).seed for line in lines}
    assert seeds == {scenario_seed(0, "shelves", number) for number in range(SCENARIOS)}


@pytest.mark.parametrize("deed", DEEDS)
def test_a_scenario_that_never_answers_fails_alone(evil: Evil, deed: str) -> None:
    anomaly, during = DEEDS[deed]
    culprit = scenario_seed(0, "shelves", CULPRITS[deed])
    group = evil.result.tally.groups["shelves", ("no_error", anomaly)]
    assert (group.first.seed, group.count) == (culprit, 1)
    if anomaly.startswith("raised"):
        return
    case = evil.failures["no_error", anomaly]
    assert case.replay_seed == f"onceproof replay {culprit} --family {evil.path}"
    assert f"{anomaly}, during {during}" in case.explanation.sentence
    if "process ended" not in anomaly and "SIGKILL" not in anomaly:
        assert f"evil ({evil.path}:" in case.explanation.sentence
    assert not case.repeated


@pytest.mark.parametrize("during", ["its run", "generate()"])
def test_a_scenario_that_exhausts_its_memory_fails_alone(tmp_path: Path, during: str) -> None:
    # The memory of `bytes` counts, and is never touched.
    hoard = "hoard = []\n        while True: hoard.append(bytes(50_000_000))"
    result = tried(family(tmp_path, (17, hoard, during)), out=tmp_path / "out")
    assert (result.tally.scenarios, result.tally.failed) == (SCENARIOS, 1)
    [group] = result.tally.groups.values()
    assert group.first.seed == CULPRIT
    expected = ("MemoryError", "evil") if during == "its run" else ("no_error", "memory exceeded")
    assert group.signature == expected
    # Shrinking runs it here, and is limited as well.
    [case] = examine_failures(result, RunPlan((), out=tmp_path / "out", shrink_runs=3))
    assert case.signature == expected


def test_a_forked_child_that_returns_from_a_scenario_ends(tmp_path: Path) -> None:
    path = family(tmp_path, (17, "os.fork()", "generate()"))
    result = tried(path, out=tmp_path / "out")
    assert (result.tally.scenarios, result.tally.failed) == (SCENARIOS, 0)
    lines = (tmp_path / "out" / "outcomes.jsonl").read_bytes().splitlines()
    assert len(lines) == SCENARIOS


def test_the_check_of_a_family_names_a_scenario_that_ends_its_process(tmp_path: Path) -> None:
    path = family(tmp_path, (17, "os.abort()", "its run"))
    [mistake] = supervised_mistakes(path, 0, 18)
    assert mistake.member == "job"
    said = f"seed {CULPRIT}: its process died: SIGABRT, during its run, in evil ({path}:"
    assert mistake.sentence.startswith(said)


def test_the_same_scenario_is_lost_in_every_run(tmp_path: Path) -> None:
    path = family(tmp_path, (17, "os.abort()", "its run"))
    first, second = tried(path, out=tmp_path / "first"), tried(path, out=tmp_path / "second")
    assert first.tally.trace_hash() == second.tally.trace_hash()
