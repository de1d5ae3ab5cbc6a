"""Kills, pauses and cuts off the servers of a trial, when a process of the job passes a point.

The rules this module lives by:

- The system on trial starts the servers, so it strikes them as well: it must start them again, and let them
  run on, whatever becomes of the process of the job that has asked for it.
- A process of the job asks over a socket of the machine, and goes on when the answer comes: the server is
  dead or stopped by then, or the proxy knows what to cut next. Only this user may enter the socket's folder.
- A server is back after the fault's delay, on the same data and port. Other deaths are mended at once.
- It changes the topic that the job reads as well, and hears over the same socket of each attempt that begins.
- The job reaches a server through a proxy; the harness reaches it directly, so that no cut hits a question of
  the harness.
- What a process of the job does is in `strike_requests.py`, which starts without what is imported here.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.cutting_proxy import CuttingProxy
from onceproof.harness.services.service import Service, ServiceError
from onceproof.harness.systems.process.strike_requests import DONE

SHORT_REQUEST_MS: Final = 250
"""The time-out of requests in scenarios with pauses: half of the pauses are longer."""
_SECONDS_BETWEEN_LOOKS: Final = 0.02
_SECONDS_TO_COME_BACK: Final = 30.0


class MortalService(Service, Protocol):
    """A server that this process has started."""

    def has_died(self) -> bool:
        """Return whether it has ended by itself, or was killed."""


class StruckServer:
    """A running server that faults may strike, and its proxy.

    Args:
        service: the server, which runs.
        proxy: in front of it; None: one at a free port.
    """

    def __init__(self, service: MortalService, proxy: CuttingProxy | None = None) -> None:
        self._service = service
        self._proxy = proxy or CuttingProxy(service.port)
        self.port = self._proxy.port
        """Of the proxy, for the job."""
        self.was_restarted = False
        """Whether the thread of this object has started the server. A server that ends with its parent ends
        with that thread, on Linux."""
        self._dead_until = 0.0
        self._paused_until: float | None = None
        self._lock = threading.Lock()
        """Held while the server is killed, started, stopped or let run on."""
        self._ends = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def strike(self, fault: Fault) -> None:
        """Carry out a fault of the server, and return when it has struck."""
        seconds = fault.delay / 1000
        match fault.kind:
            case "kill_server":
                self.kill(seconds)
            case "pause_server":
                with self._lock:
                    self._service.pause()
                    self._paused_until = time.monotonic() + seconds
            case "cut_connection":
                self._proxy.cut_next("answer" if fault.means == "answer" else "request")
            case other:
                raise ValueError(f"{other} strikes no server")

    def kill(self, seconds: float) -> None:
        """Kill the server, which is back after a while; no object store in memory, which would lose all.

        ``seconds`` is how long it is away.
        """
        with self._lock:
            self._dead_until = time.monotonic() + seconds
            self._paused_until = None
            self._service.kill()

    def calm(self) -> None:
        """Take back what still waits to strike, and return when the server runs. Raises ServiceError."""
        self._proxy.cut_next("")
        deadline = time.monotonic() + _SECONDS_TO_COME_BACK
        while time.monotonic() < deadline:
            with self._lock:
                if self._paused_until is None and not self._service.has_died():
                    return
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        raise ServiceError(
            f"{self._service.name}: the server in {self._service.folder} was struck by a fault and is not"
            f" back within {_SECONDS_TO_COME_BACK:g} s: see its log there"
        )

    def close(self) -> None:
        """Leave the server alone; see ``was_restarted``."""
        self._ends.set()
        self._keeper.join()
        self._proxy.close()
        if self._paused_until is not None:
            self._service.resume()

    def _keep(self) -> None:
        """Start the server again when it is dead, and let it run on when its pause is over."""
        while not self._ends.wait(_SECONDS_BETWEEN_LOOKS):
            with self._lock:
                now = time.monotonic()
                if self._paused_until is not None and now >= self._paused_until:
                    self._service.resume()
                    self._paused_until = None
                if self._service.has_died() and now >= self._dead_until:
                    self.was_restarted = True
                    with contextlib.suppress(ServiceError):
                        self._service.start()


class StruckInput(Protocol):
    """An input on a server that faults may change."""

    def strike(self, fault: Fault) -> None:
        """Change it, and return when it has changed."""

    def attempt_begins(self) -> None:
        """Called before an attempt of the job opens its sources, once a fault has struck."""

    def calm(self) -> None:
        """Called at the end. Raises ServiceError if it could not be changed."""


class StrikeSocket:
    """Takes the faults of servers from processes of a job, while its context lasts.

    Args:
        servers: by name, those that may be struck.
        changing: the input that may be changed.
    """

    def __init__(self, servers: Mapping[str, StruckServer], changing: StruckInput | None = None) -> None:
        self._servers = servers
        self._changing = changing
        self._folder = Path(tempfile.mkdtemp(prefix="onceproof-strikes-"))
        self.address = str(self._folder / "socket")
        """What ``strike_server`` is given."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)
        for server in self._servers.values():
            server.calm()
        if self._changing is not None:
            self._changing.calm()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                # A process that dies while it asks is no reason to end.
                with connection, contextlib.suppress(OSError, msgspec.DecodeError, KeyError):
                    fault = msgspec.json.decode(connection.makefile("rb").readline(), type=Fault | None)
                    self._take(fault)
                    connection.sendall(DONE)

    def _take(self, fault: Fault | None) -> None:
        if fault is not None and fault.server:
            self._servers[fault.server].strike(fault)
        elif self._changing is not None:
            if fault is None:
                self._changing.attempt_begins()
            else:
                self._changing.strike(fault)


def request_timeout_ms(faults: Iterable[Fault]) -> int:
    """Return the time-out of a job's requests to its servers; 0: the engine's default."""
    return SHORT_REQUEST_MS if any(fault.kind == "pause_server" for fault in faults) else 0
