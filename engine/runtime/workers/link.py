"""One end of a connection between two processes of a job: frames over a socket that never blocks.

Rules:

- A frame has a kind, the number of a channel (0 where none is meant) and a content.
- Writing puts a frame into memory, and ``flush`` passes on what the socket takes. What may wait here is
  bounded by those who write: records by the credit of their channel, messages by the protocol.
- A connection whose other process is gone takes everything and gives nothing. Who notices says so to the
  coordinator, never to the tasks.
- The worker ends at once when the coordinator's end closes, also in the middle of a user's function.
- Over the same sockets it sends heartbeats, in a thread of its own: a user's function that takes long is no
  silence, unless it is C code that never releases the interpreter.
- A coordinator that is stopped takes no heartbeat, and its workers wait for it, as long as it lives: no other
  process can have their tasks before it has claimed the job (recovery.py).
- A worker ends by os._exit. So it ends the daemonic processes of ``multiprocessing`` that a function has
  started by itself, as Python does at a usual exit.
- The coordinator also watches the process itself, by its pidfd where the system has them: the connections of
  a worker may live on in a process that C code has forked from it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeAlias

BEAT = b"b"


def keep_alive(lifeline: socket.socket, interval_ms: int) -> None:
    """Start the thread that sends heartbeats, and ends this process when the lifeline is closed."""
    arguments = (lifeline, interval_ms)
    threading.Thread(target=_keep_alive, args=arguments, name="lifeline", daemon=True).start()


def _keep_alive(lifeline: socket.socket, interval_ms: int) -> None:
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    with suppress(OSError):
        while True:
            with suppress(BlockingIOError):
                lifeline.send(BEAT, socket.MSG_DONTWAIT)
            if poll.poll(interval_ms):
                break
    end_daemonic_children()
    os._exit(1)


def end_daemonic_children() -> None:
    """End the daemonic processes that this one has started with ``multiprocessing``."""
    # Most jobs never import it, which takes its time.
    multiprocessing = sys.modules.get("multiprocessing")
    for child in () if multiprocessing is None else multiprocessing.active_children():
        # The processes of the program that has forked this one are none of its children.
        with suppress(AssertionError, OSError):
            if child.daemon and child.is_alive():
                child.terminate()


def process_descriptor(pid: int) -> int | None:
    """Return a descriptor that can be read once the process is gone; None: the system has none of it."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        # The process is gone already, or the system forbids the call.
        return None


def kill_process(pid: int, descriptor: int | None) -> None:
    """Kill a process; by its descriptor, if it has one, so that no other one with its id can be meant."""
    with suppress(ProcessLookupError):
        if descriptor is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)


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
