"""The CI workflows. They cannot run here, so the tests check that their commands and options exist."""

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
from onceproof.harness.nightly.night import FOLDER_OF_CAMPAIGN, FOLDER_OF_HISTORY
from onceproof.harness.settings.planning import OUT, RUN
from tests.enumeration.__main__ import enumeration
from tests.mutation.__main__ import parser
from tests.nightly import FOLDER_OF_FLIGHTS, FOLDER_OF_YEAR

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
CALLS = {"enumeration": 1, "hunt": 1, "nightly": 2, "pull_request": 2}
"""Number of commands of the project in each workflow."""
NAMES = tuple(CALLS)


def workflow(name: str) -> dict[str, Any]:
    """Return a workflow with all scalars as texts, because YAML reads the key `on` as a boolean."""
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
    if command == "tests.enumeration":
        alone = typer.Typer()
        alone.command()(enumeration)
        return {option for parameter in typer.main.get_command(alone).params for option in parameter.opts}
    if command == "mutation":
        return set(parser()._option_string_actions)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {option for parameter in commands[command].params for option in parameter.opts}


def commands_in(script: str) -> list[tuple[str, list[str]]]:
    """Return the onceproof commands of a script with the names of their options."""
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        if match := re.search(r"\b(?:onceproof|python -m) ([\w.]+)(.*)", line):
            found.append((match[1], re.findall(r"(?<![\w-])--?[a-z][\w-]*", match[2])))
        if match := re.search(r'\bmake (\w+)(?: OPTIONS="([^"]*)")?', line):
            assert match[1] in targets()
            if match[2]:
                assert "$(OPTIONS)" in (ROOT / "Makefile").read_text(encoding="utf-8")
                found.append((match[1], re.findall(r"(?<![\w-])--?[a-z][\w-]*", match[2])))
    return found


def look_up(script: str) -> int:
    """Check that the commands and options of a script exist; return the number of commands."""
    called = commands_in(script)
    for command, options in called:
        assert set(options) <= options_of(command), (command, options)
    return len(called)


