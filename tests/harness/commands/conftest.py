"""What the tests of the command share: the command, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceproof.harness.commands.cli import main


class Outcome:
    """What a command left: exit code, stdout, stderr."""

    def __init__(self, code: int, out: str, error: str) -> None:
        self.code = code
        self.out = out
        self.error = error


Command = Callable[..., Outcome]


@pytest.fixture
def onceproof(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Return a function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
