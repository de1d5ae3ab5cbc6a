"""A TCP proxy before a server that cuts connections in the middle of a request, or of its answer.

The rules this module lives by:

- It forwards bytes and knows no protocol: the middle of a request is the middle of what came in one piece.
- A cut strikes one connection, the next one that sends in that direction. The server has then half of a
  request, or has carried it out and the client has half of the answer.
- It accepts connections while the server is dead, and closes them: to a client that is a dead server.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final, Literal, TypeAlias

from onceproof.harness.services.service import LOOPBACK

Cut: TypeAlias = Literal["", "request", "answer"]
"""What is cut next; the empty one is nothing."""

_BLOCK: Final = 1 << 16
_CONNECT_S: Final = 5.0


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
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, cut: Cut) -> None:
        """Cut the connection of the next request, or of the next answer, in the middle; "" cuts none."""
        with self._lock:
            self._cut = cut

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
                for pair in ((client, server, "request"), (server, client, "answer")):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, origin: socket.socket, target: socket.socket, kind: Cut) -> None:
        with contextlib.suppress(OSError):
            while data := origin.recv(_BLOCK):
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
