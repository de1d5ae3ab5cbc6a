"""Lookups in a real table of PostgreSQL, and the family that enriches orders by them in real processes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import psycopg
import pytest

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable
from onceproof.engine.functions import RuntimeContext
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family import POSTGRES, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import TRANSACTION_VISIBLE
from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.process.file_io import CountedSource
from onceproof.harness.systems.process.job_assembly import ProcessIO
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.postgres_io import (
    PostgresEnd,
    PostgresLookup,
    PostgresOutput,
    make_postgres_lookup,
)
from onceproof.harness.systems.process.server_strikes import SHORT_REQUEST_MS
from onceproof.harness.systems.process.strike_requests import is_server_away
from onceproof.harness.systems.process.trial_servers import TrialPostgres
from onceproof.harness.systems.recording.event_log import EventLog
from tests.harness.systems.words import scenario_with
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.local_kill

OTHER_SESSIONS = (
    "SELECT pid, state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
ROWS = ((1, "north"), (2, "south"))
ORDERS = {
    f"orders-{split}": tuple(
        (5 * number, (split * 1000 + number, 1 + number % 9, 10)) for number in range(24)
    )
    for split in range(2)
}


@pytest.fixture
def trial(postgres_server: PostgresServer) -> Iterator[TrialPostgres]:
    trial = TrialPostgres(postgres_server)
    yield trial
    trial.close()


@contextmanager
def opened(lookup: PostgresLookup) -> Iterator[PostgresLookup]:
    own = deepcopy(lookup)
    own.open(
        RuntimeContext(
            task_name="regions",
            subtask=0,
            parallelism=1,
            max_parallelism=8,
            attempt="1.1",
            clock=lambda: 0,
            pass_point=lambda point, checkpoint_id: None,
        )
    )
    try:
        yield own
    finally:
        own.close()


def found(lookup: PostgresLookup, *keys: int) -> list[object]:
    async def look_up() -> list[object]:
        return [*await asyncio.gather(*map(lookup.row_of, keys), return_exceptions=True)]

    return asyncio.run(look_up())


def found_in_the_end(lookup: PostgresLookup, key: int) -> list[object]:
    """Ask until the server answers: on a busy machine it may take longer than one short request."""
    ends = time.monotonic() + PATIENCE_SECONDS
    rows = found(lookup, key)
    while isinstance(rows[0], DatabaseUnavailable) and time.monotonic() < ends:
        rows = found(lookup, key)
    return rows


def test_table_that_is_made_again_keeps_its_rows_and_is_no_output(trial: TrialPostgres) -> None:
    with trial.database() as database:
        end = PostgresEnd(database.address, database.address_of_job, 0)
        make_postgres_lookup(end, "regions", ROWS)
        with opened(make_postgres_lookup(end, "regions", ((1, "other"), (3, "east")))) as lookup:
            assert found(lookup, 1, 2, 3, 4) == [*ROWS, (3, "east"), None]
        output = PostgresOutput(database.address)
        assert (output.names(), output.visible(), output.tables()) == ([], {}, [])
        output.close()


def test_table_without_rows_is_refused(database: str) -> None:
    with pytest.raises(ValueError, match="give at least one row"):
        make_postgres_lookup(PostgresEnd(database, database, 0), "regions", ())


def test_system_without_the_server_says_which_one_has_it() -> None:
    spec = Spec(family="orders_with_lookup", job_name="job", checkpoints="", output="", events="")
    source = CountedSource(CollectionSource({}))
    io = ProcessIO(spec, source, 1, EventLog(os.devnull), lambda task: None, {})
    with pytest.raises(FamilyError, match=r"a lookup in PostgreSQL needs options = .*--system local"):
        io.postgres_lookup("regions", ROWS)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("kill_server", "completed", server=POSTGRES),
        Fault("pause_server", "completed", delay=2 * SHORT_REQUEST_MS, server=POSTGRES),
        Fault("cut_connection", "completed", server=POSTGRES),
        Fault("cut_connection", "completed", means="answer", server=POSTGRES),
    ],
)
def test_lookup_says_that_the_server_is_away_and_finds_it_again(
    trial: TrialPostgres, postgres_server: PostgresServer, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume, is_missed = postgres_server.resume, threading.Event()

    def resume_when_it_is_missed() -> None:
        is_missed.wait(PATIENCE_SECONDS)
        resume()

    with trial.database() as database:
        end = PostgresEnd(database.address, database.address_of_job, SHORT_REQUEST_MS)
        with opened(make_postgres_lookup(end, "regions", ROWS)) as lookup:
            assert found_in_the_end(lookup, 1) == [ROWS[0]]
            with monkeypatch.context() as patch:
                patch.setattr(postgres_server, "resume", resume_when_it_is_missed)
                try:
                    trial.struck.strike(fault)
                    [error] = found(lookup, 1)
                finally:
                    is_missed.set()
                trial.struck.calm()
            assert isinstance(error, DatabaseUnavailable)
            assert is_server_away(error)
            assert found_in_the_end(lookup, 2) == [ROWS[1]]


def test_sessions_and_threads_of_a_lookup_end_when_it_is_closed(trial: TrialPostgres) -> None:
    with trial.database() as database, psycopg.connect(database.address, autocommit=True) as connection:
        end = PostgresEnd(database.address, database.address, 0)
        before = set(threading.enumerate())
        with opened(make_postgres_lookup(end, "regions", ROWS)) as lookup:
            assert found(lookup, 1, 2) == list(ROWS)
            assert set(threading.enumerate()) - before
        assert set(threading.enumerate()) - before == set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        # The server ends a session a moment after its client has.
        while left := connection.execute(OTHER_SESSIONS).fetchall():
            assert time.monotonic() < deadline, left
            time.sleep(0.01)


@pytest.mark.parametrize(
    "faults",
    [
        (
            Fault("kill_process", "committing", occurrence=2),
            Fault("kill_process", "snapshotted", occurrence=9),
            Fault("kill_task", "restored", occurrence=5, rescale_to=3),
        ),
        (
            Fault("kill_server", "barrier_received", occurrence=2, delay=100, server=POSTGRES),
            Fault("kill_server", "pre_committed", occurrence=4, delay=400, server=POSTGRES),
            Fault("kill_process", "pre_committed", occurrence=5),
        ),
        (
            Fault("pause_server", "snapshotted", occurrence=4, delay=500, server=POSTGRES),
            Fault("cut_connection", "barrier_received", occurrence=5, server=POSTGRES),
            Fault("cut_connection", "snapshotted", occurrence=7, means="answer", server=POSTGRES),
            Fault("kill_all", "completed", occurrence=3),
        ),
    ],
)
def test_orders_count_once_though_job_and_server_die(trial: TrialPostgres, faults: tuple[Fault, ...]) -> None:
    family = load_family("orders_with_lookup")
    parameters = {"ordered": False, "capacity": 4, "grows": True}
    scenario = scenario_with(*faults, family=family.name, records=ORDERS, parameters=parameters)
    system = LocalSystem(postgres=trial)
    history = system.run(family, scenario)
    assert judge(scenario, history, PythonOracle(family, scenario)).violations == ()
    assert {kind for kind, _ in history.statistics.coverage} == {fault.kind for fault in faults}
    assert [event for event in history.events if event[1] == TRANSACTION_VISIBLE]
