"""The monitor process of a job: it serves the REST API, Prometheus and OpenTelemetry.

    python -m onceproof.engine.runtime.monitor.monitor_process DESCRIPTOR PROCESS

The job's process starts it (monitor_link.py). DESCRIPTOR is the connection to the job, PROCESS the id of its
process.

The rules this module lives by:

- It ends when the connection ends, or the process of the job: a fork of that one may hold the connection. So
  it never outlives its job. Only a client that has asked for a change and not heard yet, whole, what came of
  it is waited for, a moment long.
- It runs with less priority than the job.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from importlib.resources import files
from typing import Final

from onceproof.engine.configuration.monitor_options import PROMETHEUS
from onceproof.engine.runtime.job_requests import JobRequest
from onceproof.engine.runtime.monitor.bounded_server import LOOK_SECONDS, BoundedServer, Gate
from onceproof.engine.runtime.monitor.job_view import JobView
from onceproof.engine.runtime.monitor.monitor_messages import Answered, Asked, Setup, encoded, to_monitor
from onceproof.engine.runtime.monitor.open_telemetry import OpenTelemetryReporter
from onceproof.engine.runtime.monitor.prometheus_text import PrometheusPage
from onceproof.engine.runtime.monitor.rest_api import JobBoard, RestApi
from onceproof.engine.runtime.workers.link import MESSAGE, frame, process_descriptor, read_frame

PAGE: Final = "job_page.html"
NICENESS: Final = 5
LAST_ANSWER_SECONDS: Final = 2.0
LAST_LOOK_SECONDS: Final = 0.02


class Monitor:
    """The job's end is ``link``."""

    def __init__(self, link: socket.socket, job: int | None = None) -> None:
        """Connect; ``job`` is the descriptor of the job's process, if there is one."""
        self._link = link
        self._job = job
        self._sending = threading.Lock()
        self.board = JobBoard(self._ask)
        self._telemetry: list[OpenTelemetryReporter] = []
        self._servers: list[BoundedServer] = []

    def live(self) -> None:
        """Serve until the connection or the job's process ends."""
        with suppress(OSError):
            while _is_there(self._link, self._job) and (content := read_frame(self._link)) is not None:
                message = to_monitor.decode(content)
                if isinstance(message, JobView):
                    self.board.show(message)
                    for reporter in self._telemetry:
                        reporter.take()
                elif isinstance(message, Answered):
                    self.board.answered(message)
                else:
                    self._open(message)
        for reporter in self._telemetry:
            reporter.close()
        until = time.monotonic() + LAST_ANSWER_SECONDS
        while self._is_awaited() and time.monotonic() < until:
            time.sleep(LAST_LOOK_SECONDS)

    def _is_awaited(self) -> bool:
        return self.board.has_unread_outcomes or any(server.is_answering for server in self._servers)

    def _open(self, setup: Setup) -> None:
        gate = Gate(setup.hosts, setup.token, guards_reading=setup.guards_reading)
        if setup.rest_socket >= 0:
            page = files("onceproof.engine.runtime.monitor").joinpath(PAGE).read_bytes()
            listening = socket.socket(fileno=setup.rest_socket)
            self._serve(BoundedServer(listening, RestApi(self.board, gate, page).respond))
        for reporter, descriptor in zip(setup.reporters, setup.reporter_sockets, strict=True):
            if reporter.kind == PROMETHEUS:
                text = PrometheusPage(self.board.latest, gate)
                self._serve(BoundedServer(socket.socket(fileno=descriptor), text.respond))
            else:
                self._telemetry.append(
                    OpenTelemetryReporter(self.board.latest, reporter.endpoint, reporter.interval_ms)
                )

    def _serve(self, server: BoundedServer) -> None:
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, args=(LOOK_SECONDS,), daemon=True).start()

    def _ask(self, number: int, request: JobRequest) -> None:
        with self._sending:
            self._link.sendall(frame(MESSAGE, 0, encoded(Asked(number, request))))


def _is_there(link: socket.socket, job: int | None) -> bool:
    """Wait for something on the link; return False where the job's process has died and the link is empty."""
    if job is None:
        return True
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(job, select.POLLIN)
    return link.fileno() in [ready for ready, _ in poll.poll()]


def main(descriptor: int, process: int) -> None:
    """Serve the job of ``process``, at the other end of an inherited connection."""
    job = process_descriptor(process)
    if os.getppid() != process:
        # It has died already, and its id may be that of another process.
        os._exit(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(NICENESS)
    Monitor(socket.socket(fileno=descriptor), job).live()
    sys.stdout.flush()
    # Threads of slow clients are not waited for.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
