"""The options of `onceproof services`, the command for real servers on this machine.

Slow imports stand inside the subcommands, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from onceproof.harness.commands.shared_options import AsJson
from onceproof.harness.model.exit_codes import FAILED, PASSED

if TYPE_CHECKING:
    from onceproof.harness.services.service import Service


def _servers(names: Sequence[str], folder: Path) -> list[Service]:
    from onceproof.harness.services.servers import servers_below

    return servers_below(folder, names)


def up_command(names: Sequence[str], folder: Path, as_json: bool) -> int:
    """Start servers; those that run stay as they are."""
    servers = _servers(names, folder)
    for server in servers:
        if not server.is_running():
            print(f"onceproof: starting {server.name}", file=sys.stderr)
        server.start()
    return _print(servers, as_json)


def down_command(names: Sequence[str], folder: Path, as_json: bool) -> int:
    """End servers; their data stays."""
    servers = _servers(names, folder)
    for server in servers:
        server.stop()
    return _print(servers, as_json)


def status_command(names: Sequence[str], folder: Path, as_json: bool) -> int:
    """List servers; exit code 1 if one of those asked for does not run."""
    servers = _servers(names, folder)
    _print(servers, as_json)
    return PASSED if not names or all(server.is_running() for server in servers) else FAILED


def _print(servers: Sequence[Service], as_json: bool) -> int:
    found: list[dict[str, Any]] = [
        {
            "name": server.name,
            "running": server.is_running(),
            "address": server.address if server.is_running() else None,
            "folder": str(server.folder),
        }
        for server in servers
    ]
    if as_json:
        print(json.dumps(found))
    else:
        for each in found:
            state = f"runs at {each['address']}" if each["running"] else "does not run"
            print(f"{each['name']:<10}{state}   data in {each['folder']}")
    return PASSED


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
    from onceproof.harness.commands.services_cli import up_command

    raise typer.Exit(up_command(names or (), folder, as_json))


@services.command("down")
def down(names: Names = None, folder: Folder = FOLDER, as_json: AsJson = False) -> None:
    """End servers; their data stays in the folder."""
    from onceproof.harness.commands.services_cli import down_command

    raise typer.Exit(down_command(names or (), folder, as_json))


@services.command("status")
def status(names: Names = None, folder: Folder = FOLDER, as_json: AsJson = False) -> None:
    """List servers. Exit code 1: one that is named does not run."""
    from onceproof.harness.commands.services_cli import status_command

    raise typer.Exit(status_command(names or (), folder, as_json))
