"""Templates and hooks of a program: its configuration is written, and commands run around its starts.

The rules this module lives by:

- Files are written anew before each start, because placeholders such as ``{start}`` change.
- A hook may come while a server is being started again, so one that fails is run again for a while. Then the
  trial cannot go on, and no verdict about the program follows.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.program_file import filled
from onceproof.harness.systems.program.user_commands import CannotStart, how_it_failed, run_command

_SECONDS_OF_A_HOOK: Final = 120.0
_SECONDS_TO_SUCCEED: Final = 60.0
_SECONDS_BETWEEN_TRIES: Final = 0.2


def render(family: ProgramFamily, folder: Path, values: Mapping[str, str]) -> None:
    """Write the files of a program that have templates. Raises FamilyError."""
    for number, rendered in enumerate(family.file.render):
        template = family.path.parent / rendered.template
        try:
            text = template.read_text(encoding="utf-8")
            target = folder / rendered.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(filled(text, values), encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise FamilyError(f"{family.path}: render[{number}]: {template}: {cause}") from None


def run_hook(
    place: str,
    command: Sequence[str],
    folder: Path,
    values: Mapping[str, str],
    environment: Mapping[str, str],
) -> None:
    """Run a command of a hook to its end, if there is one. Raises FamilyError if it does not succeed."""
    if not command:
        return
    words = [filled(word, values) for word in command]
    deadline = time.monotonic() + _SECONDS_TO_SUCCEED
    while True:
        try:
            done = run_command(words, folder, _SECONDS_OF_A_HOOK, environment)
        except subprocess.TimeoutExpired:
            raise FamilyError(f"{place}: has not ended within {_SECONDS_OF_A_HOOK:.0f} s") from None
        except CannotStart as error:
            raise FamilyError(f"{place}: {error}") from None
        if not done.returncode:
            return
        if time.monotonic() > deadline:
            raise FamilyError(f"{place}: {how_it_failed(done.returncode, done.stderr or done.stdout)}")
        time.sleep(_SECONDS_BETWEEN_TRIES)
