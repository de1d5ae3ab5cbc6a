"""Real servers for tests: each is started once in a test process, and only if a test asks for it.

A server that cannot be had on this machine skips its tests with the reason. A server that is there and does
not start fails them. With several processes, one has all tests of a server (`tests/conftest.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceproof.engine.extras import (
    KAFKA,
    POSTGRES,
    POSTGRES_SERVER,
    S3,
    S3_SERVER,
    ExtraMissing,
    require,
)
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.object_store_server import ObjectStoreServer
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.services.service import Service, ServiceMissing

SERVERS = ("kafka_broker", "object_store_server", "postgres_server")
"""The fixtures of servers."""


def running(server: Service, *extras: str) -> Iterator[Service]:
    """Start a server for the body of a fixture, and end it however the tests end."""
    try:
        require(f"a test of {server.name}", *extras)
        server.start()
    except (ServiceMissing, ExtraMissing) as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        # Its data is thrown away, so nothing is gained by an end in order.
        server.kill()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A broker; a test that kills it starts it again."""
    yield from running(
        KafkaBroker(tmp_path_factory.mktemp("kafka"), dies_with_parent=True, has_proxy=True), KAFKA
    )


@pytest.fixture(scope="session")
def object_store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An S3 server; tests use the fixture ``object_store``."""
    yield from running(ObjectStoreServer(tmp_path_factory.mktemp("s3"), dies_with_parent=True), S3, S3_SERVER)


@pytest.fixture
def object_store(
    object_store_server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> ObjectStoreServer:
    """The S3 server, as the one that this process and its children reach at s3://."""
    for name, value in object_store_server.environment.items():
        monkeypatch.setenv(name, value)
    return object_store_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Service]:
    """A server without syncs; a test that kills it starts it again.

    Its folder is directly below the system's temporary one, because root starts it as another user.
    """
    with tempfile.TemporaryDirectory(prefix="onceproof-postgres-") as name:
        Path(name).chmod(0o755)
        server = PostgresServer(Path(name), settings={"fsync": "off"}, dies_with_parent=True)
        yield from running(server, POSTGRES, POSTGRES_SERVER)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database that is empty when the test begins."""
    import psycopg

    postgres_server.resume()
    postgres_server.start()
    with psycopg.connect(postgres_server.address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            connection.execute(f"ROLLBACK PREPARED '{gid}'")
        connection.execute(
            "SET client_min_messages = warning; DROP SCHEMA public CASCADE; CREATE SCHEMA public"
        )
    yield postgres_server.address
    postgres_server.resume()
    postgres_server.start()
