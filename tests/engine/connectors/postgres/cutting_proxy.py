"""A TCP proxy before a server that cuts connections in the middle of a request, or of its answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal, TypeAlias

LOOPBACK = "127.0.0.1"
BLOCK = 1 << 16

Cut: TypeAlias = Literal["", "request", "answer"]


class CuttingProxy:
    """Forwards connections to a port of the loopback interface."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._cut: Cut = ""
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, cut: Cut) -> None:
        """Cut the connection of the next request, or of the next answer, in the middle."""
        with self._lock:
            self._cut = cut

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection((LOOPBACK, self._server_port), 5)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                for pair in ((client, server, "request"), (server, client, "answer")):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, origin: socket.socket, target: socket.socket, kind: Cut) -> None:
        with contextlib.suppress(OSError):
            while data := origin.recv(BLOCK):
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
