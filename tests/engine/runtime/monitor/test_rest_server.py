"""The HTTP server under slow, rude and many clients, and the job beside it."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import msgspec
import psutil
import pytest

from onceproof.engine import Configuration, Encoder, FileSink, StreamExecutionEnvironment
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.runtime.monitor.bounded_server import (
    MOST_BODY_BYTES,
    SAFETY_HEADERS,
    Answer,
    BoundedServer,
    Refused,
)
from onceproof.engine.runtime.monitor.monitor_link import AddressInUse, _listen
from onceproof.engine.runtime.monitor.rest_note import note_path, read_note
from tests.patience import PATIENCE_SECONDS


def respond(request):
    if request.path == "/refused":
        raise Refused(409, "no")
    if request.path == "/broken":
        raise ValueError("a secret of the server")
    return Answer(200, msgspec.json.encode([request.method, request.path, request.query, len(request.body)]))


@contextmanager
def serving(**bounds):
    server = BoundedServer(socket.create_server(("127.0.0.1", 0)), respond, **bounds)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.socket.getsockname()[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def port():
    with serving() as opened:
        yield opened


def ask(port, method="GET", path="/", body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def spoken(port, data):
    """Return all that the server answers to bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(data)
        received = b""
        while part := connection.recv(4096):
            received += part
    return received


def test_requests_are_passed_on_with_path_query_and_body(port):
    answer, body = ask(port, "POST", "/a%20b?x=1&y=&x=2", b"12345")
    assert msgspec.json.decode(body) == ["POST", "/a b", {"x": "2", "y": ""}, 5]
    assert all(answer.getheader(name) == value for name, value in SAFETY_HEADERS)
    assert "Python" not in (answer.getheader("Server") or "")


def test_head_has_the_length_and_no_body(port):
    answer, body = ask(port, "HEAD", "/")
    assert (answer.status, body) == (200, b"")
    assert int(answer.getheader("Content-Length")) > 0


