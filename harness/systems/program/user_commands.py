"""Commands that the file of a program names beside the program itself: hooks, readers, own faults."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from onceproof.harness.services.service import die_with_parent

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class CannotStart(Exception):
    """A command cannot be started; the message names it and says why."""


def run_command(
    words: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str] = _NOTHING
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, and return how it has ended, with what it has printed.

    Args:
        folder: in which it runs.
        seconds: after which it is killed.
        environment: added to that of the harness.

    Raises:
        CannotStart: it cannot be started.
        subprocess.TimeoutExpired: it has not ended in time.
    """
    try:
        return subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            preexec_fn=die_with_parent,
            check=False,
        )
    except OSError as error:
        raise CannotStart(f"{words[0]}: {error.strerror or error}") from None


def how_it_failed(code: int, printed: bytes) -> str:
    """Return the exit code of a command, and the last line that it has printed."""
    lines = printed.decode(errors="replace").strip().splitlines()
    return f"exit code {code}: {lines[-1].strip() if lines else 'it printed nothing'}"
