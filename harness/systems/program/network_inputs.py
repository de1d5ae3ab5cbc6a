"""Inputs of a program over sockets and HTTP: it calls the harness, or the harness calls it.

The rules this module lives by:

- All ports are those of the loopback interface. A port on which the program is to listen is the same for each
  of its starts.
- Over a socket each connection gets all lines, from the first one on.
- A program that polls asks ``GET /SPLIT?from=N`` for the lines of a split from its N-th on, and ``GET /`` for
  the names of the splits.
- What is posted is posted again until the program answers with 2xx. The header Idempotency-Key is the same
  for each try of a record: without an answer the harness cannot know whether the program has taken it.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from onceproof.harness.model.program_ends import Input
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.services.service import LOOPBACK, free_port
from onceproof.harness.systems.program.inputs import DeliveredInput, InputStream, NotTaken, ProgramInput
from onceproof.harness.systems.program.server_inputs import headers_of
from onceproof.harness.systems.program.trial_end import TrialEnd

_SECONDS_BETWEEN_CALLS: Final = 0.02
_SECONDS_TO_ANSWER: Final = 10.0


def input_socket(end: TrialEnd[Input]) -> ProgramInput:
    """Return the input over a socket for the side that connects."""
    return ListeningSocket(end) if end.file.connects == "program" else CallingSocket(end)


def input_http(end: TrialEnd[Input]) -> ProgramInput:
    """Return the input over HTTP for the side that connects."""
    return PolledInput(end) if end.file.connects == "program" else PostedInput(end)


class ListeningSocket(InputStream):
    """A port to which the program connects."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"{LOOPBACK}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        super().close()
        with suppress(OSError):
            # Wakes up the thread that waits for a connection.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.send(connection.sendall, connection.close)


class CallingSocket(InputStream):
    """A port on which the program listens, and to which the harness connects once in each of its starts."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        self.port = free_port()
        self.address = f"{LOOPBACK}:{self.port}"
        self._starts = 0

    def started(self, stdin: IO[bytes]) -> None:
        self._starts += 1
        threading.Thread(target=self._connect, args=(self._starts,), daemon=True).start()

    def _connect(self, start: int) -> None:
        while start == self._starts and not self._is_closed:
            try:
                connection = socket.create_connection((LOOPBACK, self.port))
            except OSError:
                time.sleep(_SECONDS_BETWEEN_CALLS)
                continue
            if start == self._starts:
                self.send(connection.sendall, connection.close)
            else:
                connection.close()
            return


class PolledInput(ProgramInput):
    """A server that the program asks for lines."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        lines: dict[str, list[bytes]] = {split: [] for split in end.splits}
        self._lines = lines

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                split = unquote(asked.path.strip("/"))
                first = parse_qs(asked.query).get("from", ["0"])[0]
                if not split:
                    self._answer(200, msgspec.json.encode(list(lines)))
                elif split not in lines or not first.isdecimal():
                    self._answer(404, b"there are GET / and GET /SPLIT?from=N\n")
                else:
                    self._answer(200, b"".join(lines[split][int(first) :]))

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(content)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.address = f"http://{LOOPBACK}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def give(self, split: str, record: InputRecord) -> None:
        self._lines[split].append(self.line(record))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class PostedInput(DeliveredInput):
    """A port on which the program listens, and to which each record is posted."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        self.port = free_port()
        self.address = f"http://{LOOPBACK}:{self.port}{end.file.path}"
        super().__init__(end)

    def deliver(self, number: int, split: str, record: InputRecord) -> None:
        headers = {**headers_of(self._end, self.fields(record)), "Idempotency-Key": f"{number}"}
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_SECONDS_TO_ANSWER)
        try:
            connection.request("POST", self._end.file.path, self.message(record), headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            raise NotTaken from None
        finally:
            connection.close()
        if status // 100 != 2:
            raise NotTaken