@pytest.mark.parametrize(
    ("status", "request_line"),
    [
        (400, b"GET\r\n\r\n"),
        (400, b"GET / HTTP/x\r\n\r\n"),
        (400, b"\x00\xff\x00 / HTTP/1.1 a\r\n\r\n"),
        (505, b"GET / HTTP/3.0\r\n\r\n"),
        (414, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000 + b"\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n"),
        (400, b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n"),
        (413, b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MOST_BODY_BYTES + 1)),
        (411, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"),
        (400, b"GET / HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab"),
        (400, b"POST / HTTP/1.1\r\nContent-Length: 0\r\ncontent-length: 2\r\n\r\nab"),
        (400, b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, b"GET /?" + b"&".join([b"a=b"] * 100) + b" HTTP/1.1\r\n\r\n"),
        (409, b"GET /refused HTTP/1.1\r\n\r\n"),
        (500, b"GET /broken HTTP/1.1\r\n\r\n"),
    ],
)
def test_a_malformed_request_is_answered_in_json_and_closed(port, status, request_line):
    head, _, body = spoken(port, request_line).partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[1] == b"%d" % status
    assert b"application/json" in head
    [said] = msgspec.json.decode(body)["errors"]
    assert "secret" not in said


def test_an_unknown_method_reaches_the_api(port):
    _, body = ask(port, "BREW", "/")
    assert msgspec.json.decode(body)[0] == "BREW"


def test_connections_beyond_the_bound_are_turned_away_and_come_back():
    with serving(most_connections=3) as port, ExitStack() as held:
        for _ in range(3):
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not spoken(port, b"").startswith(b"HTTP/1.1 503"):
            assert time.monotonic() < deadline
        held.close()
        while ask(port)[0].status != 200:
            assert time.monotonic() < deadline


def test_a_request_that_trickles_in_ends_with_its_time():
    # A busy machine may take a while to send the whole request at the end.
    with serving(request_seconds=3) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
            deadline = time.monotonic() + PATIENCE_SECONDS
            connection.sendall(b"GET / HT")
            while not _is_closed(connection):
                assert time.monotonic() < deadline
                with suppress(ConnectionError):
                    connection.send(b"T")
        assert ask(port)[0].status == 200


def _is_closed(connection):
    """Wait a moment, and return whether the other end has closed."""
    connection.settimeout(0.02)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_port_that_is_taken_is_one_line_with_the_option(monkeypatch):
    monkeypatch.setattr("onceproof.engine.runtime.monitor.monitor_link.BIND_SECONDS", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"^rest\.port: 127\.0\.0\.1:{port} .*choose another port"):
            _listen("127.0.0.1", port, "rest.port")


def test_a_job_under_a_flood_of_slow_clients_writes_each_row_once(tmp_path):
    options = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "rest.port": 0,
        "metrics.fetcher.update-interval": "50 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    released = threading.Event()

    def wait_for_release(number):
        if number == 19_999:
            # The flood is over before the job ends.
            released.wait(PATIENCE_SECONDS)
        return number

    numbers = env.from_source(CollectionSource.of_values(range(20_000)), None, "numbers")
    texts = numbers.map(wait_for_release).key_by(lambda number: number % 7).map(str)
    texts.sink_to(FileSink.for_row_format(str(tmp_path / "rows"), Encoder.simple_string_encoder()).build())
    client = env.execute_async("flooded")
    root = tmp_path / "checkpoints" / client.get_job_id()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (note := read_note(root)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert note_path(root).stat().st_mode & 0o777 == 0o600
    port = int(note.url.rpartition(":")[2])
    with ExitStack() as held:
        for place in range(70):
            slow = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            slow.sendall(b"GET /jobs HTTP/1.1\r\nHost: localhost" if place % 2 else b"")
        assert b" 503 " in spoken(port, b"")
    while b" 200 " not in spoken(port, b"GET /jobs HTTP/1.0\r\nHost: localhost\r\n\r\n"):
        assert time.monotonic() < deadline
    released.set()
    result = client.get_job_execution_result().result(PATIENCE_SECONDS)
    rows = [line for path in (tmp_path / "rows").glob("part-*") for line in path.read_text().splitlines()]
    assert sorted(map(int, rows)) == list(range(20_000))
    assert (result.attempts, result.restarts) == (1, 0)
    assert not note_path(root).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_job_goes_on_without_its_monitor_process(tmp_path, caplog, capfd):
    options = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "rest.port": 0,
        "metrics.reporter.prom.factory.class": "prometheus",
        "metrics.reporter.prom.port": 0,
        "metrics.fetcher.update-interval": "10 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    begun, released = threading.Event(), threading.Event()

    def wait_for_release(number):
        begun.set()
        released.wait(PATIENCE_SECONDS)
        return number

    env.from_collection([1, 2, 3]).map(wait_for_release).print()
    client = env.execute_async("alone")
    assert begun.wait(PATIENCE_SECONDS)
    said = capfd.readouterr().err
    address = re.search(r"Prometheus: http://127\.0\.0\.1:(\d+)/metrics", said)
    assert b"flink_jobmanager_job_numRestarts" in first_metrics(int(address[1]))
    [monitor] = [
        each for each in psutil.Process().children() if "monitor_process" in " ".join(each.cmdline())
    ]
    monitor.kill()
    monitor.wait(PATIENCE_SECONDS)
    released.set()
    assert client.get_job_execution_result().result(PATIENCE_SECONDS).attempts == 1
    [warning] = [each.getMessage() for each in caplog.records if "accepts no more views" in each.getMessage()]
    assert warning.startswith(
        "job 'alone': MonitorProcess accepts no more views; the job continues without it"
    )


def first_metrics(port):
    """Return the metrics for Prometheus, once the job has shown something."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = spoken(port, b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        if b" 200 " in answer[:20]:
            return answer
        assert time.monotonic() < deadline
        time.sleep(0.02)
