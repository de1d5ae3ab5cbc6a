"""One end of a connection between two processes of a job: frames over a socket that never blocks.

The rules this module lives by:

- A frame has a kind, the number of a channel (0 where none is meant) and a content.
- Writing puts a frame into memory, and ``flush`` passes on what the socket takes. What may wait here is
  bounded by those who write: records by the credit of their channel, messages by the protocol.
- A connection whose other process is gone takes everything and gives nothing. Who notices says so to the
  coordinator, never to the tasks.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

_HEADER: Final = struct.Struct("<IIB")
_READ_BYTES: Final = 1 << 18

ELEMENT: Final = 0
"""An element of a channel."""
CREDIT: Final = 1
"""How much of a channel has been processed, and how much may be under way."""
MESSAGE: Final = 2
"""A message between a worker and the coordinator."""

Frame: TypeAlias = tuple[int, int, bytes]
"""Kind, channel, content."""


def frame(kind: int, channel: int, content: bytes) -> bytes:
    """Return a whole frame."""
    return _HEADER.pack(len(content), channel, kind) + content


def read_frame(connection: socket.socket) -> bytes | None:
    """Wait for the next frame on a socket that blocks; return its content, None at the end."""
    header = _read(connection, _HEADER.size)
    return None if header is None else _read(connection, _HEADER.unpack(header)[0])


def _read(connection: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            return None
        received += part
    return bytes(received)


class Link:
    """One end of a connection; the socket belongs to it."""

    __slots__ = ("_in", "_out", "_socket", "is_closed")

    def __init__(self, connection: socket.socket, *, is_shared: bool = False) -> None:
        """Take over a connection; one that is shared stays as it is, for others that write to it."""
        if not is_shared:
            connection.setblocking(False)
        self._socket = connection
        self._in = bytearray()
        self._out = bytearray()
        self.is_closed = False
        """Whether the other process is gone."""

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    @property
    def waits_to_write(self) -> bool:
        """Return whether the socket has not taken all frames yet."""
        return bool(self._out)

    def put(self, kind: int, channel: int, content: bytes) -> None:
        """Write a frame into memory."""
        if not self.is_closed:
            self._out += frame(kind, channel, content)

    def flush(self) -> None:
        """Pass on what the socket takes."""
        out = self._out
        while out and not self.is_closed:
            try:
                sent = self._socket.send(out)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            del out[:sent]

    def receive(self) -> Iterator[Frame]:
        """Yield the frames that have arrived."""
        received = self._in
        while not self.is_closed:
            try:
                part = self._socket.recv(_READ_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                part = b""
            if not part:
                self.close()
                break
            received += part
            if len(part) < _READ_BYTES:
                break
        place, size = 0, len(received)
        while size - place >= _HEADER.size:
            length, channel, kind = _HEADER.unpack_from(received, place)
            end = place + _HEADER.size + length
            if end > size:
                break
            yield kind, channel, bytes(received[place + _HEADER.size : end])
            place = end
        del received[:place]

    def close(self) -> None:
        """Close the socket; what has arrived can still be read."""
        self.is_closed = True
        self._out.clear()
        self._socket.close()
