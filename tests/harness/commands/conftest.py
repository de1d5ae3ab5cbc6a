"""Fixtures that run the command line in an empty folder. Runs check the families of the docs no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceproof.harness.commands.cli import main
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.sound_families import FOLDER, note_sound


class CommandResult:
    """Exit code, stdout and stderr of a command."""

    def __init__(self, code: int, out: str, error: str) -> None:
        self.code = code
        self.out = out
        self.error = error


Command = Callable[..., CommandResult]


@pytest.fixture
def onceproof(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Return a function that runs ``onceproof`` with its arguments in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> CommandResult:
        code = main(arguments)
        captured = capfd.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run


@pytest.fixture
def sales(sales: Path) -> Path:
    """Return the file of the family in the documentation's example, which no run checks again."""
    note_sound(load_family(str(sales)), sales.parent / FOLDER)
    return sales


@pytest.fixture
def forgetful(forgetful: Path) -> Path:
    """Return the file of a family whose job loses its totals when it is killed, which no run checks again."""
    note_sound(load_family(str(forgetful)), forgetful.parent / FOLDER)
    return forgetful
