"""A TCP proxy before a server that cuts connections in the middle of a request, or of its answer.

The rules this module lives by:

- It forwards bytes and knows no protocol: the middle of a request is the middle of what came in one piece.
- A cut strikes one connection, the next one that sends in that direction. The server has then half of a
  request, or has carried it out and the client has half of the answer.
- It accepts connections while the server is dead, and closes them: to a client that is a dead server.
- An observer that knows the protocol sees what a connection sends before it is forwarded, and may hold it up.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from onceproof.harness.services.service import LOOPBACK

Cut: TypeAlias = Literal["", "request", "answer"]
"""What is cut next; the empty one is nothing."""

_BLOCK: Final = 1 << 16
_CONNECT_S: Final = 5.0


class Observer(Protocol):
    """Sees the bytes of one connection; each direction in a thread of its own."""

    def request(self, data: bytes) -> None:
        """Take what the client has sent."""

    def answer(self, data: bytes) -> None:
        """Take what the server has sent."""


class CuttingProxy:
    """Forwards connections to a port of the loopback interface.

    Args:
        server_port: the port of the server, which need not run.
        port: where clients connect; 0: a free one.
    """

    def __init__(self, server_port: int, port: int = 0) -> None:
        self._server_port = server_port
        self._listener = socket.create_server((LOOPBACK, port))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        """How many connections were cut."""
        self._cut: Cut = ""
        self._new_observer: Callable[[], Observer] | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, cut: Cut) -> None:
        """Cut the connection of the next request, or of the next answer, in the middle; "" cuts none."""
        with self._lock:
            self._cut = cut

    def observe_with(self, new_observer: Callable[[], Observer] | None) -> None:
        """Let each new connection have an observer; None: no more."""
        self._new_observer = new_observer

    def close(self) -> None:
        """Take no more connections; those that are there stay until one of their ends closes them."""
        with contextlib.suppress(OSError):
            # Wakes up the thread that waits for a connection.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection((LOOPBACK, self._server_port), _CONNECT_S)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                observer = None if self._new_observer is None else self._new_observer()
                for each in (
                    (client, server, "request", observer and observer.request),
                    (server, client, "answer", observer and observer.answer),
                ):
                    threading.Thread(target=self._forward, args=each, daemon=True).start()

    def _forward(
        self, origin: socket.socket, target: socket.socket, kind: Cut, see: Callable[[bytes], None] | None
    ) -> None:
        with contextlib.suppress(OSError):
            while data := origin.recv(_BLOCK):
                if see is not None:
                    see(data)
                if self._takes(kind):
                    target.sendall(data[: len(data) // 2])
                    break
                target.sendall(data)
        for each in (origin, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _takes(self, kind: Cut) -> bool:
        with self._lock:
            if self._cut != kind:
                return False
            self._cut = ""
            self.cuts += 1
            return True
