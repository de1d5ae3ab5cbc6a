"""Families with a table of PostgreSQL at their end, in real processes over a real server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.model.family import POSTGRES, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import ROWS_WRITTEN, TRANSACTION_VISIBLE, History
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.systems.local.system import LocalSystem
from onceproof.harness.systems.process.file_io import CountedSource
from onceproof.harness.systems.process.job_assembly import ProcessIO
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.postgres_io import PostgresOutput, PostgresWatch, make_table
from onceproof.harness.systems.process.trial_servers import TrialPostgres
from onceproof.harness.systems.recording.event_log import ROWS_GONE, ROWS_SEEN, EventLog
from tests.harness.systems.words import scenario_with
from tests.planted.catalogue import file_of, with_bug

pytestmark = pytest.mark.local_kill

FAMILIES = ("postgres_rows", "postgres_upsert")
LOST_ANSWER = Fault("cut_connection", "committing", server=POSTGRES, means="answer")
MUTANTS = str(Path(__file__).with_name("postgres_mutants.py"))
COMMIT_FAULTS = sorted(
    kind for kind, row in FAULTS.items() if row.strikes == "commit" and row.delay == "none"
)


@pytest.fixture
def system(postgres_server: PostgresServer) -> Iterator[LocalSystem]:
    system = LocalSystem(postgres=TrialPostgres(postgres_server))
    yield system
    system.close()


def tried(system: LocalSystem, scenario: Scenario) -> tuple[History, Verdict]:
    family = load_family(scenario.family)
    history = system.run(family, scenario)
    return history, judge(scenario, history, PythonOracle(family, scenario))


@pytest.mark.parametrize("family", FAMILIES)
def test_processes_killed_and_commits_that_fail_lose_and_repeat_no_rows(
    system: LocalSystem, family: str
) -> None:
    points = ("committing", "pre_committed")
    faults = [Fault("kill_process", point, occurrence=2) for point in points]
    errors = [Fault(kind, "committing", occurrence=number) for number, kind in enumerate(COMMIT_FAULTS, 3)]
    scenario = scenario_with(*faults, *errors, Fault("kill_task", "restored", rescale_to=3), family=family)
    history, verdict = tried(system, scenario)
    assert verdict.violations == ()
    assert {kind for kind, _ in history.statistics.coverage} == {"kill_process", "kill_task", *COMMIT_FAULTS}
    kind = TRANSACTION_VISIBLE if family == "postgres_rows" else ROWS_WRITTEN
    assert [event for event in history.events if event[1] == kind]


@pytest.mark.parametrize("family", FAMILIES)
def test_server_killed_paused_and_cut_off_loses_and_repeats_no_rows(system: LocalSystem, family: str) -> None:
    faults = [
        LOST_ANSWER,
        Fault("kill_server", "committing", occurrence=3, delay=100, server=POSTGRES),
        Fault("pause_server", "pre_committed", occurrence=4, delay=500, server=POSTGRES),
        Fault("cut_connection", "pre_committed", occurrence=6, server=POSTGRES),
        Fault("kill_server", "completed", occurrence=5, server=POSTGRES),
        Fault("kill_process", "completed", occurrence=5),
    ]
    history, verdict = tried(system, scenario_with(*faults, family=family))
    assert verdict.violations == ()
    assert {fault.kind for fault in faults} == {kind for kind, _ in history.statistics.coverage}


# The reader looks every 20 ms; on a busy machine a commit that comes too early may be over by then.
TRIES = 12


@pytest.mark.parametrize(
    ("mutant", "file", "fault", "broken"),
    [
        ("pre-commit-commits", MUTANTS, (), "consistent_cut"),
        ("second-commit-prepared-is-a-failure", "", (LOST_ANSWER,), "no_error"),
    ],
)
def test_planted_bugs_are_seen_by_the_watch_and_by_a_lost_answer(
    postgres_server: PostgresServer, mutant: str, file: str, fault: tuple[Fault, ...], broken: str
) -> None:
    file = file or file_of(mutant)
    mutated = LocalSystem(mutant=mutant, mutant_file=file, postgres=TrialPostgres(postgres_server))
    found: set[str] = set()
    for _ in range(TRIES):
        _, verdict = tried(mutated, scenario_with(*fault, family="postgres_rows"))
        found |= set(verdict.failed_properties())
        if broken in found:
            break
    mutated.close()
    assert broken in found


def test_prepared_transaction_of_any_name_goes_with_the_database_of_its_trial(
    postgres_server: PostgresServer,
) -> None:
    trial = TrialPostgres(postgres_server)
    with trial.database() as database, psycopg.connect(database.address, autocommit=True) as connection:
        for statement in ("BEGIN", "CREATE TABLE t ()", "PREPARE TRANSACTION 'it''s'"):
            connection.execute(statement)
    name = database.address.rpartition("/")[2]
    with psycopg.connect(postgres_server.address, autocommit=True) as connection:
        left = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchall()
    trial.close()
    assert left == []


def test_watch_sees_committed_rows_alone_and_misses_those_that_go(database: str) -> None:
    watch = PostgresWatch(database)
    output = PostgresOutput(database)

    def seen() -> list[tuple[str, str]]:
        watch.look()
        return [(event["kind"], event["transaction"]) for event in watch.take_events()]

    with psycopg.connect(database) as connection, psycopg.connect(database, autocommit=True) as other:
        make_table(other, "counts", {"word": "STRING", "count": "BIGINT"}, 0)
        make_table(other, "latest", {"word": "STRING", "count": "BIGINT"}, 1)
        connection.execute("INSERT INTO counts VALUES ('a', 1), ('b', 1)")
        connection.execute("INSERT INTO latest VALUES ('a', 1)")
        connection.execute("INSERT INTO onceproof_ledger VALUES ('onceproof_t', 'job', 'owner', 0, 1, 2)")
        assert seen() == []
        connection.commit()
        assert seen() == [(ROWS_SEEN, "onceproof_t")]
        other.execute("UPDATE latest SET count = 2")
        assert seen() == []
        other.execute("INSERT INTO counts VALUES ('c', 1)")
        [(kind, name)] = seen()
        assert (kind, output.writer(name)) == (ROWS_SEEN, (0, 0, "unknown"))
        other.execute("DELETE FROM counts WHERE word = 'a'")
        other.execute("DELETE FROM latest")
        assert seen() == [(ROWS_GONE, "onceproof_t"), (ROWS_GONE, "('a',)")]
        assert seen() == []
    watch.close()


def test_rows_and_entries_of_no_common_transaction_are_found(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        make_table(connection, "counts", {"word": "STRING", "count": "BIGINT"}, 0)
        connection.execute("INSERT INTO counts VALUES ('a', 1), ('b', 1)")
        connection.execute("INSERT INTO onceproof_ledger VALUES ('onceproof_t', 'job', 'owner', 0, 1, 1)")
    output = PostgresOutput(database)
    names = output.names()
    assert names[0] == "onceproof_t"
    assert output.rows(names[0]) == []
    assert output.rows(names[1]) == [("a", 1), ("b", 1)]
    assert output.writer(names[1]) == (0, 0, "unknown")
    output.close()


def test_prepared_transactions_that_are_left_are_found(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (n int)")
        connection.execute("PREPARE TRANSACTION 'left'")
    output = PostgresOutput(database)
    assert output.unfinished() == ["left"]
    output.close()


def test_system_without_the_server_says_which_one_has_it() -> None:
    spec = Spec(family="postgres_rows", job_name="job", checkpoints="", output="", events="")
    io = ProcessIO(
        spec,
        CountedSource(CollectionSource({})),
        1,
        EventLog(os.devnull),
        lambda task: None,
        {"word": "STRING"},
    )
    with pytest.raises(FamilyError, match="run it with --system local"):
        io.postgres_sink("counts")


def test_planted_bug_of_the_sink_is_seen_on_the_server(
    system: LocalSystem, postgres_server: PostgresServer
) -> None:
    mutated = LocalSystem(
        **with_bug("second-commit-prepared-is-a-failure"), postgres=TrialPostgres(postgres_server)
    )
    scenario = scenario_with(Fault("kill_process", "committed"), family="postgres_rows")
    _, verdict = tried(mutated, scenario)
    mutated.close()
    assert [violation.property for violation in verdict.violations][:1] == ["no_error"]
