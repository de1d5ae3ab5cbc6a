"""Starts the monitor process of a job, and is the job's end of the connection to it.

The rules this module lives by:

- HTTP is served by a process of its own. A flood of requests or a slow client takes that process's time, and
  never the lock under which the tasks of the job run. So is Prometheus read, and OpenTelemetry written to.
- The port is opened here, before the job begins: a port that is taken is an error of the job's start.
- The process ends when the connection does, so it never outlives a job that was killed. If it dies itself,
  the job goes on and says so in its log.
- The token is drawn anew for each process. It goes to the user and to a file that only he can read, never
  into an argument or the environment of a process.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_urlsafe
from types import TracebackType
from typing import Any, Final

import msgspec

from onceproof.engine.configuration.monitor_options import (
    LOG,
    PROMETHEUS,
    MonitorSettings,
)
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.forked_children import close_in_children
from onceproof.engine.graph import JobGraph
from onceproof.engine.locations import scheme_of
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, Respond
from onceproof.engine.runtime.monitor.job_view import JobView
from onceproof.engine.runtime.monitor.monitor_messages import Answered, Asked, Setup, encoded, to_job
from onceproof.engine.runtime.monitor.rest_note import RestNote, note_path, write_note
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.workers.link import MESSAGE, frame, read_frame

_MONITOR_PROCESS: Final = "onceproof.engine.runtime.monitor.monitor_process"
TOKEN_BYTES: Final = 24
BIND_SECONDS: Final = 5.0
"""How long a port may still belong to the monitor process of a job that has just been killed."""
BIND_PAUSE_SECONDS: Final = 0.05
BACKLOG: Final = 64
END_SECONDS: Final = 5.0

_logger = logging.getLogger(__name__)


class AddressInUse(UnrecoverableError, OSError):
    """A port of the job's monitor cannot be opened. The message is one line."""


def open_monitor_process(
    graph: JobGraph, storage: MountedStorage, submit: Callable[[JobRequest, Respond], None]
) -> MonitorProcess | None:
    """Return the monitor process of a job, not started; None if nothing needs one. Raises AddressInUse."""
    settings = graph.settings.monitor
    served = [each for each in settings.reporters if each.kind != LOG]
    if settings.rest_port is None and not served:
        return None
    opened: list[socket.socket] = []
    try:
        rest = None
        if settings.rest_port is not None:
            rest = _listen(settings.bind_address, settings.rest_port, "rest.port")
            opened.append(rest)
        sockets = []
        for reporter in served:
            key = f"metrics.reporter.{reporter.name}.port"
            listening = None
            if reporter.kind == PROMETHEUS:
                listening = _listen(settings.bind_address, reporter.port, key)
                opened.append(listening)
            sockets.append(listening)
    except AddressInUse:
        for each in opened:
            each.close()
        raise
    setup = Setup(
        -1 if rest is None else rest.fileno(),
        token_urlsafe(TOKEN_BYTES),
        _hosts(settings),
        not _is_loopback(settings.bind_address),
        tuple(served),
        tuple([-1 if each is None else each.fileno() for each in sockets]),
    )
    return MonitorProcess(graph, storage, setup, rest, opened, submit)


def _listen(address: str, port: int, option: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    until = time.monotonic() + BIND_SECONDS
    while True:
        try:
            return socket.create_server((address, port), family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= until:
                said = error.strerror or str(error)
                raise AddressInUse(
                    f"{option}: {address}:{port} cannot be opened ({said}): choose another port, or 0 for any"
                    " free one"
                ) from error
        time.sleep(BIND_PAUSE_SECONDS)


def _url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _hosts(settings: MonitorSettings) -> tuple[str, ...]:
    names = ["localhost", "127.0.0.1", "::1", settings.bind_address, settings.address]
    return tuple(dict.fromkeys([name.lower() for name in names if name]))


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1") or address.startswith("127.")


class MonitorProcess:
    """The monitor process, within its context; a receiver of views."""

    def __init__(
        self,
        graph: JobGraph,
        storage: MountedStorage,
        setup: Setup,
        rest: socket.socket | None,
        opened: list[socket.socket],
        submit: Callable[[JobRequest, Respond], None],
    ) -> None:
        self._job_name = graph.name
        self._setup = setup
        self._opened = opened
        self._submit = submit
        self._sending = threading.Lock()
        self._answering: list[threading.Thread] = []
        self._note: Path | None = None
        self.url = "" if rest is None else _url_of(rest)
        self._metrics_urls = [_url_of(each) for each in opened if each is not rest]
        if rest is not None and storage.root and not scheme_of(storage.root):
            self._note = note_path(Path(storage.root))

    def __enter__(self) -> MonitorProcess:
        self._link, theirs = socket.socketpair()
        close_in_children(self._link)
        inherited = [theirs, *self._opened]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MONITOR_PROCESS, str(theirs.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            pass_fds=[each.fileno() for each in inherited],
            # Ctrl-C is for the job, which ends this process.
            start_new_session=True,
        )
        for each in inherited:
            each.close()
        self._send(self._setup)
        threading.Thread(target=self._read, name="monitor-requests", daemon=True).start()
        self._announce()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._note is not None:
            with suppress(OSError):
                self._note.unlink()
        # The answers to those who have ended the job.
        for thread in self._answering:
            thread.join(END_SECONDS)
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        self._link.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _announce(self) -> None:
        for url in self._metrics_urls:
            print(f"Metrics of the job for Prometheus: {url}/metrics", file=sys.stderr)
        if not self.url:
            return
        if self._note is not None:
            write_note(self._note, RestNote(self.url, self._setup.token, os.getpid()))
        print(f"REST API and page of the job: {self.url}/#token={self._setup.token}", file=sys.stderr)

    def take(self, view: JobView) -> None:
        """Send a view; called in the publisher's thread. Raises OSError when the process is gone."""
        self._send(view)

    def _send(self, message: Any) -> None:
        data = frame(MESSAGE, 0, encoded(message))
        with self._sending:
            self._link.sendall(data)

    def _read(self) -> None:
        """Pass the requests of users to the job, until the connection ends."""
        while True:
            try:
                content = read_frame(self._link)
            except OSError:
                return
            if content is None:
                return
            try:
                asked = to_job.decode(content)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                _logger.warning("job %r: a request of its monitor cannot be read: %s", self._job_name, error)
                continue
            self._submit(asked.request, self._responder(asked))

    def _responder(self, asked: Asked) -> Respond:
        def respond(answer: JobAnswer) -> None:
            # The job's thread must not wait for a connection.
            thread = threading.Thread(target=self._answer, args=(asked.number, answer), daemon=True)
            self._answering = [each for each in self._answering if each.is_alive()]
            self._answering.append(thread)
            thread.start()

        return respond

    def _answer(self, number: int, answer: JobAnswer) -> None:
        with suppress(OSError):
            self._send(Answered(number, answer.savepoint, answer.error))
