"""The process that forks workers, and what the coordinator holds of it.

The rules this module lives by:

- The launcher is forked before the coordinator has threads of its own and before any task exists; it does
  nothing but fork. So a worker begins with the job's description and with nothing that an earlier attempt has
  left.
- No process of a job outlives the coordinator. Each holds one end of a pair of sockets whose other end only
  the coordinator has; when that closes, the process ends (link.py).
- A fork of the coordinator or of a worker closes its copies of all these ends before it runs anything else.
- Ctrl-C reaches every process of a terminal. Launcher and workers ignore it: the coordinator ends them in
  order.
"""

from __future__ import annotations

import array
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from onceproof.engine.forked_children import close_in_children
from onceproof.engine.runtime.workers.link import process_descriptor


class Ends(NamedTuple):
    """What a worker holds: its number, the connections to the coordinator, and by worker to the others."""

    number: int
    control: socket.socket
    lifeline: socket.socket
    peers: dict[int, socket.socket]


class WorkerProcess(NamedTuple):
    """What the coordinator holds of a worker: its process and the connections to it."""

    number: int
    pid: int
    control: socket.socket
    lifeline: socket.socket
    descriptor: int | None
    """See ``process_descriptor``."""


class LauncherGone(RuntimeError):
    """The process that forks the workers has died or does not answer."""


class Launcher:
    """The coordinator's side; ``live`` is the life of a worker, which never returns to the program."""

    def __init__(self, workers: int, live: Callable[[Ends], None], timeout_ms: int) -> None:
        """Fork the process.

        Args:
            workers: how many workers an attempt has.
            live: see above.
            timeout_ms: how long the process may take to fork the workers of an attempt.
        """
        self._workers = workers
        self._commands, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                self._commands.close()
                _serve(theirs, workers, live)
            finally:
                os._exit(0)
        self.pid = pid
        theirs.close()
        self._commands.settimeout(timeout_ms / 1000)
        close_in_children(self._commands)

    def start(self) -> list[WorkerProcess]:
        """Fork the workers of an attempt. Raises LauncherGone."""
        controls = [socket.socketpair() for _ in range(self._workers)]
        lifelines = [socket.socketpair() for _ in range(self._workers)]
        ours, theirs = zip(*controls, *lifelines, strict=True)
        close_in_children(*ours)
        try:
            socket.send_fds(self._commands, [b"s"], [each.fileno() for each in theirs])
            answer = _receive(self._commands, array.array("q").itemsize * self._workers)
        except OSError as error:
            for each in ours:
                release(each)
            said = "has not answered in time" if isinstance(error, TimeoutError) else f"has died: {error}"
            raise LauncherGone(f"the process that starts the workers {said}") from error
        finally:
            for each in theirs:
                each.close()
        pids = array.array("q", answer)
        return [
            WorkerProcess(
                number,
                pids[number],
                controls[number][0],
                lifelines[number][0],
                process_descriptor(pids[number]),
            )
            for number in range(self._workers)
        ]

    def close(self) -> None:
        """End the launcher, which has nothing to finish and may be stopped."""
        release(self._commands)
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def release(end: socket.socket) -> None:
    """Close the coordinator's end of a pair, also for what may hold a copy of it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("its connection is closed")
        received += part
    return received


# In the launcher, and in the workers before their life begins.


def _serve(commands: socket.socket, workers: int, live: Callable[[Ends], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The system forgets workers that have ended, because their exit codes are not read.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        command, descriptors, _, _ = socket.recv_fds(commands, 1, 2 * workers)
        if not command:
            return
        ends = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        pids = _fork_workers(commands, ends, workers, live)
        for end in ends:
            end.close()
        commands.sendall(pids.tobytes())


def _fork_workers(
    commands: socket.socket, ends: Sequence[socket.socket], workers: int, live: Callable[[Ends], None]
) -> array.array[int]:
    pairs = {(low, high): socket.socketpair() for low in range(workers) for high in range(low + 1, workers)}
    pids = array.array("q")
    for number in range(workers):
        pid = os.fork()
        if pid == 0:
            try:
                commands.close()
                _live(number, ends, workers, pairs, live)
            finally:
                os._exit(1)
        pids.append(pid)
    for pair in pairs.values():
        for end in pair:
            end.close()
    return pids


def _live(
    number: int,
    ends: Sequence[socket.socket],
    workers: int,
    pairs: dict[tuple[int, int], tuple[socket.socket, socket.socket]],
    live: Callable[[Ends], None],
) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    peers: dict[int, socket.socket] = {}
    for (low, high), pair in pairs.items():
        for owner, other, end in ((low, high, pair[0]), (high, low, pair[1])):
            if owner == number:
                peers[other] = end
            else:
                end.close()
    control, lifeline = ends[number], ends[workers + number]
    for end in ends:
        if end is not control and end is not lifeline:
            end.close()
    close_in_children(control, lifeline, *peers.values())
    live(Ends(number, control, lifeline, peers))
