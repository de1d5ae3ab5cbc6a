"""The options of `onceproof services`, the command for real servers on this machine.

Slow imports stand inside the subcommands, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from onceproof.harness.commands.shared_options import AsJson

FOLDER = Path(".onceproof", "services")
SERVER_NAMES = ("kafka", "s3", "postgres")
"""Those of `services.servers.SERVERS`, whose modules are slow to import."""

Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SERVER]...",
        help=f"Servers: {', '.join(SERVER_NAMES)}. Default: all.",
        autocompletion=lambda incomplete: [name for name in SERVER_NAMES if name.startswith(incomplete)],
    ),
]
Folder: TypeAlias = Annotated[
    Path, typer.Option("--folder", metavar="DIR", help="Folder for data and logs of the servers.")
]

services = typer.Typer(
    help="Start, list and stop real servers on this machine, for jobs and trials that need them.",
    no_args_is_help=False,
)


@services.command("up")
def up(names: Names = None, folder: Folder = FOLDER, as_json: AsJson = False) -> None:
    """Start servers, and print the address of each."""
    from onceproof.harness.commands.services import up_command

    raise typer.Exit(up_command(names or (), folder, as_json))


@services.command("down")
def down(names: Names = None, folder: Folder = FOLDER, as_json: AsJson = False) -> None:
    """End servers; their data stays in the folder."""
    from onceproof.harness.commands.services import down_command

    raise typer.Exit(down_command(names or (), folder, as_json))


@services.command("status")
def status(names: Names = None, folder: Folder = FOLDER, as_json: AsJson = False) -> None:
    """List servers. Exit code 1: one that is named does not run."""
    from onceproof.harness.commands.services import status_command

    raise typer.Exit(status_command(names or (), folder, as_json))
