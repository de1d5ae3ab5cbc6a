"""The bodies of `onceproof services`: start, end and list real servers on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onceproof.harness.model.exit_codes import FAILED, PASSED
from onceproof.harness.services.servers import servers_below
from onceproof.harness.services.service import Service


def up_command(names: Sequence[str], folder: Path, as_json: bool) -> int:
    """Start servers; those that run stay as they are."""
    servers = servers_below(folder, names)
    for server in servers:
        if not server.is_running():
            print(f"onceproof: starting {server.name}", file=sys.stderr)
        server.start()
    return _print(servers, as_json)


def down_command(names: Sequence[str], folder: Path, as_json: bool) -> int:
    """End servers; their data stays."""
    servers = servers_below(folder, names)
    for server in servers:
        server.stop()
    return _print(servers, as_json)


def status_command(names: Sequence[str], folder: Path, as_json: bool) -> int:
    """List servers; exit code 1 if one of those asked for does not run."""
    servers = servers_below(folder, names)
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
