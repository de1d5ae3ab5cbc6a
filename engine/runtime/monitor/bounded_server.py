"""Serves HTTP to all clients, within bounds of connections, time and size.

The server is that of the standard library: a job must not need a package to be looked at, and the requests
are few, small and local. What the library leaves open is closed here:

Rules:

- At most MOST_CONNECTIONS are served at a time; others get an error at once and are closed.
- A request must be complete within REQUEST_SECONDS, however slowly its bytes trickle in, and its answer be
  taken within the same time. A connection without a request ends after IDLE_SECONDS.
- A body has one length, of MOST_BODY_BYTES at most, and a request one host. Two of them, or a length beside
  Transfer-Encoding, mean one thing to a proxy and another to this server (RFC 9112): they are refused.
- Every answer, also of the library's own errors, is JSON and has the headers that are listed here.
- Host: a request names one of the addresses that the job was given. So a page of another site cannot reach
  the job under a name that it makes resolve to this machine (DNS rebinding).
- Token: whatever changes something needs it, in a header that no form and no image can set. Beyond the
  loopback interface reading needs it as well.
- Origin: a change that a page of another origin asks for is refused, token or not. No answer has a header
  that would let another origin read it.
- An error is JSON with ``errors``, as in Flink: texts of one line.
"""

from __future__ import annotations

import hmac
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

JSON: Final = "application/json; charset=UTF-8"
BEARER: Final = "Bearer "
READING: Final = ("GET", "HEAD")
CHANGING: Final = ("POST", "PATCH")
LONGEST_SHOWN: Final = 100

POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFETY_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)


