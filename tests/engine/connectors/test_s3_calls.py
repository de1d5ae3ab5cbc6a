"""The requests of the file sink to S3 over connections that are cut off in the middle of an answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from onceproof.engine.connectors import s3_calls
from onceproof.engine.connectors.s3_calls import S3Calls
from onceproof.harness.services.object_store_server import BUCKET

WHOLE = b"HTTP/1.1 200 OK\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\nX-Cut: here"
LISTED = (("key", "first"), ("key", "second"), ("key-of-another", "other"))


class CuttingServer:
    """Answers each connection with the next of some bytes, and closes it."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def will_answer(self, *answers: bytes) -> None:
        self.answers, self.requests = list(answers), []

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                head = b"".join(iter(stream.readline, b"\r\n"))
                if b"expect:" in head.lower():
                    connection.sendall(CONTINUE)
                    continue
                [length] = [
                    int(line.split()[1]) for line in head.splitlines() if line.startswith(b"Content-Length:")
                ] or [0]
                self.requests.append(head + stream.read(length))
                connection.sendall(self.answers.pop(0))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture(scope="module")
def server() -> Iterator[CuttingServer]:
    server = CuttingServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def calls(server: CuttingServer) -> Iterator[S3Calls]:
    """The requests to that server."""
    pytest.importorskip("botocore", reason="the extra s3 is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.address)
        patch.setenv("AWS_ACCESS_KEY_ID", "onceproof")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "onceproof-secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3_calls._client.cache_clear()
        calls = s3_calls.s3_calls(BUCKET, read_timeout_s=5)
        assert isinstance(calls, S3Calls)
        yield calls
    s3_calls._client.cache_clear()


def answer(body: str) -> bytes:
    return WHOLE + f"Content-Length: {len(body)}\r\n\r\n{body}".encode()


REQUESTS: dict[str, Callable[[S3Calls], object]] = {
    "find": lambda calls: calls.find("key"),
    "begin": lambda calls: calls.begin_upload("key", "token"),
    "part": lambda calls: calls.put_part("key", "id", 1, b"rows"),
    "completion": lambda calls: calls.complete_upload("key", "id", ["tag"]),
    "look": lambda calls: calls.has_upload("key", "id"),
    "list": lambda calls: list(calls.uploads("")),
}


@pytest.mark.parametrize("request_name", REQUESTS)
def test_answer_that_ends_within_its_headers_is_an_error(
    server: CuttingServer, calls: S3Calls, request_name: str
) -> None:
    server.will_answer(*[WHOLE + b"Date: Wed, 25 N"] * 6)
    with pytest.raises(OSError, match=r"cut off|closed|500"):
        REQUESTS[request_name](calls)


def test_body_of_a_part_does_not_wait_for_an_answer_that_may_be_cut_off(
    server: CuttingServer, calls: S3Calls
) -> None:
    server.will_answer(WHOLE + b'ETag: "tag"\r\nContent-Length: 0\r\n\r\n')
    assert calls.put_part("key", "id", 1, b"the rows") == '"tag"'
    assert server.requests[0].endswith(b"the rows")


def test_object_whose_token_is_cut_off_is_asked_for_again(server: CuttingServer, calls: S3Calls) -> None:
    length = WHOLE + b"Content-Length: 7\r\n"
    server.will_answer(length + b"x-amz-m", length + b"x-amz-meta-onceproof-upload: mine\r\n\r\n")
    found = calls.find("key")
    assert found is not None
    assert (found.length, found.token) == (7, "mine")


def test_upload_that_an_unanswered_try_has_begun_is_dropped(server: CuttingServer, calls: S3Calls) -> None:
    listed = "".join(
        [f"<Upload><Key>{key}</Key><UploadId>{upload}</UploadId></Upload>" for key, upload in LISTED]
    )
    server.will_answer(
        b"",
        answer("<CreateMultipartUploadResult><UploadId>second</UploadId></CreateMultipartUploadResult>"),
        answer(f"<R><IsTruncated>false</IsTruncated>{listed}</R>"),
        b"HTTP/1.1 204 No Content\r\n\r\n",
    )
    assert calls.begin_upload("key", "token") == "second"
    dropped = [request for request in server.requests if request.startswith(b"DELETE")]
    assert [b"uploadId=first " in request for request in dropped] == [True]
