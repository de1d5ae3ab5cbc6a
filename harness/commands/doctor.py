"""`onceproof doctor`: what this machine has of what the commands need, one line for each thing.

The rules this module lives by:

- A line says what was found, and where something is to be mended, how.
- "absent" is what the core does without: an extra that is not installed, a server that does not run.
  "problem" is what stops a command that this installation offers; one of these makes the exit code 1.
- Nothing is started, installed or written, except for one temporary file that proves the disk.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import psutil

from onceproof.engine.extras import PACKAGES, SPARK, ExtraMissing, require
from onceproof.engine.runtime.java import JavaMissing, find_java
from onceproof.harness.model.exit_codes import FAILED, PASSED
from onceproof.harness.services.servers import servers_below
from onceproof.harness.services.service import LOOPBACK
from onceproof.harness.trials.runner import usable_processors
from onceproof.reports.text import counted

State: TypeAlias = Literal["ok", "absent", "problem"]

LEAST_DISK_BYTES: Final = 1 << 30
LEAST_MEMORY_BYTES: Final = 1 << 30
_GIBIBYTE: Final = 1 << 30


class Finding(msgspec.Struct, frozen=True):
    """One thing of this machine: its name, its state, and what was found."""

    name: str
    state: State
    text: str


def doctor_command(services: Path, as_json: bool) -> int:
    """Print a line for each thing, and return the exit code; ``services`` is the folder of the servers."""
    findings = [
        *_machine(),
        _java(),
        *map(_extra, PACKAGES),
        *_servers(services),
        _ports(),
    ]
    if as_json:
        print(msgspec.json.encode(findings).decode())
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            print(f"{finding.state:<8} {finding.name:<{width}}  {finding.text}")
    return FAILED if any(finding.state == "problem" for finding in findings) else PASSED


def _machine() -> Iterator[Finding]:
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")
    usable, present = usable_processors(), os.cpu_count() or 1
    of = "" if usable == present else f", of {present}; the others are not for this process"
    yield Finding("cores", "ok", f"{counted(usable, 'core')}{of}: as many workers run")
    memory = psutil.virtual_memory()
    free = f"{memory.available / _GIBIBYTE:.1f} GiB free of {memory.total / _GIBIBYTE:.1f}"
    if memory.available < LEAST_MEMORY_BYTES:
        yield Finding("memory", "problem", f"{free}: end other programs, or run with -n 1")
    else:
        yield Finding("memory", "ok", free)
    yield _disk("disk", Path.cwd(), "work in another folder, or set --out")
    yield _disk("temporary files", Path(tempfile.gettempdir()), "set TMPDIR to another folder")


def _disk(name: str, folder: Path, mend: str) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        return Finding(name, "problem", f"{folder}: cannot be written to: {error.strerror or error}: {mend}")
    text = f"{free / _GIBIBYTE:.1f} GiB free in {folder}"
    if free < LEAST_DISK_BYTES:
        return Finding(name, "problem", f"{text}: free some, or {mend}")
    return Finding(name, "ok", text)


def _java() -> Finding:
    try:
        java = find_java(os.environ)
    except JavaMissing as missing:
        # Without the extra no command of this installation starts a Java.
        return Finding("java", "problem" if _lacks(SPARK) is None else "absent", str(missing))
    return Finding("java", "ok", f"Java {java.version} in {java.home}")


def _extra(name: str) -> Finding:
    missing = _lacks(name)
    if missing is None:
        return Finding(f"extra {name}", "ok", ", ".join(PACKAGES[name]))
    return Finding(f"extra {name}", "absent", str(missing))


def _lacks(extra: str) -> ExtraMissing | None:
    """Return the error of a missing extra; None where all its packages are installed."""
    try:
        require("it", extra)
    except ExtraMissing as missing:
        return missing
    return None


def _servers(folder: Path) -> Iterator[Finding]:
    for server in servers_below(folder):
        if server.is_running():
            yield Finding(f"server {server.name}", "ok", f"runs at {server.address}")
        else:
            start = f"`onceproof services up {server.name}` starts it"
            yield Finding(f"server {server.name}", "absent", f"does not run; {start}")


def _ports() -> Finding:
    """Connect to a port of the loopback interface, as workers and servers do."""
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection((LOOPBACK, port), timeout=5):
                return Finding("ports", "ok", f"a port of {LOOPBACK} can be opened and reached")
    except OSError as error:
        mend = "allow connections on the loopback interface"
        return Finding("ports", "problem", f"{LOOPBACK}: {error.strerror or error}: {mend}")
