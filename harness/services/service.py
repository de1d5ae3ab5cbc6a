"""What every server offers, and how its processes are known.

The rules this module lives by:

- All that a server writes is below one folder: data, log and the record of its processes. Only what is
  downloaded once for all servers of a user is in the user's cache.
- A process is known by its id and the time of its start. An id that the system has given to another process
  since is never signalled.
- A server listens on the loopback interface only. Its port stays when it is killed and started again.
- What the user can mend is a ServiceError: one line that names the thing and the mend.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final, Protocol

import psutil

LOOPBACK: Final = "127.0.0.1"
# Below the ports that systems hand out to clients: a server that is down keeps its port.
_PORTS: Final = (20_000, 29_999)
_PR_SET_PDEATHSIG: Final = 1
# Loaded beforehand: between fork and exec nothing may be imported.
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None
_STOP_S: Final = 20.0
_FREE_S: Final = 5.0


class ServiceError(Exception):
    """A server cannot be started or used. The message is one line that names the mend."""


class ServiceMissing(ServiceError):
    """What the server is made of is not on this machine: a program, an extra, Java."""


class Service(Protocol):
    """One server with all its data below one folder; its processes are ordinary ones."""

    name: str
    """As typed in the command: "kafka"."""
    folder: Path
    port: int

    @property
    def address(self) -> str:
        """What a client is given, such as "127.0.0.1:20092"."""

    def start(self) -> None:
        """Start the server, also after a kill, and return when it answers. Raises ServiceError."""

    def stop(self) -> None:
        """End the server in order; the data stays."""

    def kill(self) -> None:
        """Kill all processes of the server with SIGKILL."""

    def pause(self) -> None:
        """Stop all processes of the server with SIGSTOP."""

    def resume(self) -> None:
        """Let paused processes run on."""

    def is_running(self) -> bool:
        """Return whether a process of the server lives."""


_CHILDREN: Final[dict[int, subprocess.Popen[bytes]]] = {}
"""The servers that this process has started: it waits for them, whichever object ends them."""


class ServerProcesses:
    """The processes of one server, recorded in a file so that another process can end them.

    Args:
        record: the file; it need not exist.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._last: int | None = None

    def start(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        *,
        dies_with_parent: bool = False,
    ) -> psutil.Process:
        """Start a process in a session of its own, whose output is appended to a file.

        Args:
            command: the program and its arguments.
            log: the file.
            environment: of the process; None: that of this one.
            user: as whom the process runs, if this one is root; None: as this one.
            dies_with_parent: whether the system kills it when this process has died (on Linux only).
        """
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else [],
                preexec_fn=die_with_parent if dies_with_parent else None,
            )
        process = psutil.Process(child.pid)
        _CHILDREN[child.pid] = child
        atexit.register(_leave, child, os.getpid(), dies_with_parent)
        self._last = child.pid
        self.record(process)
        return process

    def has_died(self) -> bool:
        """Return whether the process that was started last has ended by itself, or was killed."""
        if self._last is None:
            return False
        # Who has waited for it has taken it off the list.
        child = _CHILDREN.get(self._last)
        return child is None or child.poll() is not None

    def record(self, process: psutil.Process) -> None:
        """Add a process that the server has started itself."""
        known = [each for each in self._recorded() if each[0] != process.pid]
        temporary = self._record.with_suffix(".new")
        temporary.write_text(json.dumps([*known, [process.pid, process.create_time()]]), encoding="utf-8")
        temporary.replace(self._record)

    def living(self) -> list[psutil.Process]:
        """Return the recorded processes that live, their descendants included."""
        found: dict[int, psutil.Process] = {}
        for pid, started in self._recorded():
            child = _CHILDREN.get(pid)
            if child is not None and child.poll() is not None:
                continue
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE:
                    found.update({each.pid: each for each in (process, *process.children(recursive=True))})
        return list(found.values())

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all living processes."""
        for process in self.living():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def pause(self) -> None:
        """Stop all with SIGSTOP, and wait until they are: the signal takes effect after it was sent."""
        until = time.monotonic() + _STOP_S
        while running := [each for each in self.living() if not _is_stopped(each)]:
            if time.monotonic() > until:
                raise ServiceError(f"process {running[0].pid} cannot be stopped: it takes no SIGSTOP")
            # Again: one of them may have begun another one meanwhile.
            for process in running:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGSTOP)
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill all with SIGKILL, and wait until they are gone."""
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = _STOP_S) -> None:
        """Send a signal to all, wait until they are gone, and kill those that stay."""
        processes = self.living()
        self.send(number)
        # A paused process takes no signal but SIGKILL before it runs on.
        self.send(signal.SIGCONT)
        self._wait(processes, seconds)
        for process in self.living():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._wait(processes, seconds)
        for process in processes:
            _CHILDREN.pop(process.pid, None)
        self._record.unlink(missing_ok=True)

    def _wait(self, processes: Sequence[psutil.Process], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in processes:
            child = _CHILDREN.get(process.pid)
            left = max(0.0, deadline - time.monotonic())
            with contextlib.suppress(subprocess.TimeoutExpired, psutil.Error):
                if child is not None:
                    child.wait(left)
                else:
                    process.wait(left)

    def _recorded(self) -> list[tuple[int, float]]:
        try:
            return [(int(pid), float(started)) for pid, started in json.loads(self._record.read_bytes())]
        except (OSError, ValueError, TypeError):
            return []


def _is_stopped(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return True


def _leave(child: subprocess.Popen[bytes], parent: int, dies_with_parent: bool) -> None:
    """At the end of this process, end a server that dies with it, and wait for one that has ended."""
    # A fork of this process may end as well.
    if os.getpid() != parent:
        return
    if child.poll() is None and dies_with_parent:
        child.kill()
        child.wait()


def die_with_parent() -> None:
    """Ask Linux, between fork and exec, for SIGKILL when the parent has died."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """Return a port of the loopback interface that nothing uses, outside those that clients are given."""
    chance = SystemRandom()
    for _ in range(200):
        port = chance.randint(*_PORTS)
        if is_free(port):
            return port
    raise ServiceError(f"no free port from {_PORTS[0]} to {_PORTS[1]} on {LOOPBACK}: end other servers")


def is_free(port: int) -> bool:
    """Return whether nothing listens on a port of the loopback interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def becomes_free(port: int) -> bool:
    """Return whether nothing listens on a port before long.

    A server that was killed a moment ago has its ports until its last thread or child has ended.
    """
    until = time.monotonic() + _FREE_S
    while not is_free(port):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def kept_port(folder: Path, name: str, wanted: int) -> int:
    """Return the port of a server: the wanted one, else the one that its folder keeps, else a free one.

    A server that is started again is then where its clients look for it.
    """
    if wanted:
        return wanted
    try:
        return int((folder / f"{name}.port").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return free_port()


def keep_port(folder: Path, name: str, port: int) -> None:
    """Keep the port of a server that is about to start."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.port").write_text(f"{port}\n", encoding="utf-8")


def last_lines(log: Path, lines: int = 1) -> str:
    """Return the end of a log in one line, for the message of an error."""
    try:
        size = log.stat().st_size
        with log.open("rb") as file:
            file.seek(max(0, size - 8192))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return "no log"
    return " ".join(" ".join(text.strip().splitlines()[-lines:]).split()) or "an empty log"


def user_cache() -> Path:
    """Return the folder in which this user's downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "onceproof"
