"""A fixture that runs the command line in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceproof.harness.commands.cli import main


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