class Request(msgspec.Struct, frozen=True):
    """A request. ``headers`` are by name in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Answer(msgspec.Struct, frozen=True):
    """The answer to a request."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class Refused(Exception):
    """A request that cannot be answered; ``said`` is one line."""

    def __init__(self, status: int, said: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(said)
        self.status = status
        self.said = said
        self.headers = headers

    @property
    def answer(self) -> Answer:
        """Return the answer that says so."""
        return Answer(self.status, msgspec.json.encode({"errors": [self.said]}), JSON, self.headers)


def json_answer(value: Any, status: int = 200) -> Answer:
    """Return a value as JSON."""
    return Answer(status, msgspec.json.encode(value))


class Gate:
    """Checks the headers of requests."""

    def __init__(self, hosts: tuple[str, ...], token: str, *, guards_reading: bool) -> None:
        self._hosts = frozenset(hosts)
        self._token = token.encode()
        self._guards_reading = guards_reading

    def check(self, request: Request, *, is_public: bool = False) -> None:
        """Raise Refused unless the request may pass; what ``is_public`` holds nothing of the job."""
        host = request.headers.get("host", "")
        if _name_of(host) not in self._hosts:
            raise Refused(
                403,
                f"Host {_short(host)} does not belong to this job: use localhost or the address of"
                " the job, or set"
                " rest.address to the name by which it is reached",
            )
        if request.method not in READING:
            self._check_origin(request)
        elif not self._guards_reading or is_public:
            return
        given = request.headers.get("authorization", "")
        if not given.startswith(BEARER):
            raise Refused(
                401,
                "this needs the job's token: send the header 'Authorization: Bearer TOKEN'; the job has"
                " printed the token when it began",
                (("WWW-Authenticate", "Bearer"),),
            )
        if not hmac.compare_digest(given.removeprefix(BEARER).strip().encode(), self._token):
            raise Refused(
                401,
                "the token is not this job's: each process of a job has a new one",
                (("WWW-Authenticate", 'Bearer error="invalid_token"'),),
            )

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("origin")
        if origin is not None and _name_of(urlsplit(origin).netloc) not in self._hosts:
            raise Refused(403, f"a page of {_short(origin)} must not change this job")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refused(403, "a page of another site must not change this job")


def _name_of(host: str) -> str:
    """Return the name in a Host header, in lower case and without the port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _short(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")


MOST_CONNECTIONS: Final = 48
REQUEST_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5
MOST_BODY_BYTES: Final = 1 << 16
MOST_QUERY_FIELDS: Final = 64
ONLY_ONCE: Final = ("Host", "Content-Length", "Transfer-Encoding")

_FULL: Final = msgspec.json.encode({"errors": ["too many connections: close some, and try again"]})


class BoundedServer(ThreadingMixIn, HTTPServer):
    """A server on a socket that listens already; ``respond`` is called in the threads of the requests."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        listening: socket.socket,
        respond: Callable[[Request], Answer],
        *,
        most_connections: int = MOST_CONNECTIONS,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        super().__init__(listening.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.respond = respond
        self.request_seconds = request_seconds
        self._free = threading.BoundedSemaphore(most_connections)
        self._due: dict[socket.socket, float] = {}
        """By connection, until when its request must be over."""
        self._changing = threading.Lock()
        self._answers_under_way = 0

    @property
    def is_answering(self) -> bool:
        """Whether an answer is being made, and is not sent whole."""
        return self._answers_under_way > 0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count an answer as under way within the context."""
        with self._changing:
            self._answers_under_way += 1
        try:
            yield
        finally:
            with self._changing:
                self._answers_under_way -= 1

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there is room."""
        if not self._free.acquire(blocking=False):
            self._turn_away(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and give its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changing:
                self._due.pop(request, None)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that goes away is no event of the job."""

    def begins(self, connection: socket.socket) -> None:
        """Note that a connection waits for a request, or serves one."""
        with self._changing:
            self._due[connection] = time.monotonic() + self.request_seconds

    def service_actions(self) -> None:
        """End the connections whose time is over; called by ``serve_forever`` between two looks."""
        now = time.monotonic()
        with self._changing:
            late = [connection for connection, due in self._due.items() if due < now]
            for connection in late:
                del self._due[connection]
        for connection in late:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _turn_away(self, request: socket.socket) -> None:
        with suppress(OSError):
            request.settimeout(0)
            request.send(
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_FULL), _FULL)
            )
        self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    server: BoundedServer
    protocol_version = "HTTP/1.1"
    server_version = "onceproof"
    sys_version = ""
    timeout = IDLE_SECONDS
    error_content_type = "application/json"

    def handle_one_request(self) -> None:
        self.server.begins(self.connection)
        super().handle_one_request()

    def __getattr__(self, name: str) -> Any:
        # The library asks for ``do_`` with whatever method the client has sent.
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _serve(self) -> None:
        with self.server.answering():
            self._answer()

    def _answer(self) -> None:
        try:
            answer = self.server.respond(self._request())
        except Refused as refused:
            answer = refused.answer
            # What is left of the body could be taken for the next request.
            self.close_connection = True
        except Exception as error:
            answer = Refused(500, f"internal error: {type(error).__name__}").answer
            self.close_connection = True
        self._send(answer)

    def _request(self) -> Request:
        for name in ONLY_ONCE:
            if len(self.headers.get_all(name, ())) > 1:
                raise Refused(400, f"the request has more than one {name} header: send one")
        parts = urlsplit(self.path)
        try:
            fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MOST_QUERY_FIELDS)
        except ValueError as error:
            raise Refused(400, f"the query has more than {MOST_QUERY_FIELDS} fields") from error
        return Request(
            self.command,
            unquote(parts.path),
            dict(fields),
            {name.lower(): value for name, value in self.headers.items()},
            self._body(),
        )

    def _body(self) -> bytes:
        if "transfer-encoding" in self.headers:
            if "content-length" in self.headers:
                raise Refused(
                    400, "the request has both Content-Length and Transfer-Encoding: send the first"
                )
            raise Refused(411, "send the body with Content-Length, not in chunks")
        given = self.headers.get("content-length", "0")
        if not given.isdecimal():
            raise Refused(400, f"Content-Length {given[:20]!r} is not a length")
        length = int(given)
        if length > MOST_BODY_BYTES:
            raise Refused(413, f"the body has {length} bytes, and at most {MOST_BODY_BYTES} are taken")
        if length and self.command not in CHANGING:
            raise Refused(400, f"a {self.command} has no body")
        return self.rfile.read(length) if length else b""

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in (*SAFETY_HEADERS, *answer.headers):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that the library cannot read."""
        self.close_connection = True
        said = message or HTTPStatus(code).phrase
        # The command may be of an earlier request, or not be known at all.
        self.command = "GET"
        # Of a malformed first line the library makes HTTP 0.9, whose answers have no status.
        self.request_version = self.protocol_version
        self._send(Refused(code, f"the request cannot be read: {said}").answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing: the terminal belongs to the job."""
