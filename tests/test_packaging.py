"""The package as a user installs it: the files in the wheel, a user's modules beside it, missing extras."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from onceproof.engine.extras import PACKAGES
from onceproof.harness.model.exit_codes import FAILED, NOTHING_RAN, PASSED, USAGE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = ("engine", "harness", "reports", "scenarios")
PACKAGE = ROOT / "onceproof"

# The core runs without these. Hypothesis is for property tests of the harness's own values.
OPTIONAL = sorted({"py4j", "google", "hypothesis", *(name for names in PACKAGES.values() for name in names)})

BLOCKER = """
import sys


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocker())
"""
FOREIGN = "raise RuntimeError(\"this is the user's module, not onceproof's\")\n"

FAMILY = '''
"""Passages through gates: each is one row."""

from onceproof import Chance, Workload
from onceproof.engine import Types

name = "gates"
generator_version = 1
tasks = {"gates": "source", "board": "sink"}
record_schema = "step INT"
row_schema = "step INT"
oracle_sql = "SELECT scenario_id, step FROM records"


def generate(random):
    chance = Chance(random)
    return Workload({"hall": [(time, (chance.integer(1, 9),)) for time in range(chance.integer(0, 20))]})


def job(env, io):
    steps = env.from_source(io.source("gates"), None, "gates").uid("gates")
    steps.key_by(lambda step: step[0], Types.INT()).add_sink(io.sink("board")).name("board").uid("board")


def expected(records, declared):
    return [step for passages in records.values() for _time, step in passages]
'''.lstrip()
TEST = """
from onceproof import exactly_once


@exactly_once("gates.py", scenarios=20)
def test_each_passage_is_one_row(onceproof):
    assert onceproof.tally.scenarios == 20
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel in it, and with the other packages of this one."""

    folder: Path
    wheel: Path

    def run(self, *command: str, cwd: Path, blocked: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; `blocked` hides the optional packages from it."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST_", "ONCEPROOF_"))
        }
        if blocked:
            environment["PYTHONPATH"] = str(self.folder / "blocker")
        program, *arguments = command
        return subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "out"))
    shutil.copytree(PACKAGE, source / "onceproof", symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *options, "--wheel-dir", folder, source], check=True)
    [wheel] = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "others.pth").write_text("\n".join(others) + "\n", encoding="utf-8")
    (environment / "blocker").mkdir()
    (environment / "blocker" / "sitecustomize.py").write_text(BLOCKER.format(names=set(OPTIONAL)))
    yield Installation(environment, wheel)
    shutil.rmtree(folder)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a user's folder whose modules have the names of our folders."""
    (tmp_path / "engine.py").write_text(FOREIGN)
    (tmp_path / "reports.py").write_text(FOREIGN)
    for name in ("harness", "scenarios"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
    (tmp_path / "gates.py").write_text(FAMILY)
    (tmp_path / "test_gates.py").write_text(TEST)
    return tmp_path


def test_every_package_of_the_core_is_imported_by_the_product() -> None:
    text = "\n".join(path.read_text() for name in FOLDERS for path in (ROOT / name).rglob("*.py"))
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE))
    modules = {"pyyaml": "yaml"}
    core = {re.split(r"[<>=!~ \[]", item)[0] for item in PROJECT["project"]["dependencies"]}
    assert {name for name in core if modules.get(name, name) not in imported} == set()


def test_wheel_holds_templates_regressions_and_all_modules(installed: Installation) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    wanted = {
        f"onceproof/{path.relative_to(ROOT).as_posix()}"
        for folder, pattern in (
            ("reports/templates", "*"),
            ("harness/commands/starter", "*"),
            ("scenarios/regressions", "*.json"),
            ("engine", "*.properties"),
            ("engine", "*.py"),
            ("harness", "*.py"),
            ("scenarios", "*.py"),
            ("reports", "*.py"),
            ("engine", "py.typed"),
            ("harness", "py.typed"),
        )
        for path in (ROOT / folder).rglob(pattern)
        if "__pycache__" not in path.parts and path.is_file()
    }
    wanted |= {f"onceproof/{path.name}" for path in PACKAGE.glob("*.py")}
    assert wanted - names == set()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"onceproof"}


def test_version_is_that_of_the_project(installed: Installation, desk: Path) -> None:
    ended = installed.run("onceproof", "--version", cwd=desk)
    assert (ended.stdout, ended.returncode) == (f"onceproof {PROJECT['project']['version']}\n", PASSED)


