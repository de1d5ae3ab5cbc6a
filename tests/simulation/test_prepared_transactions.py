"""The model of prepared transactions answers as a real server does: the same random calls on both."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg
import pytest

from onceproof.engine import JdbcConnectionOptions, PostgresSink
from onceproof.engine.connectors.jdbc.two_phase_database import (
    DatabaseUnavailable,
    LedgerEntry,
    RefusedByDatabase,
    SessionName,
    TransactionName,
    TwoPhaseDatabase,
    TwoPhaseSession,
)
from onceproof.harness.model.history import TRANSACTION_VISIBLE, History
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.prepared_transactions import PreparedTransactions

OWNERS = ("a" * 16, "b" * 16)
NAMES = [TransactionName(owner, *writer, "1.1") for owner in OWNERS for writer in ((1, 0), (10, 0), (10, 3))]
KINDS = (
    *("begin", "write", "record", "prepare", "prepare", "commit_prepared", "commit_prepared"),
    *("roll_back_prepared", "prepared", "is_recorded", "close", "end"),
)
SEQUENCES = 6
CALLS = 40


class Sessions:
    """Two sessions with one database, and which of them has a transaction open."""

    def __init__(self, database: TwoPhaseDatabase) -> None:
        self._database = database
        self.sessions: list[TwoPhaseSession] = [self._new(number) for number in range(2)]

    def _new(self, number: int) -> TwoPhaseSession:
        return self._database.connect(SessionName(OWNERS[number], 0, "1.1"))

    def answer(self, call: tuple[Any, ...]) -> object:
        """Make a call; return the answer, or the class of the error."""
        kind, number, *arguments = call
        session = self.sessions[number]
        try:
            match kind:
                case "close":
                    session.close()
                    self.sessions[number] = self._new(number)
                    return None
                case "end":
                    [owner] = arguments
                    self.sessions[number].end_sessions(lambda name: name.owner == owner)
                    return None
                case "prepared":
                    return sorted(session.prepared(*arguments))
                case _:
                    return getattr(session, kind)(*arguments)
        except (DatabaseUnavailable, RefusedByDatabase) as error:
            session.close()
            self.sessions[number] = self._new(number)
            return type(error)

    def close(self) -> None:
        for session in self.sessions:
            session.close()


def calls(random: Random) -> Iterator[tuple[Any, ...]]:
    """Draw calls as sinks make them, right ones and wrong ones, in any order."""
    is_open = [False, False]
    for number in range(CALLS):
        which = random.randrange(2)
        name = str(random.choice(NAMES))
        kind = random.choice(KINDS)
        if kind in ("begin", "write", "record") and not is_open[which]:
            kind = random.choice(("begin", "begin", "begin", kind))
        if kind == "begin" and is_open[which]:
            kind = "write"
        if kind in ("commit_prepared", "roll_back_prepared", "end") and is_open[which]:
            kind = "prepare"
        match kind:
            case "begin":
                is_open[which] = True
                # A session is known by its owner, as its transactions are.
                yield kind, which, str(random.choice([each for each in NAMES if each.owner == OWNERS[which]]))
            case "write":
                yield kind, which, [(number,), (number + 1000,)]
            case "record":
                # An entry of its own each time: two open ones of a name would wait for each other.
                entry = TransactionName(OWNERS[0], 0, 100 + number, "1.1")
                yield kind, which, LedgerEntry(str(entry), "job", OWNERS[0], 0, number, 1)
                yield "is_recorded", which, str(entry)
            case "prepare" | "close":
                is_open[which] = False
                yield kind, which
            case "prepared":
                yield kind, which, random.choice(OWNERS)
            case "end":
                # A session does not end itself, and the other one loses its transaction.
                is_open[1 - which] = False
                yield kind, which, OWNERS[1 - which]
                yield "close", 1 - which
            case _:
                yield kind, which, name


def visible(history: History) -> list[int]:
    rows = [event[3]["rows"] for event in history.events if event[1] == TRANSACTION_VISIBLE]
    return sorted(row[0] for each in rows for row in each)


def test_model_and_server_answer_random_calls_alike(database: str) -> None:
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(database).build()
    server = PostgresSink(options, "numbers", ["n"]).database
    differing = {"begin", "write"}
    with psycopg.connect(database, autocommit=True) as outside:
        outside.execute("CREATE TABLE numbers (n bigint)")
        first = server.connect(SessionName(OWNERS[0], 5, "1.1"))
        server.check(first)
        first.close()
        for seed in range(SEQUENCES):
            outside.execute("TRUNCATE numbers, onceproof_ledger")
            history = History()
            model = Sessions(PreparedTransactions(TransactionalSystem(history, Clock())))
            real = Sessions(server)
            made = []
            for call in calls(Random(seed)):
                made.append(call)
                assert model.answer(call) == real.answer(call), "\n".join(map(str, made))
                differing.discard(call[0])
                found = outside.execute("SELECT n FROM numbers ORDER BY n").fetchall()
                assert visible(history) == [n for (n,) in found], made
            real.close()
            for (gid,) in outside.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
                outside.execute(f"ROLLBACK PREPARED '{gid}'")
    assert not differing, "some calls were never made"


@pytest.mark.parametrize("kind", ["prepare", "write"])
def test_model_refuses_what_needs_an_open_transaction(kind: str) -> None:
    model = PreparedTransactions(TransactionalSystem(History(), Clock()))
    session = model.connect(SessionName(OWNERS[0], 0, "1.1"))
    call = session.prepare if kind == "prepare" else lambda: session.write([(1,)])
    with pytest.raises(RefusedByDatabase, match="no transaction is open"):
        call()
