"""The commands with which a user begins: init, doctor, completion; and what every command offers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml
from rich.console import Console
from rich.progress import Progress

from onceproof.engine.extras import PACKAGES
from onceproof.engine.runtime.java import JavaMissing
from onceproof.harness.commands.cli import app
from onceproof.harness.commands.completion import VARIABLE
from onceproof.harness.commands.init import FILES, STARTER, requirement
from onceproof.harness.commands.services_cli import SERVER_NAMES
from onceproof.harness.model.exit_codes import FAILED, PASSED, USAGE
from onceproof.harness.model.system_homes import system_names
from onceproof.harness.reporting.progress import Bar, TimeLeft
from onceproof.harness.services.servers import SERVERS

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command

ROOT = Path(__file__).parents[3]


def leaves(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each command of a group with its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


UNKNOWN_SOURCE = "git+https://HOST/OWNER/onceproof@v0.2.0"
COMMANDS = dict(leaves(typer.main.get_command(app)))


# init


def test_init_writes_a_family_that_is_sound_and_passes(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = onceproof("init", "proofs")
    assert ended.code == PASSED
    assert {str(path.relative_to("proofs")) for path in Path("proofs").rglob("*") if path.is_file()} == {
        *FILES
    }
    assert all(name in ended.out for name in FILES)
    monkeypatch.chdir("proofs")
    assert onceproof("check", "sales.py", "--no-sql", "--scenarios", "5").code == PASSED
    # The settings name the family.
    ran = onceproof("run", "--scenarios", "10", "-n", "1")
    assert ran.code == PASSED
    assert "sales: 10 scenarios, passed" in ran.out


def test_test_of_init_passes_in_pytest(onceproof: Command) -> None:
    onceproof("init", "proofs")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    options = ("-q", "-p", "no:hypothesispytest", "-p", "no:xdist", "--onceproof-scenarios", "10")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd="proofs",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout


def test_init_overwrites_nothing(onceproof: Command) -> None:
    Path("proofs").mkdir()
    Path("proofs", ".gitignore").write_text("mine\n", encoding="utf-8")
    ended = onceproof("init", "proofs")
    assert (ended.code, ended.out) == (USAGE, "")
    assert "proofs/.gitignore: is already there" in ended.error
    assert [path.name for path in Path("proofs").iterdir()] == [".gitignore"]


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, "onceproof==0.2.0"),
        ('{"url": "file:///home/me/onceproof", "dir_info": {}}', f"onceproof @ {UNKNOWN_SOURCE}"),
        ('{"url": "file:///x/onceproof.whl", "archive_info": {}}', f"onceproof @ {UNKNOWN_SOURCE}"),
        ('{"url": "https://x.example/o.whl", "archive_info": {}}', "onceproof @ https://x.example/o.whl"),
        (
            '{"url": "https://x.example/a/onceproof", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}',
            "onceproof @ git+https://x.example/a/onceproof@c0ffee",
        ),
    ],
)
def test_requirement_of_init_is_where_the_installation_came_from(
    origin: str | None, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = SimpleNamespace(version="0.2.0", read_text={"direct_url.json": origin}.get)
    monkeypatch.setattr("onceproof.harness.commands.init.distribution", lambda name: installed)
    assert requirement("") == line


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("git+https://x.example/a/onceproof@v0.2.0", "onceproof @ git+https://x.example/a/onceproof@v0.2.0"),
        ("./onceproof-0.2.0-py3-none-any.whl", "./onceproof-0.2.0-py3-none-any.whl"),
        ("onceproof==0.2.0", "onceproof==0.2.0"),
    ],
)
def test_init_from_a_source_writes_it_into_the_requirements(
    onceproof: Command, source: str, line: str
) -> None:
    ended = onceproof("init", "proofs", "--install-from", source)
    assert ended.code == PASSED
    assert Path("proofs", "requirements.txt").read_text(encoding="utf-8").splitlines() == [line, "pytest>=9"]
    assert "HOST/OWNER" not in ended.out


def test_init_from_a_folder_says_what_to_put_into_the_requirements(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = {"direct_url.json": '{"url": "file:///home/me/onceproof", "dir_info": {}}'}
    installed = SimpleNamespace(version="0.2.0", read_text=origin.get)
    monkeypatch.setattr("onceproof.harness.commands.init.distribution", lambda name: installed)
    assert "\nrequirements.txt: put the repository " in onceproof("init", "proofs").out
    refused = onceproof("init", "others", "--install-from", "two words")
    assert (refused.code, Path("others").exists()) == (USAGE, False)
    assert refused.error.startswith("onceproof: --install-from 'two words': give one address")


PROGRAM = """
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
orders = env.from_collection([("ada", 5), ("bob", 3), ("ada", 4)])
by_customer = orders.key_by(lambda order: order[0], Types.STRING())
by_customer.reduce(lambda total, order: (total[0], total[1] + order[1])).print()
env.execute()
"""
EXPECTED = """
    totals, rows = {}, []
    for split in records.values():
        for _, (customer, amount) in split:
            totals[customer] = totals.get(customer, 0) + amount
            rows.append((customer, totals[customer]))
    return rows