@pytest.mark.parametrize(
    ("program", "family"),
    [(("onceproof",), "./gates.py"), (("python", "-m", "onceproof"), "word_count")],
    ids=["onceproof", "python -m onceproof"],
)
def test_runs_beside_modules_with_the_names_of_our_folders(
    installed: Installation, desk: Path, program: tuple[str, ...], family: str
) -> None:
    ended = installed.run(*program, "run", family, "--scenarios", "2", "-n", "1", cwd=desk)
    assert ended.returncode == PASSED, ended.stderr
    assert "2 scenarios, passed" in ended.stdout
    assert (desk / "reports" / "out" / "run" / "index.html").is_file()


def test_runs_above_a_checkout_of_the_same_name(installed: Installation, desk: Path) -> None:
    for name in FOLDERS:
        (desk / "onceproof" / name).mkdir(parents=True)
        (desk / "onceproof" / name / "__init__.py").write_text(FOREIGN)
    ended = installed.run(
        "python", "-m", "onceproof", "run", "gates.py", "--scenarios", "2", "-n", "1", cwd=desk
    )
    assert ended.returncode == PASSED, ended.stderr


def test_core_commands_need_no_optional_package(installed: Installation, desk: Path) -> None:
    for command in (
        "run gates.py word_count --scenarios 4 -n 2",
        "run word_count --system simulated-rocksdb --scenarios 2 -n 1",
        "replay 5 --family word_count",
        "explain 5 --family word_count",
        "merge reports/out/run",
        "families",
        f"mutants word_count --load {Path(__file__).with_name('planted')}/bugs/keys.py --scenarios 1 -n 1",
        "job run word_count",
        "checkpoints list .onceproof",
    ):
        ended = installed.run("onceproof", *command.split(), cwd=desk, blocked=True)
        assert "onceproof:" not in ended.stderr, f"{command}: {ended.stderr}"
        assert "Traceback" not in ended.stderr, f"{command}: {ended.stderr}"
        # The planted bug may survive a single scenario; the job that has finished leaves no checkpoint.
        assert ended.returncode in (PASSED, FAILED, NOTHING_RAN), f"{command}: {ended.stdout}"


def test_replays_and_explains_a_failure_without_extras(installed: Installation, desk: Path) -> None:
    wrong = FAMILY.replace("[step for", "[(step[0] + 1,) for").replace('"gates"\ng', '"wrong"\ng')
    (desk / "wrong.py").write_text(wrong)
    ended = installed.run(
        "onceproof", "run", "wrong.py", "--scenarios", "5", "-n", "1", cwd=desk, blocked=True
    )
    assert ended.returncode == FAILED, ended.stderr
    [kept] = sorted((desk / "reports" / "out" / "run" / "failures").glob("*.json"))[:1]
    for command in ("replay", "explain"):
        ended = installed.run("onceproof", command, str(kept), "--family", "wrong.py", cwd=desk, blocked=True)
        assert ended.returncode == FAILED, f"{command}: {ended.stderr}"


def test_plugin_needs_no_optional_package(installed: Installation, desk: Path) -> None:
    ended = installed.run("python", "-m", "pytest", "-q", "-p", "no:hypothesispytest", cwd=desk, blocked=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("campaign", "onceproof campaign needs pyspark: pip install 'onceproof[spark]'"),
        (
            "sensitivity",
            "onceproof sensitivity needs pyspark and chaospy: pip install 'onceproof[spark,sensitivity]'",
        ),
        ("nightly", "onceproof nightly needs pyspark: pip install 'onceproof[spark]'"),
        ("run --system spark", "onceproof: system spark needs pyspark: pip install 'onceproof[spark]'"),
        (
            "replay 5 --family word_count --system structured_streaming",
            "onceproof: system structured_streaming needs pyspark: pip install 'onceproof[spark]'",
        ),
        (
            "job run word_count --system spark",
            "onceproof: execution.target spark needs pyspark: pip install 'onceproof[spark]'",
        ),
    ],
)
def test_missing_extra_is_one_line_and_exit_code_4(
    installed: Installation, desk: Path, command: str, line: str
) -> None:
    ended = installed.run("onceproof", *command.split(), cwd=desk, blocked=True)
    assert (ended.stderr, ended.stdout, ended.returncode) == (f"{line}\n", "", USAGE)
