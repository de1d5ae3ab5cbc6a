"""Which transactions a program has on PostgreSQL, seen on the way to a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from onceproof.harness.model.program_ends import COMMITTING_MARK, OPEN_MARK, PREPARED_MARK
from onceproof.harness.services.cutting_proxy import CuttingProxy
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.systems.program.postgres_session import PostgresSession

INSERT = "INSERT INTO session_numbers VALUES (1)"


class Client:
    """A client whose connection goes through a proxy, and what was seen of it."""

    def __init__(self, server: PostgresServer) -> None:
        self.seen: list[str] = []
        self._proxy = CuttingProxy(server.port)
        self._proxy.observe_with(lambda: PostgresSession(self.seen.append))
        address = server.address.replace(f":{server.port}/", f":{self._proxy.port}/")
        self.connection = psycopg.connect(address, autocommit=True)
        self.connection.execute("CREATE TABLE IF NOT EXISTS session_numbers (id bigint)")

    def close(self) -> None:
        self.connection.execute("DROP TABLE session_numbers")
        self.connection.close()
        self._proxy.close()


@pytest.fixture
def client(postgres_server: PostgresServer) -> Iterator[Client]:
    made = Client(postgres_server)
    yield made
    made.close()


def run(*statements: str) -> Callable[[Any], None]:
    def execute(connection: Any) -> None:
        for statement in statements:
            connection.execute(statement)

    return execute


def with_parameters(connection: Any) -> None:
    with connection.transaction():
        for number in range(3):
            connection.execute("INSERT INTO session_numbers VALUES (%s)", [number], prepare=True)


def in_a_pipeline(connection: Any) -> None:
    with connection.pipeline():
        run("BEGIN", INSERT, "COMMIT")(connection)


@pytest.mark.parametrize(
    ("act", "seen"),
    [
        (run("BEGIN", INSERT, INSERT, "COMMIT"), [OPEN_MARK, COMMITTING_MARK]),
        (run("begin", "-- all of them\nUPDATE session_numbers SET id = 2", "END"), []),
        (
            run("BEGIN", "WITH one AS (SELECT 1) INSERT INTO session_numbers SELECT 1", "ROLLBACK"),
            [OPEN_MARK],
        ),
        (run("BEGIN", INSERT, "SAVEPOINT one", "ROLLBACK TO one", "COMMIT"), [OPEN_MARK, COMMITTING_MARK]),
        (run("BEGIN", "SELECT 1", "COMMIT", INSERT), []),
        (run(f"BEGIN; {INSERT}; /* now */ COMMIT"), [COMMITTING_MARK, OPEN_MARK]),
        (with_parameters, [OPEN_MARK, COMMITTING_MARK]),
        (in_a_pipeline, [COMMITTING_MARK, OPEN_MARK]),
        (
            run("BEGIN", INSERT, "PREPARE TRANSACTION 'one'", "SELECT 1", "COMMIT PREPARED 'one'"),
            [OPEN_MARK, PREPARED_MARK, COMMITTING_MARK],
        ),
    ],
)
def test_transactions_that_write_are_seen_on_their_way(
    client: Client, act: Callable[[Any], None], seen: list[str]
) -> None:
    act(client.connection)
    assert client.seen == seen


def test_messages_are_found_in_pieces_and_behind_a_refused_encryption() -> None:
    seen: list[str] = []
    session = PostgresSession(seen.append)

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + (len(body) + 4).to_bytes(4) + body

    def in_bytes(take: Callable[[bytes], None], data: bytes) -> None:
        for byte in data:
            take(bytes([byte]))

    encryption = (8).to_bytes(4) + (80877103).to_bytes(4)
    start = (13).to_bytes(4) + (196608).to_bytes(4) + b"user\0"
    in_bytes(session.request, encryption)
    in_bytes(session.answer, b"N")
    in_bytes(session.request, start + message(b"Q", b"BEGIN\0"))
    in_bytes(session.answer, message(b"C", b"BEGIN\0") + message(b"Z", b"T") + message(b"C", b"INSERT 0 1\0"))
    assert seen == [OPEN_MARK]
    in_bytes(session.request, message(b"Q", b"commit\0"))
    assert seen == [OPEN_MARK, COMMITTING_MARK]