"""


def test_family_of_a_program_lacks_its_expected_rows_only(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("totals.py").write_text(PROGRAM, encoding="utf-8")
    ended = onceproof("init", "--from", "totals.py", "proofs")
    assert (ended.code, ended.error) == (PASSED, "")
    assert "fill in expected() in proofs/totals_family.py, then" in ended.out
    monkeypatch.chdir("proofs")
    assert '@exactly_once("totals_family.py"' in Path("test_totals.py").read_text(encoding="utf-8")
    for command in ("check", "run"):
        unfinished = onceproof(command, "totals_family.py")
        assert (unfinished.code, unfinished.out, unfinished.error.count("\n")) == (USAGE, "", 1)
        assert "TODO: return the rows" in unfinished.error
    family = Path("totals_family.py")
    written, _, _ = family.read_text(encoding="utf-8").partition("    raise NotImplementedError")
    assert "('ada', 9)" in written
    family.write_text(written + EXPECTED, encoding="utf-8")
    checked = onceproof("check", "totals_family.py", "--scenarios", "5")
    assert (checked.code, checked.out.splitlines()) == (
        PASSED,
        ["totals_family.py: sound in 5 scenarios with nothing going wrong"],
    )
    ran = onceproof("run", "--scenarios", "10", "-n", "1")
    assert ran.code == PASSED
    assert "totals: 10 scenarios, passed" in ran.out
    family.write_text(written + EXPECTED.replace("+ amount", "+ 2 * amount"), encoding="utf-8")
    assert onceproof("check", "totals_family.py", "--scenarios", "5").code == FAILED


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("git+https://x.example/a/onceproof", "where pip has onceproof from is --install-from"),
        ("missing.py", "no such file"),
        ("family.py", "it is a family already: run onceproof check family.py"),
        ("nothing.py", "it executes no job"),
    ],
)
def test_init_from_what_is_no_program_is_one_line(onceproof: Command, given: str, line: str) -> None:
    Path("family.py").write_text((STARTER / "sales.py.txt").read_text(encoding="utf-8"), encoding="utf-8")
    Path("nothing.py").write_text("x = 1\n", encoding="utf-8")
    ended = onceproof("init", "proofs", "--from", given)
    assert (ended.code, ended.error.count("\n"), Path("proofs").exists()) == (USAGE, 1, False)
    assert line in ended.error


def test_init_below_a_file_is_one_line(onceproof: Command) -> None:
    Path("taken").write_text("", encoding="utf-8")
    ended = onceproof("init", "taken/proofs")
    assert ended.code == USAGE
    assert ended.error.startswith("onceproof: taken/proofs/sales.py: cannot be written: ")


def test_family_of_init_is_that_of_the_page() -> None:
    page = (ROOT / "harness" / "docs" / "families.md").read_text(encoding="utf-8")
    [first, *_] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert (STARTER / "sales.py.txt").read_text(encoding="utf-8") == first


def test_workflow_of_init_calls_commands_and_options_that_exist() -> None:
    text = (STARTER / "workflow.yml.txt").read_text(encoding="utf-8")
    [job] = yaml.load(text, yaml.BaseLoader)["jobs"].values()
    calls = [step["run"].split() for step in job["steps"] if step.get("run", "").startswith("onceproof ")]
    assert [call[1] for call in calls] == ["check", "run"]
    for _, command, *words in calls:
        known = {option for parameter in COMMANDS[command].params for option in parameter.opts}
        known |= {option for parameter in COMMANDS[command].params for option in parameter.secondary_opts}
        assert {word for word in words if word.startswith("--")} <= known
    versions = re.findall(r"uses: (\S+)", text)
    ours = "\n".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    assert all(version in ours for version in versions)


# doctor


def test_doctor_has_a_line_for_each_thing(onceproof: Command) -> None:
    ended = onceproof("doctor", "--json")
    found = {each["name"]: each["state"] for each in json.loads(ended.out)}
    assert {*found} == {
        *("python", "cores", "memory", "disk", "temporary files", "java", "ports"),
        *(f"extra {name}" for name in PACKAGES),
        *(f"server {name}" for name in SERVERS),
    }
    assert ended.code == (FAILED if "problem" in found.values() else PASSED)
    assert len(onceproof("doctor").out.splitlines()) == len(found)


def test_doctor_names_a_full_disk_and_a_missing_java(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_none(environment: object) -> None:
        raise JavaMissing("no Java 17 or later: run `make setup`")

    usage = shutil.disk_usage(".")
    monkeypatch.setattr(
        "onceproof.harness.commands.doctor.shutil.disk_usage", lambda folder: usage._replace(free=1 << 20)
    )
    monkeypatch.setattr("onceproof.harness.commands.doctor.find_java", find_none)
    monkeypatch.setattr("onceproof.harness.commands.doctor._lacks", lambda extra: None)
    ended = onceproof("doctor")
    assert ended.code == FAILED
    problems = [line for line in ended.out.splitlines() if line.startswith("problem")]
    assert [line.split()[1] for line in problems] == ["disk", "temporary", "java"]
    assert "make setup" in problems[-1]


# completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_gets_a_script_and_answers(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    script = onceproof("completion", shell)
    assert script.code == PASSED
    assert f"{VARIABLE}=complete_{shell}" in script.out
    monkeypatch.setenv(VARIABLE, f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", "onceproof run --system lo")
    monkeypatch.setenv("COMP_CWORD", "3")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "onceproof run --system lo")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    ended = onceproof()
    assert (ended.code, ended.error) == (PASSED, "")
    assert re.findall(r"local[-\w]*", ended.out) == ["local", "local-workers"]


def test_unknown_shell_is_one_line_with_the_choices(onceproof: Command) -> None:
    ended = onceproof("completion", "tcsh")
    assert (ended.code, ended.out) == (USAGE, "")
    assert all(shell in ended.error for shell in ("'tcsh'", "bash", "zsh", "fish"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on the PATH")
def test_bash_completes_families_and_lists_of_systems(onceproof: Command) -> None:
    lines = ("onceproof run word_cou", "onceproof compare word_count --systems local,bytew")
    asked = "\n".join(
        f"COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _onceproof_completion onceproof;"
        ' echo "${COMPREPLY[@]}"'
        for line in lines
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        ["bash", "-c", f"{onceproof('completion', 'bash').out}\n{asked}"],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.stdout.split() == ["word_count", "local,bytewax"], ended.stderr


# What every command offers


def test_every_command_with_a_result_prints_json() -> None:
    without = {
        name
        for name, command in COMMANDS.items()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    # The output of a job is that of its program; a script is no document.
    assert without == {"job run", "completion"}


@pytest.mark.parametrize(
    ("command", "choices"),
    [
        ("run", system_names()),
        ("compare", system_names()),
        ("replay", system_names()),
        ("faults", system_names()),
        ("services up", tuple(SERVERS)),
    ],
)
def test_help_lists_the_choices(command: str, choices: tuple[str, ...]) -> None:
    help_texts = " ".join(parameter.help or "" for parameter in COMMANDS[command].params)
    assert ", ".join(choices) in help_texts
    assert tuple(SERVERS) == SERVER_NAMES


def test_progress_line_has_the_cost_of_a_scenario_and_the_time_left() -> None:
    console = Console(force_terminal=True, width=120)
    clock = iter(range(0, 1000, 10))
    progress = Progress(TimeLeft(), console=console, get_time=lambda: float(next(clock)), auto_refresh=False)
    bar = Bar(progress, console, by_time=False)
    progress.start_task(progress.tasks[0].id)
    bar.begin(100)
    bar.show_counts(20, 1, seconds_of_scenarios=60.0)
    assert progress.tasks[0].description == "20 scenarios, 1 failed, 3.0 s each"
    task = progress.tasks[0]
    assert task.elapsed
    assert re.fullmatch(r"about \d+ (s|min \d\d s) left", TimeLeft().render(task).plain)
    bar.show_counts(100, 1)
    assert TimeLeft().render(progress.tasks[0]).plain == ""
