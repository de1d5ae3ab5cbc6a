"""The workflows of continuous integration: nobody can run them here, so what they call is looked up."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from onceproof.harness.campaign.pipeline import TRIALS
from onceproof.harness.commands.cli import app
from onceproof.harness.nightly.night import (
    FOLDER_OF_CAMPAIGN,
    FOLDER_OF_FLIGHTS,
    FOLDER_OF_HISTORY,
    FOLDER_OF_YEAR,
)
from onceproof.harness.settings.run_plan import OUT, RUN

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
CALLS = {"enumeration": 1, "nightly": 1, "pull_request": 2}
"""How often each workflow calls a command of ours."""
NAMES = tuple(CALLS)


def workflow(name: str) -> dict[str, Any]:
    """Return a workflow, every scalar a text: YAML would take the key `on` for a truth value."""
    document = yaml.load((WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8"), yaml.BaseLoader)
    assert isinstance(document, dict)
    return document


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


def scripts(name: str) -> list[str]:
    return [step["run"] for step in steps(name) if "run" in step]


def step_using(name: str, action: str) -> dict[str, Any]:
    [found] = [step for step in steps(name) if step.get("uses", "").startswith(f"{action}@")]
    return found


def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z]+):", text, re.MULTILINE))


def options_of(command: str) -> set[str]:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {option for parameter in commands[command].params for option in parameter.opts}


def commands_in(script: str) -> list[tuple[str, list[str]]]:
    """Return the commands of ours that a script calls, each with the names of its options."""
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        if match := re.search(r"\bonceproof (\w+)(.*)", line):
            found.append((match[1], re.findall(r"(?<![\w-])--?[a-z][\w-]*", match[2])))
        if match := re.search(r'\bmake (\w+)(?: OPTIONS="([^"]*)")?', line):
            assert match[1] in targets()
            if match[2]:
                assert "$(OPTIONS)" in (ROOT / "Makefile").read_text(encoding="utf-8")
                found.append((match[1], re.findall(r"(?<![\w-])--?[a-z][\w-]*", match[2])))
    return found


def look_up(script: str) -> int:
    """Look up what a script calls, and return how many commands these are."""
    called = commands_in(script)
    for command, options in called:
        assert set(options) <= options_of(command), (command, options)
    return len(called)


def test_these_are_all_workflows() -> None:
    assert sorted(path.stem for path in WORKFLOWS.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_to_a_version(name: str) -> None:
    used = [step["uses"] for step in steps(name) if "uses" in step]
    assert used
    for action in used:
        # GitHub's own only: whoever adds another one thinks about whom to trust.
        assert re.fullmatch(r"actions/[\w/-]+@v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("name", NAMES)
def test_they_may_read_and_nothing_else(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
    for job in workflow(name)["jobs"].values():
        assert "permissions" not in job
        assert int(job["timeout-minutes"]) <= 60
    for step in steps(name):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"
    assert "secrets." not in (WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_scripts_are_shell_and_nothing_is_put_into_them(name: str) -> None:
    for script in scripts(name):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        # An expression would be pasted in before the shell sees it: values come through the environment.
        assert "${{" not in script


@pytest.mark.parametrize("name", NAMES)
def test_what_they_call_exists(name: str) -> None:
    assert sum(map(look_up, scripts(name))) == CALLS[name]


@pytest.mark.parametrize(
    "script",
    ["make nigthly", ".venv/bin/onceproof rnu --seed 3", '.venv/bin/onceproof run --sede "$SEED"'],
)
def test_a_slip_would_be_seen(script: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        look_up(script)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_found_is_kept_whatever_became_of_it(name: str) -> None:
    uploads = [step for step in steps(name) if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert uploads
    assert all(step["if"] == "always()" for step in uploads)


def test_the_night_comes_every_night_and_when_somebody_asks() -> None:
    triggers = workflow("nightly")["on"]
    [schedule] = triggers["schedule"]
    minute, hour, *rest = schedule["cron"].split()
    # Not on the hour, when everybody's night begins.
    assert 0 < int(minute) < 60
    assert 0 <= int(hour) < 24
    assert rest == ["*", "*", "*"]
    inputs = triggers["workflow_dispatch"]["inputs"]
    assert {name: each["type"] for name, each in inputs.items()} == {"seed": "number", "seconds": "number"}


def test_the_history_goes_from_one_night_to_the_next() -> None:
    restore = step_using("nightly", "actions/cache/restore")["with"]
    save = step_using("nightly", "actions/cache/save")
    assert restore["path"] == save["with"]["path"] == str(OUT / FOLDER_OF_HISTORY)
    assert save["if"] == "always()"
    # A cache is never written again, so each run has a key of its own, and takes the latest that there is.
    assert restore["key"] == save["with"]["key"]
    assert "github.run_id" in restore["key"]
    assert "github.run_attempt" in restore["key"]
    assert restore["key"].startswith(restore["restore-keys"])
    assert "$" not in restore["restore-keys"]
    order = [step.get("uses", step.get("run", "")).split("@")[0] for step in steps("nightly")]
    night = next(place for place, what in enumerate(order) if what.startswith("make nightly"))
    assert order.index("actions/cache/restore") < night < order.index("actions/cache/save")
    assert workflow("nightly")["concurrency"] == {"group": "nightly", "cancel-in-progress": "false"}


def test_the_report_of_a_night_is_kept_without_what_can_be_made_again() -> None:
    paths = step_using("nightly", "actions/upload-artifact")["with"]["path"].split()
    left_out = [FOLDER_OF_YEAR, FOLDER_OF_FLIGHTS, f"{FOLDER_OF_CAMPAIGN}/{TRIALS}"]
    assert paths == [str(OUT), *(f"!{OUT}/{folder}/**" for folder in left_out)]


def test_the_results_of_a_pull_request_are_where_they_are_looked_for() -> None:
    uploads = {
        step["with"]["name"]: step["with"]["path"]
        for step in steps("pull_request")
        if step.get("uses", "").startswith("actions/upload-artifact@")
    }
    [test] = [step for step in steps("pull_request") if step.get("run") == "make test"]
    assert test["env"]["PYTEST_ADDOPTS"] == f"--junit-xml={uploads['tests']}"
    assert uploads["run-report"] == str(OUT / RUN)
    [run] = [script for script in scripts("pull_request") if "onceproof run" in script]
    words = shlex.split(run)
    assert Path(words[words.index("--junit") + 1]).parent == OUT / RUN
    # Bounded: nobody waits for a change to be tried for ever.
    assert float(words[words.index("--max-time") + 1]) <= 120


def test_tests_run_side_by_side() -> None:
    assert re.search(r"^\t@.*pytest -n ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    ("seed", "seconds", "options"),
    [
        ("", "", "--junit reports/out/junit.xml"),
        ("7", "60", "--junit reports/out/junit.xml --seed 7 --max-time 60"),
    ],
)
def test_what_is_typed_for_a_night_reaches_the_command(
    tmp_path: Path, seed: str, seconds: str, options: str
) -> None:
    # As the runner does it: a schedule leaves the inputs empty. In make's place stands a command that tells.
    (tmp_path / "make").write_text('#!/bin/sh\necho "$@"\nexit 1\n', encoding="utf-8")
    (tmp_path / "make").chmod(0o755)
    [script] = [script for script in scripts("nightly") if script.startswith("make nightly")]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path)}
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=environment | {"SEED": seed, "CAMPAIGN_SECONDS": seconds},
        capture_output=True,
        text=True,
    )
    # The summary is kept and the failure is not swallowed by it.
    assert ended.returncode == 1
    assert (tmp_path / "night.txt").read_text(encoding="utf-8") == ended.stdout
    assert ended.stdout.split() == ["nightly", *f"OPTIONS={options}".split()]
