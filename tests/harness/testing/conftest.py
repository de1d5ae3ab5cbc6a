"""A user's project in an empty folder: files, pytest as a process of its own, and a shell to type into.

What the plugin prints is typed into that shell as it stands. Nothing of the tests' own environment gets
there: no seed, no profile, no CI server, and no worker of pytest-xdist that these tests may run in.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

UNSET = ("CI", "ONCEPROOF_PROFILE", "ONCEPROOF_SEED", "PYTEST_ADDOPTS", "HYPOTHESIS_PROFILE")

QUICKLY = ("--onceproof-shrink-time", "0.5")
"""Failures are small enough by then, and there are dozens of them."""


class Ended:
    """How a process ended."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code = process.returncode
        self.out = process.stdout
        self.error = process.stderr

    def counts(self) -> dict[str, int]:
        """Return how many tests passed, failed and so on, as pytest's last line says."""
        last = next(line for line in reversed(self.out.splitlines()) if " in " in line)
        return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last.split(" in ")[0])}

    def commands(self, title: str) -> list[str]:
        """Return the commands that the failures print under a title."""
        return re.findall(rf"^{title}: +(.*)$", self.out, re.MULTILINE)


class User:
    """Somebody with a folder, an editor and a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if name not in UNSET}
        self.environment = {name: value for name, value in kept.items() if not name.startswith("PYTEST_")}
        # Where the commands of this environment are.
        self.environment["PATH"] = os.pathsep.join(
            [str(Path(sys.executable).parent), self.environment.get("PATH", "")]
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def pytest(self, *arguments: str, folder: str = "", **environment: str) -> Ended:
        """Run pytest, with every warning an error."""
        command = ["pytest", "-W", "error", "--strict-markers", *QUICKLY, *arguments]
        if not self._knows_hypothesis(*arguments, *environment):
            # Its plugin imports all of it, which takes three times as long as the rest of a start.
            command += ["-p", "no:hypothesispytest"]
        return self._run(command, self.folder / folder, environment)

    def shell(self, command: str, folder: str = "") -> Ended:
        """Type a command."""
        return self._run(["sh", "-c", command], self.folder / folder, {})

    def _knows_hypothesis(self, *words: str) -> bool:
        """Whether a file of the project, or a word of a command, speaks of it."""
        files = [path for name in ("*.py", "*.toml", "*.ini") for path in self.folder.rglob(name)]
        texts = [path.read_text(encoding="utf-8") for path in files]
        return any("hypothesis" in text.lower() for text in (*words, *texts))

    def _run(self, command: list[str], folder: Path, environment: dict[str, str]) -> Ended:
        return Ended(
            subprocess.run(
                command,
                cwd=folder,
                env=self.environment | environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        )


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Return somebody in an empty folder."""
    (tmp_path / "project").mkdir()
    return User(tmp_path / "project")


@pytest.fixture
def owner(user: User, sales: Path, forgetful: Path) -> User:
    """Return somebody who has a family that holds, sales.py, and one with a bug, forgetful.py."""
    for path in (sales, forgetful):
        user.write(path.name, path.read_text(encoding="utf-8"))
    return user
