"""`onceproof completion`: what a shell needs to complete commands, options, families and systems.

The rules this module lives by:

- The scripts and their protocol are those of typer, the option parser. A script calls the command again with
  the words so far in environment variables, and the command prints what may come next.
- Names are listed when the user asks for them, so a new family or system is completed at once.
- A word that may be a file is left to the shell: nothing is offered for it, and the shell offers files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from enum import StrEnum
from io import StringIO
from typing import Final

import typer

PROGRAM: Final = "onceproof"
VARIABLE: Final = "_ONCEPROOF_COMPLETE"
"""By this variable a script asks: its value is `complete_` and the name of the shell."""


class Shell(StrEnum):
    """A shell with a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def script_of(shell: Shell) -> str:
    """Return the script that a shell evaluates to complete the command."""
    os.environ[VARIABLE] = f"source_{shell.value}"
    try:
        with redirect_stdout(StringIO()) as script:
            answer(typer.Typer())
    finally:
        del os.environ[VARIABLE]
    # The mark by which zsh knows such a file must be its first line.
    return script.getvalue().strip()


def is_asked() -> bool:
    """Return whether a script of a shell has called the command, and not a user."""
    return bool(os.environ.get(VARIABLE))


def answer(app: typer.Typer) -> int:
    """Print what may come next on the command line, in the form of the shell that asks."""
    # An application with typer's own options for completion registers the shells; nothing else does.
    typer.main.get_command(_with_a_command(typer.Typer(add_completion=True)))
    command = typer.main.get_command(_with_a_command(app))
    try:
        command.main([], prog_name=PROGRAM, complete_var=VARIABLE, standalone_mode=False)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _with_a_command(app: typer.Typer) -> typer.Typer:
    if not app.registered_commands:
        app.command()(is_asked)
    return app


def complete_family(incomplete: str) -> Sequence[str]:
    """Return the built-in families whose names begin so; none for a path, which the shell completes."""
    from onceproof.harness.model.family_places import family_names

    return _beginning(incomplete, family_names())


def complete_system(incomplete: str) -> Sequence[str]:
    """Return the systems whose names begin so."""
    from onceproof.harness.model.system_homes import system_names

    return _beginning(incomplete, system_names())


def complete_systems(incomplete: str) -> Sequence[str]:
    """Return lists of systems with commas: those before the last comma, and what may follow."""
    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{name}" for name in complete_system(last) if name not in chosen]


def _beginning(incomplete: str, names: Iterable[str]) -> Sequence[str]:
    return [name for name in names if name.startswith(incomplete)]
