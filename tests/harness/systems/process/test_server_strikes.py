"""A real server that is killed, paused and cut off comes back, and only its errors are excused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable, RefusedByDatabase
from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.systems.fault_clock import NOTHING_HIT, ClockState
from onceproof.harness.systems.process.server_strikes import (
    SHORT_REQUEST_MS,
    StrikeSocket,
    StruckServer,
    request_timeout_ms,
)
from onceproof.harness.systems.process.strike_requests import is_server_away, may_be_away, strike_server
from onceproof.harness.systems.process.trial_servers import TrialPostgres
from tests.patience import PATIENCE_SECONDS

KILL = Fault("kill_server", "committing", delay=300, server="postgres")
PAUSE = Fault("pause_server", "committing", delay=400, server="postgres")
REQUEST = Fault("cut_connection", "committing", server="postgres")
ANSWER = Fault("cut_connection", "committing", server="postgres", means="answer")


@pytest.fixture
def struck(postgres_server: PostgresServer) -> Iterator[StruckServer]:
    trial = TrialPostgres(postgres_server)
    yield trial.struck
    trial.close()


@pytest.fixture
def address(struck: StruckServer, postgres_server: PostgresServer, database: str) -> str:
    """The address of an empty database behind the proxy."""
    return database.replace(f":{postgres_server.port}/", f":{struck.port}/")


def connected(address: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(address, autocommit=True)


def test_killed_server_is_dead_at_once_and_back_after_its_delay(
    struck: StruckServer, postgres_server: PostgresServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, is_missed = postgres_server.start, threading.Event()
    started: list[float] = []

    def start_when_it_is_missed() -> None:
        started.append(time.monotonic())
        is_missed.wait(PATIENCE_SECONDS)
        start()

    monkeypatch.setattr(postgres_server, "start", start_when_it_is_missed)
    with connected(address) as connection, StrikeSocket({"postgres": struck}) as strikes:
        begun = time.monotonic()
        strike_server(strikes.address, KILL)
        try:
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
            with pytest.raises(psycopg.OperationalError):
                connected(address)
        finally:
            is_missed.set()
    assert started[0] - begun >= KILL.delay / 1000
    assert postgres_server.is_running()
    connected(address).close()


def test_paused_server_answers_when_its_delay_is_over(struck: StruckServer, address: str) -> None:
    with connected(address) as connection, StrikeSocket({"postgres": struck}) as strikes:
        begun = time.monotonic()
        strike_server(strikes.address, PAUSE)
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
        assert time.monotonic() - begun >= PAUSE.delay / 1000


@pytest.mark.parametrize(("fault", "rows"), [(REQUEST, 0), (ANSWER, 1)])
def test_cut_connection_loses_a_request_or_only_its_answer(
    struck: StruckServer, database: str, address: str, fault: Fault, rows: int
) -> None:
    with connected(database) as outside, connected(address) as connection:
        outside.execute("CREATE TABLE numbers (n int)")
        with StrikeSocket({"postgres": struck}) as strikes:
            strike_server(strikes.address, fault)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("INSERT INTO numbers VALUES (1)")
        assert outside.execute("SELECT count(*) FROM numbers").fetchall() == [(rows,)]


def test_cut_that_met_no_request_is_taken_back(struck: StruckServer, address: str) -> None:
    with StrikeSocket({"postgres": struck}) as strikes:
        strike_server(strikes.address, REQUEST)
    connected(address).close()


def test_fault_of_a_server_that_is_not_there_is_an_error(struck: StruckServer) -> None:
    with StrikeSocket({"kafka": struck}) as strikes, pytest.raises(OSError, match="was not carried out"):
        strike_server(strikes.address, KILL)


def test_only_a_connector_that_misses_its_server_is_excused() -> None:
    wrapped = RuntimeError("a task failed")
    wrapped.__cause__ = DatabaseUnavailable("the server is not there")
    assert is_server_away(wrapped)
    assert not is_server_away(RefusedByDatabase("no such table"))
    assert not is_server_away(OSError("the disk is full"))


def test_server_is_excused_once_it_was_struck_and_before_a_pause_from_the_start() -> None:
    task = Fault("kill_task", "element")
    assert not may_be_away((task, KILL), NOTHING_HIT)
    assert not may_be_away((task, KILL), ClockState((0, 1)))
    assert may_be_away((task, KILL), ClockState((1, 0)))
    assert may_be_away((task, PAUSE), NOTHING_HIT)
    assert (request_timeout_ms((KILL,)), request_timeout_ms((KILL, PAUSE))) == (0, SHORT_REQUEST_MS)
