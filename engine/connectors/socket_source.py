"""The source of texts from a socket (Flink: SocketTextStreamFunction).

The rules this module lives by:

- A thread of the reader's own connects and receives. The task takes what has arrived and never waits; the
  thread wakes it. Where the task is slow the thread stops receiving, so the server has to wait.
- A socket gives nothing twice. After a failure the reader connects anew, and what it had read since the last
  checkpoint is lost; nothing is repeated.
- The end of the connection is the end of the stream, unless there are reconnections left. What arrived last
  is a record, also without a delimiter behind it.
- A server that cannot be reached when no reconnection is left is an error; the restart strategy decides.
"""

from __future__ import annotations

import codecs
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Condition, Thread
from typing import Any, Final

from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record

MOST_WAITING: Final = 10_000
"""How many records may wait for the task before the thread stops receiving."""
RECEIVE_BYTES: Final = 1 << 16
CONNECT_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.5
"""Before each reconnection, as in Flink."""
CLOSE_SECONDS: Final = 1.0
RETRY_MS: Final = 1000
"""The thread wakes the task, so it need not ask often."""
LARGEST_PORT: Final = 65_535

_logger = logging.getLogger(__name__)


class SocketBroken(ConnectionError):
    """The server cannot be reached, or the connection broke. The message is one line."""


class SocketTextSource(Source):
    """The texts between the delimiters that a server sends (Flink: SocketTextStreamFunction)."""

    is_bounded = False
    can_be_replayed = False

    def __init__(self, host: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> None:
        """Describe the connection; nothing is opened yet.

        Args:
            host: the name or address of the server.
            port: its port.
            delimiter: what stands between two records; with a line feed, a carriage return before it is left
                out.
            max_retry: how often to connect again after the connection has ended or failed; -1: for ever.

        Raises:
            ValueError: the port or the delimiter is not possible.
        """
        if type(port) is not int or not 1 <= port <= LARGEST_PORT:
            raise ValueError(f"port {port!r} of the socket: give a whole number from 1 to {LARGEST_PORT}")
        if not delimiter:
            raise ValueError("the delimiter of the socket is empty: give the text between two records")
        self.host = host
        self.port = port
        self.delimiter = delimiter
        self.max_retry = max_retry

    def splits(self) -> Sequence[str]:
        """Return the only split."""
        return ["socket"]

    def open_split(self, split: str, position: Any | None) -> SocketReader:
        """Return a reader; it connects with its first read, unless the stream had ended at ``position``."""
        return SocketReader(self, bool(position))

    def identity(self) -> SourceIdentity:
        """Return that it is a socket: a position means nothing to any server, so each will do."""
        return SourceIdentity("a socket")


class SocketReader(SplitReader):
    """Hands the task what its thread has received."""

    def __init__(self, source: SocketTextSource, has_ended: bool) -> None:
        self._source = source
        self._has_ended = has_ended
        self._receiver: Receiver | None = None
        self._wake_up: Callable[[], None] = _no_wake_up

    def read(self, limit: int) -> list[Record]:
        """Return what has arrived. Raises SocketBroken behind the last record."""
        if self._has_ended:
            return []
        if self._receiver is None:
            self._receiver = Receiver(self._source, self._wake_up)
            self._receiver.start()
        values = self._receiver.take(limit)
        if values is None:
            self._has_ended = True
            return []
        return [(value, None) for value in values]

    @property
    def position(self) -> bool:
        """Whether the stream has ended: there is no other place to go on from."""
        return self._has_ended

    @property
    def exhausted(self) -> bool:
        """Whether the last connection has ended, and all that it brought has been read."""
        return self._has_ended

    @property
    def retry_ms(self) -> int:
        """A time that matters only if the wake-up is lost."""
        return RETRY_MS

    def when_available(self, wake_up: Callable[[], None]) -> None:
        """Keep what wakes the task."""
        self._wake_up = wake_up

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.stop()


class Receiver:
    """The thread of a reader, and the records that have arrived and are not taken yet."""

    def __init__(self, source: SocketTextSource, wake_up: Callable[[], None]) -> None:
        self._source = source
        self._wake_up = wake_up
        self._changed = Condition()
        """Guards everything below."""
        self._waiting: deque[str] = deque()
        self._connection: socket.socket | None = None
        self._is_stopped = False
        self._has_ended = False
        self._failure: OSError | None = None
        self._thread = Thread(target=self._run, name=f"socket {source.host}:{source.port}", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def take(self, limit: int) -> list[str] | None:
        """Return and remove the oldest records, ``limit`` at most; None: all are taken, and none will come.

        Raises SocketBroken in place of None where the connection failed.
        """
        with self._changed:
            waiting = self._waiting
            if not waiting and self._has_ended:
                if self._failure is not None:
                    raise SocketBroken(self._explained(self._failure))
                return None
            taken = [waiting.popleft() for _ in range(min(limit, len(waiting)))]
            self._changed.notify_all()
        return taken

    def stop(self) -> None:
        """Close the connection and end the thread; a connection that is only being made ends by itself."""
        with self._changed:
            self._is_stopped = True
            connection = self._connection
            self._changed.notify_all()
        if connection is not None:
            # An error says that the server has closed it already.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        attempts = 0
        while True:
            failure: OSError | None = None
            try:
                self._receive()
            except OSError as error:
                failure = error
            if 0 <= self._source.max_retry <= attempts or not self._pause(failure):
                break
            attempts += 1
        with self._changed:
            self._has_ended = True
            self._failure = failure
        self._wake_up()

    def _pause(self, failure: OSError | None) -> bool:
        """Wait before the next connection; return False if the reader is closed meanwhile."""
        with self._changed:
            if self._is_stopped:
                return False
            what = "the server has closed the connection" if failure is None else self._explained(failure)
            _logger.warning("%s: connecting again in %d ms", what, int(PAUSE_SECONDS * 1000))
            return not self._changed.wait_for(lambda: self._is_stopped, PAUSE_SECONDS)

    def _receive(self) -> None:
        """Receive one connection to its end."""
        source = self._source
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        begun = ""
        with socket.create_connection((source.host, source.port), CONNECT_SECONDS) as connection:
            connection.settimeout(None)
            with self._changed:
                if self._is_stopped:
                    return
                self._connection = connection
            try:
                while data := connection.recv(RECEIVE_BYTES):
                    *texts, begun = (begun + decoder.decode(data)).split(source.delimiter)
                    if not self._put(texts):
                        return
            finally:
                with self._changed:
                    self._connection = None
        begun += decoder.decode(b"", final=True)
        if begun:
            self._put([begun])

    def _put(self, texts: list[str]) -> bool:
        """Add records when there is room; return False if the reader is closed."""
        if self._source.delimiter == "\n":
            texts = [text.removesuffix("\r") for text in texts]
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or len(self._waiting) < MOST_WAITING)
            if self._is_stopped:
                return False
            self._waiting += texts
        if texts:
            self._wake_up()
        return True

    def _explained(self, failure: OSError) -> str:
        reason = failure.strerror or str(failure)
        return (
            f"the socket {self._source.host}:{self._source.port} cannot be read: {reason}:"
            " start its server first (such as nc -lk PORT), and check host and port"
        )


def _no_wake_up() -> None:
    """Do nothing: the task asks by itself."""