def test_workflows_folder_has_the_expected_files() -> None:
    assert sorted(path.stem for path in WORKFLOWS.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_to_a_version(name: str) -> None:
    used = [step["uses"] for step in steps(name) if "uses" in step]
    assert used
    for action in used:
        # Only GitHub's own actions; another one must be trusted first.
        assert re.fullmatch(r"actions/[\w/-]+@v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("name", NAMES)
def test_workflows_have_read_permission_only(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
    for job in workflow(name)["jobs"].values():
        assert "permissions" not in job
        assert int(job["timeout-minutes"]) <= 60
    for step in steps(name):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"
    assert "secrets." not in (WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_scripts_are_valid_shell_without_expressions(name: str) -> None:
    for script in scripts(name):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        # GitHub inserts expressions before the shell parses them, so values come through the environment.
        assert "${{" not in script


@pytest.mark.parametrize("name", NAMES)
def test_commands_of_the_workflows_exist(name: str) -> None:
    assert sum(map(look_up, scripts(name))) == CALLS[name]


@pytest.mark.parametrize(
    "script",
    ["make nigthly", ".venv/bin/onceproof rnu --seed 3", '.venv/bin/onceproof run --sede "$SEED"'],
)
def test_misspelt_command_is_detected(script: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        look_up(script)


@pytest.mark.parametrize("name", NAMES)
def test_artifacts_are_uploaded_even_after_a_failure(name: str) -> None:
    uploads = [step for step in steps(name) if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert uploads
    assert all(step["if"] == "always()" for step in uploads)


def test_nightly_workflow_runs_every_night_and_on_request() -> None:
    triggers = workflow("nightly")["on"]
    [schedule] = triggers["schedule"]
    minute, hour, *rest = schedule["cron"].split()
    # Not on the hour, when many schedules start.
    assert 0 < int(minute) < 60
    assert 0 <= int(hour) < 24
    assert rest == ["*", "*", "*"]
    inputs = triggers["workflow_dispatch"]["inputs"]
    assert {name: each["type"] for name, each in inputs.items()} == {"seed": "number", "seconds": "number"}


def test_history_is_passed_from_one_night_to_the_next() -> None:
    restore = step_using("nightly", "actions/cache/restore")["with"]
    save = step_using("nightly", "actions/cache/save")
    assert restore["path"] == save["with"]["path"] == str(OUT / FOLDER_OF_HISTORY)
    assert save["if"] == "always()"
    # A cache cannot be overwritten, so each run has its own key and restores the latest one.
    assert restore["key"] == save["with"]["key"]
    assert "github.run_id" in restore["key"]
    assert "github.run_attempt" in restore["key"]
    assert restore["key"].startswith(restore["restore-keys"])
    assert "$" not in restore["restore-keys"]
    order = [step.get("uses", step.get("run", "")).split("@")[0] for step in steps("nightly")]
    night = next(place for place, what in enumerate(order) if what.startswith("make nightly"))
    assert order.index("actions/cache/restore") < night < order.index("actions/cache/save")
    assert workflow("nightly")["concurrency"] == {"group": "nightly", "cancel-in-progress": "false"}


def test_nightly_artifact_omits_reproducible_folders() -> None:
    paths = step_using("nightly", "actions/upload-artifact")["with"]["path"].split()
    left_out = [FOLDER_OF_YEAR, FOLDER_OF_FLIGHTS, f"{FOLDER_OF_CAMPAIGN}/{TRIALS}"]
    assert paths == [str(OUT), *(f"!{OUT}/{folder}/**" for folder in left_out)]


def test_results_of_a_pull_request_are_uploaded_from_their_folder() -> None:
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
    # The time is bounded, because a pull request waits for it.
    assert float(words[words.index("--max-time") + 1]) <= 120


def test_make_test_runs_tests_in_parallel() -> None:
    assert re.search(r"^\t@.*pytest -n ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    ("seed", "seconds", "options"),
    [
        ("", "", "--junit reports/out/junit.xml"),
        ("7", "60", "--junit reports/out/junit.xml --seed 7 --max-time 60"),
    ],
)
def test_inputs_of_the_nightly_workflow_reach_the_command(
    tmp_path: Path, seed: str, seconds: str, options: str
) -> None:
    # As on the runner: a schedule leaves the inputs empty. A script that prints its arguments replaces make.
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
    # The summary is kept, and the exit code is that of the failed command.
    assert ended.returncode == 1
    assert (tmp_path / "night.txt").read_text(encoding="utf-8") == ended.stdout
    assert ended.stdout.split() == ["nightly", *f"OPTIONS={options}".split()]


# The action and the examples of the page about continuous integration


def ci_page() -> str:
    return (ROOT / "harness" / "docs" / "ci.md").read_text(encoding="utf-8")


def action() -> dict[str, Any]:
    document = yaml.load((ROOT / "action.yml").read_text(encoding="utf-8"), yaml.BaseLoader)
    assert isinstance(document, dict)
    return document


def test_action_puts_no_input_into_a_script() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), step


def test_page_lists_the_inputs_of_the_action() -> None:
    table = ci_page().partition("| input | meaning")[2].partition("\n\n")[0]
    listed = re.findall(
        r"`([\w-]+)`", "\n".join(row.split("|")[1] for row in table.splitlines() if "`" in row)
    )
    assert sorted(listed) == sorted(action()["inputs"])


@pytest.mark.parametrize(
    ("families", "named"),
    [("", []), ("a.py word_count", ["a.py", "word_count"]), ("$(id) ;ls", ["$(id)", ";ls"])],
)
def test_action_runs_the_command_with_its_inputs(tmp_path: Path, families: str, named: list[str]) -> None:
    (tmp_path / "onceproof").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 1\n', encoding="utf-8")
    (tmp_path / "onceproof").chmod(0o755)
    [step] = [step for step in action()["runs"]["steps"] if "onceproof run" in step.get("run", "")]
    inputs = {name: each["default"] for name, each in action()["inputs"].items()} | {"families": families}
    environment = {
        name: inputs[found[1]] if (found := re.search(r"inputs\.([\w-]+)", text)) else text
        for name, text in step["env"].items()
    }
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env=environment | {"PATH": f"{tmp_path}:/usr/bin:/bin", "SEED": "12"},
        capture_output=True,
        text=True,
    )
    # The exit code of the run is that of the step.
    assert ended.returncode == 1
    words = ended.stdout.splitlines()
    assert words[: 1 + len(named)] == ["run", *named]
    options = dict(zip(words[1 + len(named) :: 2], words[2 + len(named) :: 2], strict=True))
    assert options["--seed"] == "12"
    assert options["--junit"] == f"{OUT / RUN}/junit.xml"
    assert {option.removeprefix("--") for option in options} <= {
        name.removeprefix("--") for name in options_of("run")
    }


def test_examples_of_other_systems_call_options_that_exist() -> None:
    calls = re.findall(r"onceproof (run|merge|check) ([^\n'`|]*)", ci_page())
    assert {command for command, _ in calls} == {"run", "merge"}
    for command, words in calls:
        assert set(re.findall(r"(?<!\S)--[\w-]+", words)) <= options_of(command), (command, words)
    for block in re.findall(r"```yaml\n(.*?)```", ci_page(), re.DOTALL):
        assert isinstance(yaml.safe_load(block), dict)


def test_container_copies_every_package() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = {word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]}
    assert {"engine", "harness", "reports", "scenarios", "pyproject.toml", "README.md", "LICENSE"} <= copied
    kept = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in copied} <= set(kept)
    assert all((ROOT / name).exists() for name in copied)
