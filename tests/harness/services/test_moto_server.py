"""The lock before moto: one request at a time, and none that waits for a slow client."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from onceproof.harness.services.moto_server import OneAtATime
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def answer(server: OneAtATime, **environ: Any) -> list[bytes]:
    return list(server(environ, lambda *_: lambda _: None))


def test_two_requests_are_never_handled_at_the_same_time() -> None:
    inside: list[int] = []
    most = 0

    def application(environ: WSGIEnvironment, _: StartResponse) -> list[bytes]:
        nonlocal most
        inside.append(1)
        most = max(most, len(inside))
        time.sleep(0.01)
        inside.pop()
        return [environ["wsgi.input"].read()]

    server = OneAtATime(application)

    def ask(number: int) -> list[bytes]:
        body = str(number).encode()
        return answer(
            server, CONTENT_LENGTH=str(len(body)), **{"wsgi.input": io.BytesIO(body + b"next request")}
        )

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(8))) == [[str(number).encode()] for number in range(8)]
    assert most == 1


def test_client_that_pauses_in_its_body_blocks_no_other() -> None:
    resumed = threading.Event()

    class PausedBody:
        def read(self, size: int) -> bytes:
            assert resumed.wait(PATIENCE_SECONDS)
            return b"late"

    server = OneAtATime(lambda environ, _: [environ["wsgi.input"].read()])
    with ThreadPoolExecutor(1) as thread:
        paused = thread.submit(answer, server, **{"wsgi.input_terminated": True, "wsgi.input": PausedBody()})
        try:
            assert answer(server, **{"wsgi.input": io.BytesIO()}) == [b""]
        finally:
            resumed.set()
        assert paused.result(PATIENCE_SECONDS) == [b"late"]
