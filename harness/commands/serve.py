"""`onceproof serve`: the runs below a folder as pages on this machine.

The rules this module lives by:

- The server listens on the loopback interface and answers GET and HEAD. It writes nothing and runs no family
  but those built in and those of its command line.
- The Host header must name this server: a name that another site has pointed at 127.0.0.1 is refused. So is
  a request that a browser sends on behalf of another site, which could make replays run.
- A request names things by the keys of the index. No part of it becomes a path.
- Each page carries the policy that forbids its scripts and styles from elsewhere, and all connections.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from onceproof.harness.model.exit_codes import PASSED, UsageError
from onceproof.harness.model.family import FamilyError
from onceproof.harness.reporting.served_runs import RunCatalogue, query_of
from onceproof.harness.reporting.served_scenarios import NotServed, ScenarioReplays
from onceproof.harness.services.service import LOOPBACK
from onceproof.reports.model import ReportUnreadable
from onceproof.reports.render import content_security_policy, render
from onceproof.reports.served import index_page, message_page, scenario_page, search_page

LONGEST_ADDRESS: Final = 4096
MOST_FIELDS: Final = 20
READ_SECONDS: Final = 15.0
"""For a request; a client that sends none is let go."""

_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": content_security_policy(served=True),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Refused(Exception):
    """A request that is not answered: a status and a sentence."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class RunServer(ThreadingHTTPServer):
    """Serves the runs below a folder on a port of the loopback interface; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, root: Path, port: int, families: Sequence[str] = ()) -> None:
        self.root = root
        self.catalogue = RunCatalogue(root)
        self.replays = ScenarioReplays(families)
        self.reading = threading.Lock()
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def address(self) -> str:
        """The address that a browser opens."""
        return f"http://{LOOPBACK}:{self.server_port}/"


def serve_command(root: Path, port: int, families: Sequence[str], as_json: bool) -> int:
    """Serve until the command is interrupted; print the address first."""
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder: name one with runs in it, such as reports/out")
    try:
        server = RunServer(root, port, families)
    except OSError as error:
        raise UsageError(
            f"--port {port}: cannot be opened on {LOOPBACK}: {error.strerror or error}: choose another, or 0"
        ) from None
    with server:
        runs = sum(not entry.explained for entry in server.catalogue.refresh())
        if as_json:
            print(f'{{"address":"{server.address}","runs":{runs}}}', flush=True)
        else:
            print(f"{runs} runs below {root} at {server.address} until Ctrl-C", flush=True)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print("onceproof: stopped", file=sys.stderr)
    return PASSED


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: RunServer
    timeout = READ_SECONDS
    protocol_version = "HTTP/1.1"
    server_version = "onceproof"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with a page."""
        try:
            self._check()
            status, page = HTTPStatus.OK, self._page()
        except _Refused as refused:
            status, page = refused.status, message_page(refused.status.phrase, str(refused))
        except (NotServed, FamilyError, ReportUnreadable) as error:
            status, page = HTTPStatus.NOT_FOUND, message_page("Not here", str(error))
        except Exception as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            status, page = HTTPStatus.INTERNAL_SERVER_ERROR, message_page("Internal error", text)
            print(f"onceproof: serve: {text}", file=sys.stderr)
        self._answer(status, page.encode("utf-8", "replace"))

    def do_HEAD(self) -> None:
        """Answer as to GET, without the page."""
        self.do_GET()

    def parse_request(self) -> bool:
        """Refuse each method but GET and HEAD, with its body unread."""
        if not super().parse_request():
            return False
        if self.command in ("GET", "HEAD"):
            return True
        self.close_connection = True
        text = "The server answers GET and HEAD: it changes nothing."
        page = message_page("Method not allowed", text).encode()
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, page, {"Allow": "GET, HEAD"})
        return False

    def _answer(self, status: HTTPStatus, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | (more or {})).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _check(self) -> None:
        """Refuse what no page of this server asks."""
        names = {f"{host}:{self.server.server_port}" for host in (LOOPBACK, "localhost")}
        if self.headers.get("Host", "") not in names:
            self.close_connection = True
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, f"Open {self.server.address} by this address.")
        opened = self.headers.get("Sec-Fetch-Mode") == "navigate" and urlsplit(self.path).path == "/"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not opened:
            raise _Refused(HTTPStatus.FORBIDDEN, "Another site has sent this request.")
        if len(self.path) > LONGEST_ADDRESS:
            raise _Refused(HTTPStatus.REQUEST_URI_TOO_LONG, "The address is too long.")

    def _page(self) -> str:
        address = urlsplit(self.path)
        page = _PAGES.get(address.path)
        if page is None:
            raise _Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
        try:
            pairs = parse_qsl(address.query, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "The address asks for too much.") from None
        return page(self.server, dict(pairs))

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: a reader of pages is no event."""


def _index(server: RunServer, asked: dict[str, str]) -> str:
    span = asked.get("first", ""), asked.get("last", "")
    with server.reading:
        runs = server.catalogue.refresh()
        nights = server.catalogue.nights(*span)
    return index_page(str(server.root), runs, nights, span)


def _run(server: RunServer, asked: dict[str, str]) -> str:
    key = asked.get("run", "")
    with server.reading:
        server.catalogue.refresh()
        if server.catalogue.folder(key) is None:
            raise _Refused(HTTPStatus.NOT_FOUND, f"There is no run {key!r} below this folder.")
        report = server.catalogue.report(key)
    return render(report, served=key)


def _search(server: RunServer, asked: dict[str, str]) -> str:
    try:
        query = query_of(asked)
    except ValueError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"The search does not know this: {error}.") from None
    with server.reading:
        server.catalogue.refresh()
        found = server.catalogue.search(query)
    return search_page(asked, found.hits, found.matches, found.searched, found.complete)


def _scenario(server: RunServer, asked: dict[str, str]) -> str:
    family, seed, run = asked.get("family", ""), asked.get("seed", ""), asked.get("run", "")
    if not seed.isdecimal() or len(seed) > 20:
        raise _Refused(HTTPStatus.BAD_REQUEST, "A scenario has a family and a seed, a whole number.")
    with server.reading:
        server.catalogue.refresh()
        outcome = server.catalogue.outcome(run, family, int(seed))
        known = server.catalogue.folder(run) is not None
        named_file = server.catalogue.family_file(run, family)
    served = server.replays.replay(family, int(seed), outcome, named_file)
    return scenario_page(served, run if known else "")


_PAGES: Final[dict[str, Callable[[RunServer, dict[str, str]], str]]] = {
    "/": _index,
    "/run": _run,
    "/search": _search,
    "/scenario": _scenario,
}
