"""A user's project in an empty folder, with pytest and a shell as separate processes.

A plain pytest or onceproof is forked off a process that has imported what it needs
(tests.harness.testing.forker). The tests run the printed commands unchanged. The processes do not inherit
the seed, the profile, the CI variables or the pytest-xdist worker of the tests themselves.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.testing.forker import Forker
from tests.patience import PATIENCE_SECONDS

UNSET = ("CI", "ONCEPROOF_PROFILE", "ONCEPROOF_SEED", "PYTEST_ADDOPTS", "HYPOTHESIS_PROFILE")

QUICKLY = ("--onceproof-shrink-runs", "0")
"""These tests produce dozens of failures. The one that looks at what a failure is shrunk to shrinks it."""


class PytestResult:
    """Exit code and output of a process."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code = process.returncode
        self.out = process.stdout
        self.error = process.stderr

    def counts(self) -> dict[str, int]:
        """Return the numbers of passed, failed, ... tests from pytest's last line."""
        last = next(line for line in reversed(self.out.splitlines()) if " in " in line)
        return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last.split(" in ")[0])}

    def commands(self, title: str) -> list[str]:
        """Return the commands that the failures print under a title."""
        return re.findall(rf"^{title}: +(.*)$", self.out, re.MULTILINE)


class User:
    """A user with a project folder and a shell."""

    def __init__(self, folder: Path, forker: Forker) -> None:
        self.folder = folder
        self.forker = forker
        self.environment = environment_of_a_user()

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def pytest(self, *arguments: str, folder: str = "", **environment: str) -> PytestResult:
        """Run pytest with warnings as errors."""
        options = ["-W", "error", "--strict-markers", *QUICKLY, *arguments]
        if not self._knows_hypothesis(*arguments, *environment):
            # Hypothesis' plugin takes three times as long to import as everything else.
            options += ["-p", "no:hypothesispytest"]
        if "-n" in arguments:
            return self._run(["pytest", *options], self.folder / folder, environment)
        return self._forked(["pytest", *options], folder, environment)

    def started_pytest(self) -> PytestResult:
        """Run pytest in a process that has imported nothing before."""
        return self._run(["pytest", "-W", "error", "-p", "no:hypothesispytest"], self.folder, {})

    def shell(self, command: str, folder: str = "") -> PytestResult:
        """Run a command line in the shell; one that needs nothing of a shell is forked."""
        words = shlex.split(command)
        if words[0] in ("pytest", "onceproof"):
            return self._forked(words, folder, {})
        return self._run(["sh", "-c", command], self.folder / folder, {})

    def _knows_hypothesis(self, *words: str) -> bool:
        """Return whether a file of the project or a word of the command contains "hypothesis"."""
        files = [path for name in ("*.py", "*.toml", "*.ini") for path in self.folder.rglob(name)]
        texts = [path.read_text(encoding="utf-8") for path in files]
        return any("hypothesis" in text.lower() for text in (*words, *texts))

    def _forked(self, command: list[str], folder: str, environment: dict[str, str]) -> PytestResult:
        return PytestResult(self.forker.run(command, self.folder / folder, self.environment | environment))

    def _run(self, command: list[str], folder: Path, environment: dict[str, str]) -> PytestResult:
        return PytestResult(
            subprocess.run(
                command,
                cwd=folder,
                env=self.environment | environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        )


def environment_of_a_user() -> dict[str, str]:
    """Return this process's environment without what belongs to its tests."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    environment = {name: value for name, value in kept.items() if not name.startswith("PYTEST_")}
    # The commands of this virtual environment come first.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    return environment


@pytest.fixture(scope="session")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    """Return the process that forks off each plain pytest."""
    forker = Forker(tmp_path_factory.mktemp("forker"), environment_of_a_user())
    yield forker
    forker.close()


@pytest.fixture
def user(tmp_path: Path, forker: Forker) -> User:
    """Return a user with an empty project."""
    (tmp_path / "project").mkdir()
    return User(tmp_path / "project", forker)


@pytest.fixture
def owner(user: User, sales: Path, forgetful: Path) -> User:
    """Return a user whose project has a correct family, sales.py, and one with a bug, forgetful.py."""
    for path in (sales, forgetful):
        user.write(path.name, path.read_text(encoding="utf-8"))
    return user
