"""Settings in pyproject.toml as the commands use them, and known failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.trials.output_files import OUTCOMES

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command

KNOWN = """
[[tool.onceproof.known]]
family = "{}"
property = "{}"
anomaly = "{}"
since = 2026-11-01
why = "ISSUE-12"
"""


def settings(text: str, *signatures: tuple[str, str, str]) -> None:
    known = "".join(KNOWN.format(*signature) for signature in signatures)
    Path("pyproject.toml").write_text(f"[tool.onceproof]\n{text}\n{known}", encoding="utf-8")


def report_in(folder: str) -> Any:
    return json.loads(Path(folder, "report.json").read_bytes())


def signatures_in(folder: str) -> set[tuple[str, str, str]]:
    """Return family, property and anomaly of each symptom of the findings in a report."""
    return {
        (failure["family"], symptom["property"], symptom["anomaly"])
        for failure in report_in(folder)["failures"]
        for symptom in (failure, *failure.get("symptoms", ()))
    }


def test_command_line_overrides_the_settings(onceproof: Command) -> None:
    settings('families = ["word_count"]\nscenarios = 6\nseed = 3\nworkers = 1\nout = "build"')
    assert onceproof("run").code == 0
    assert report_in("build/run")["facts"]["seed"] == 3
    outcomes = [from_line(line) for line in Path("build/run", OUTCOMES).read_bytes().splitlines()]
    assert [outcome.family for outcome in outcomes] == ["word_count"] * 6
    assert onceproof("run", "page_views", "--seed", "4", "--scenarios", "2", "--out", "here").code == 0
    outcomes = [from_line(line) for line in Path("here", OUTCOMES).read_bytes().splitlines()]
    assert [outcome.family for outcome in outcomes] == ["page_views"] * 2


@pytest.mark.parametrize("command", [["run"], ["campaign"], ["nightly"]])
def test_wrong_settings_are_reported_before_the_run(onceproof: Command, command: list[str]) -> None:
    settings("wrokers = 1")
    ended = onceproof(*command)
    assert ended.code == 4
    assert ended.error == (
        "onceproof: pyproject.toml: tool.onceproof.wrokers: unknown setting; did you mean workers?\n"
    )
    assert not Path("reports").exists()


def test_families_ignores_the_settings_and_replay_reads_its_time_there(onceproof: Command) -> None:
    settings("wrokers = 1")
    assert onceproof("families").code == 0
    assert onceproof("replay", "3", "--family", "word_count").code == 4


def run_of(scenarios: int) -> tuple[str, ...]:
    number = ("--scenarios", str(scenarios))
    return ("run", "forgetful.py", *number, "-n", "1", "--out", "out", "--shrink-runs", "0")


def test_run_with_only_known_failures_passes_and_lists_them(onceproof: Command, forgetful: Path) -> None:
    assert onceproof(*run_of(16)).code == 1
    signatures = signatures_in("out")
    settings("", *signatures, ("forgetful", "fencing", "never seen"), ("other", "liveness", "stuck"))
    ended = onceproof(*run_of(16))
    assert ended.code == 0
    assert "FAILED" not in ended.out
    lines = ended.out.splitlines()
    known = [line for line in lines if line.startswith("known forgetful: ")]
    assert 0 < len(known) == lines.count("  since 2026-11-01: ISSUE-12")
    assert [line for line in lines if line.startswith("  onceproof replay ")]
    assert any(
        line.startswith("forgetful: 16 scenarios, ") and line.endswith(" failed, known") for line in lines
    )
    # The summary names the known failure that did not occur, but not that of a family that did not run.
    assert [line for line in lines if line.startswith("note: Known failures that did not occur")] == [
        "note: Known failures that did not occur: forgetful: fencing, never seen, in 16 scenarios"
        " (if it is fixed, remove it from the settings)"
    ]
    page = Path("out", "index.html").read_text(encoding="utf-8")
    assert "<title>Known failures only" in page
    assert 'class="verdict warn"' in page


def test_new_failure_is_listed_before_known_ones(onceproof: Command, forgetful: Path) -> None:
    onceproof(*run_of(40))
    new, *listed = sorted(signatures_in("out"))
    assert listed
    settings("", *listed)
    ended = onceproof(*run_of(40))
    assert ended.code == 1
    heads = [line for line in ended.out.splitlines() if line.startswith(("FAILED", "known forgetful"))]
    assert heads[0].startswith(f"FAILED forgetful: {new[1]}, {new[2]}, ")
    # What is listed may be one finding, or several.
    assert {line.split()[0] for line in heads[1:]} == {"known"}
    assert " of them known" in next(line for line in ended.out.splitlines() if line.startswith("forgetful: "))
    report = report_in("out")
    assert [failure.get("known", False) for failure in report["failures"]] == [False] + [True] * len(
        heads[1:]
    )
    family = report["families"][0]
    assert 0 < family["known"] < family["failed"]
