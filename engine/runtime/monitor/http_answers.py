"""Requests and answers of HTTP as plain values, and the checks that each request passes first.

The rules this module lives by:

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
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

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
