"""A socket as a source, over real connections of this machine."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress

import pytest

from onceproof.engine.connectors.socket_source import MOST_WAITING, SocketBroken, SocketTextSource
from tests.patience import PATIENCE_SECONDS


class Server:
    """Serves one connection after another; each is a list of byte strings to send, then it is closed."""

    def __init__(self, *connections):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.connections = connections
        self.go_on = threading.Event()
        self.sent = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        for parts in self.connections:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                for part in parts:
                    if part is None:
                        assert self.go_on.wait(PATIENCE_SECONDS)
                        continue
                    try:
                        connection.sendall(part)
                    except OSError:
                        return
                    self.sent += len(part)
        self.listening.close()

    def close(self):
        self.go_on.set()
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join(PATIENCE_SECONDS)


@pytest.fixture
def server():
    servers = []

    def serve(*connections):
        servers.append(Server(*connections))
        return servers[-1]

    yield serve
    for each in servers:
        each.close()


class Reading:
    """A reader that is polled when it is woken, as a task does."""

    def __init__(self, port, delimiter="\n", max_retry=0, position=None):
        source = SocketTextSource("127.0.0.1", port, delimiter, max_retry)
        self.reader = source.open_split(source.splits()[0], position)
        self.woken = threading.Event()
        self.reader.when_available(self.woken.set)
        self.values = []

    def until(self, is_enough):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_enough():
            assert time.monotonic() < deadline, self.values
            self.woken.clear()
            records = self.reader.read(3)
            self.values += [value for value, _ in records]
            if not records and not self.reader.exhausted:
                assert self.woken.wait(PATIENCE_SECONDS), "no thread woke the reader"
        return self.values

    def all(self):
        try:
            return self.until(lambda: self.reader.exhausted)
        finally:
            self.reader.close()


def test_texts_end_at_the_delimiter_wherever_the_network_cuts_them(server):
    parts = [b"one\r\ntw", b"o\n\nf\xc3", b"\xbcnf\nlast"]
    assert Reading(server(parts).port).all() == ["one", "two", "", "fünf", "last"]


def test_delimiter_may_be_any_text(server):
    assert Reading(server([b"a||b|", b"|c\n||"]).port, "||").all() == ["a", "b", "c\n"]


def test_texts_are_read_while_the_connection_lasts(server):
    serving = server([b"a\nb\n", None, b"c\n"])
    reading = Reading(serving.port)
    assert reading.until(lambda: len(reading.values) == 2) == ["a", "b"]
    assert reading.reader.read(3) == []
    assert not reading.reader.exhausted
    serving.go_on.set()
    assert reading.all() == ["a", "b", "c"]


def test_connection_is_made_anew_as_often_as_allowed(server, caplog):
    reading = Reading(server([b"a\n"], [b"b"], [b"c\n"], [b"never\n"]).port, max_retry=2)
    assert reading.all() == ["a", "b", "c"]
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 2
    assert "the server has closed the connection: connecting again in 500 ms" in warned[0].getMessage()


def test_server_that_is_not_there_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(SocketBroken) as caught:
        Reading(port).all()
    assert str(caught.value) == (
        f"the socket 127.0.0.1:{port} cannot be read: Connection refused:"
        " start its server first (such as nc -lk PORT), and check host and port"
    )


def test_stream_that_had_ended_at_the_checkpoint_connects_no_more(server):
    serving = server([b"a\n"])
    reading = Reading(serving.port)
    reading.all()
    assert reading.reader.position is True
    assert Reading(serving.port, position=True).all() == []


def test_thread_of_a_slow_task_stops_receiving(server):
    line = b"x" * 4_000 + b"\n"
    serving = server([line * 100] * 2_000)
    reading = Reading(serving.port)
    reading.until(lambda: len(reading.values) >= 3)
    before = -1
    while before != serving.sent:
        before = serving.sent
        time.sleep(0.3)
    assert serving.sent < 2 * MOST_WAITING * len(line) < 2_000 * 100 * len(line)
    reading.reader.close()


def test_closed_reader_leaves_no_thread(server):
    port = server([b"a\n", None]).port
    reading = Reading(port)
    reading.until(lambda: reading.values)
    [thread] = [each for each in threading.enumerate() if each.name == f"socket 127.0.0.1:{port}"]
    reading.reader.close()
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("port", "delimiter", "said"),
    [(0, "\n", "port 0"), (70_000, "\n", "port 70000"), ("80", "\n", "port '80'"), (80, "", "is empty")],
)
def test_socket_that_is_not_possible_is_refused(port, delimiter, said):
    with pytest.raises(ValueError, match=said):
        SocketTextSource("localhost", port, delimiter)
