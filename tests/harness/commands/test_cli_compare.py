"""`onceproof compare`: the same scenarios on several systems, side by side in a table and on a page."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path

import pytest

from onceproof.engine.extras import ExtraMissing
from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.exit_codes import NOTHING_RAN
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.system import System, find_system
from onceproof.harness.settings import comparison_plan
from onceproof.harness.trials.output_files import OUTCOMES
from tests.harness.commands.conftest import Command

PROGRAMS_PAGE = Path(__file__).parents[3] / "harness" / "docs" / "programs.md"


def seed_with_one_early_kill() -> str:
    """Return the first seed whose first scenario kills a task or the process once, for certain, on local."""
    family = load_family("word_count")
    for seed in count():
        faults = generate(family, scenario_seed(seed, family.name, 0)).faults
        kills = [fault for fault in faults if fault.kind in KILLS]
        place = [(fault.kind, fault.point, fault.checkpoint, fault.rescale_to) for fault in kills]
        if place == [("kill_process", "acknowledged", 1, 0)]:
            return str(seed)
    raise AssertionError


def seed_without_faults() -> str:
    """Return the first seed whose first scenario has no fault."""
    family = load_family("word_count")
    scenarios = ((seed, generate(family, scenario_seed(seed, family.name, 0))) for seed in count())
    return str(next(seed for seed, scenario in scenarios if not scenario.faults))


def row_of(table: str, name: str) -> list[str]:
    """Return the cells of a row of a printed table."""
    [line] = [line for line in table.splitlines() if re.match(rf"{re.escape(name)}\s{{2,}}", line)]
    return re.split(r"\s{2,}", line.strip())


@pytest.mark.local_kill
def test_systems_run_the_same_scenarios_and_stand_side_by_side(onceproof: Command) -> None:
    options = ["--scenarios", "2", "--seed", seed_with_one_early_kill(), "-n", "1", "--out", "out"]
    ended = onceproof("compare", "word_count", "--systems", "simulated,local", *options)
    assert ended.code == 0, ended.out + ended.error
    seeds = [
        [from_line(line).seed for line in Path("out", system, OUTCOMES).read_bytes().splitlines()]
        for system in ("simulated", "local")
    ]
    assert seeds[0] == seeds[1]
    assert len(seeds[0]) == 2
    # The simulation has no seconds in which a job recovers; a real process has.
    simulated, local = row_of(ended.out, "simulated"), row_of(ended.out, "local")
    assert (simulated[1], simulated[4], simulated[5]) == ("2", "-", "-")
    assert local[1] == "2"
    assert int(local[2]) >= 1
    assert re.fullmatch(r"[\d.]+ m?s", local[4])
    assert row_of(ended.out, "liveness") == ["liveness", "2 passed", "2 passed"]
    report = json.loads(Path("out", "report.json").read_bytes())
    assert [row["name"] for row in report["comparison"]] == ["simulated", "local"]
    assert "recovery_seconds" not in report["comparison"][0]
    assert report["comparison"][1]["recovery_seconds"] > 0
    page = Path("out", "index.html").read_text(encoding="utf-8")
    assert "Systems side by side" in page
    assert "Cost of a scenario" in page


def test_failures_come_with_their_system_and_a_replay_that_fails(onceproof: Command, forgetful: Path) -> None:
    options = ["--scenarios", "6", "--seed", "1", "-n", "1", "--out", "out", "--shrink-runs", "2"]
    ended = onceproof("compare", "word_count", "forgetful.py", "--systems", "simulated", *options, "--json")
    assert ended.code == 1
    document = json.loads(ended.out)
    rows = {row["name"]: row for row in document["systems"]}
    assert list(rows) == ["forgetful on simulated", "word_count on simulated"]
    failed = rows["forgetful on simulated"]["failed"]
    assert failed > 0
    assert rows["forgetful on simulated"]["properties"]["exactly_once"] == {
        "passed": 6 - failed,
        "failed": failed,
    }
    assert rows["word_count on simulated"]["failed"] == 0
    assert document["failed"] == failed
    failure = document["failures"][0]
    assert (failure["family"], failure["system"]) == ("forgetful", "simulated")
    assert failure["replay"].startswith("onceproof replay out/simulated/failures/forgetful-")
    # The tables are on stderr, so that stdout is one document.
    assert f"{failed} of 6 FAILED" in ended.error
    assert onceproof(*failure["replay"].split()[1:]).code == 1


def test_system_that_cannot_run_the_family_is_left_out_with_a_line(onceproof: Command) -> None:
    options = ["--scenarios", "1", "-n", "1", "--out", "out"]
    ended = onceproof("compare", "word_count", "--systems", "command, simulated", *options)
    assert ended.code == 0
    line = "word_count is left out on command: it runs programs: give a FILE.toml"
    assert ended.error.splitlines() == [f"onceproof: {line}"]
    assert line in Path("out", "index.html").read_text(encoding="utf-8")


def test_system_without_its_extra_is_left_out_with_a_line(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> System:
        if name == "spark":
            raise ExtraMissing("system spark needs pyspark")
        return find_system(name)

    monkeypatch.setattr(comparison_plan, "find_system", find)
    options = ["--scenarios", "1", "-n", "1"]
    ended = onceproof("compare", "word_count", "--systems", "spark,simulated", *options)
    assert (ended.code, ended.error) == (0, "onceproof: left out: system spark needs pyspark\n")
    ended = onceproof("compare", "word_count", "--systems", "spark", *options)
    assert ended.code == 4
    assert ended.error == "onceproof: nothing to compare: left out: system spark needs pyspark\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("word_count", "--systems", "simulated,lokal"), "unknown system 'lokal': did you mean local?"),
        (("word_count", "--systems", ","), "--systems names no system: there are simulated, "),
        (("word_cont", "--systems", "simulated"), "unknown family 'word_cont'"),
        (
            ("word_count", "--systems", "command"),
            "nothing to compare: word_count is left out on command: it runs programs: give a FILE.toml",
        ),
        (("word_count",), "missing option '--systems'"),
        (("--systems", "simulated"), "missing argument 'FAMILY|FILE...'"),
    ],
)
def test_wrong_usage_is_one_line_with_exit_code_4(
    onceproof: Command, arguments: tuple[str, ...], line: str
) -> None:
    ended = onceproof("compare", *arguments)
    assert ended.code == 4
    [printed] = ended.error.splitlines()
    assert printed.startswith(f"onceproof: {line}")


@pytest.mark.local_kill
def test_program_and_family_run_on_the_systems_that_can_take_them(onceproof: Command) -> None:
    text = PROGRAMS_PAGE.read_text(encoding="utf-8")
    Path("copier.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0], encoding="utf-8")
    first, mended = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]
    Path("copier.py").write_text(first.partition("stored_at = ")[0] + mended, encoding="utf-8")
    options = ["--scenarios", "1", "--seed", seed_without_faults(), "-n", "1", "--out", "out", "--json"]
    ended = onceproof("compare", "word_count", "copier.toml", "--systems", "simulated,command", *options)
    # One scenario each is too little for a verdict: the simulation's has no kill.
    assert ended.code == NOTHING_RAN, ended.error
    assert re.search(r"Barely tested\. No kill struck .*word_count on simulated, so there is no", ended.error)
    assert re.search(r"exactly_once +(1 passed|no kills) +no kills", ended.error)
    document = json.loads(ended.out)
    rows = {row["name"]: row for row in document["systems"]}
    assert list(rows) == ["copier on command", "word_count on simulated"]
    # What a program reads again is not known, and the properties of checkpoints are not asked of it.
    assert rows["copier on command"]["records_replayed"] is None
    assert "consistent_cut" in rows["word_count on simulated"]["properties"]
    assert "consistent_cut" not in rows["copier on command"]["properties"]
    assert document["left_out"] == [
        "copier.toml is left out on simulated: a program runs on the system command",
        "word_count is left out on command: it runs programs: give a FILE.toml",
    ]
