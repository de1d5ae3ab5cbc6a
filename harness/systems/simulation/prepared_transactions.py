"""A model of a database with prepared transactions and a ledger, for the engine's exactly-once sink.

The rules this module lives by:

- The sink under trial is the engine's own, with its names, batches, ledger and recovery; only the database
  behind it is a model. A test lets the same random calls loose on the model and on PostgreSQL, and compares
  the answers.
- A second commit is answered like the commit of what never existed: there is nothing prepared of that name.
- An entry of the ledger that is recorded outside of a transaction is committed at once.
- The state of all transactions is that of the simulated external system, which copies it with checkpoints.
  Sessions keep nothing: whose transaction is open follows from its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from onceproof.engine.connectors.jdbc.exactly_once_function import ExactlyOnceFunction
from onceproof.engine.connectors.jdbc.two_phase_database import (
    DatabaseUnavailable,
    LedgerEntry,
    RefusedByDatabase,
    SessionName,
    TransactionName,
    TwoPhaseDatabase,
    TwoPhaseSession,
    transaction_name_of,
)
from onceproof.harness.model.family import POSTGRES
from onceproof.harness.systems.simulation.client_errors import reported_by
from onceproof.harness.systems.simulation.external_system import (
    COMMITTED,
    OPEN,
    PREPARED,
    Transaction,
    TransactionalSystem,
)

BATCH_ROWS: Final = 3
PLACE: Final = "the simulated database"
_AGAIN: Final = " again "


class ModelSession(TwoPhaseSession):
    """One session with the model."""

    def __init__(self, system: TransactionalSystem, name: SessionName) -> None:
        self._system = system
        self._session = name
        self._open: Transaction | None = None

    def begin(self, name: str) -> None:
        """Begin a transaction. A name is that of a prepared transaction: until then, several may have it."""
        writer = _writer_of(name)
        earlier = sum(key_of(name) == each.rpartition(_AGAIN)[0] for each in self._system.transactions)
        part = f"{_AGAIN}{earlier + 1}" if key_of(name) in self._system.transactions else ""
        self._open = Transaction(
            f"{key_of(name)}{part}", writer.subtask, writer.epoch, writer.attempt, writer.owner
        )
        self._open.rows, self._open.entries = [], []
        self._system.transactions[self._open.name] = self._open

    def write(self, rows: Sequence[Any]) -> None:
        transaction = self._living()
        if transaction is None:
            raise RefusedByDatabase(f"{PLACE}: no transaction is open in this session")
        for row in rows:
            self._system.write(transaction.name, row)

    def record(self, entry: LedgerEntry) -> None:
        transaction = self._living()
        key = key_of(entry.transaction)
        if transaction is None:
            self._system.ledger.add(key)
        else:
            transaction.entries = [*transaction.entries, key]

    def prepare(self) -> None:
        """Prepare the open transaction. Raises RefusedByDatabase where none is open, or the name is taken."""
        transaction, self._open = self._living(), None
        if transaction is None:
            raise RefusedByDatabase(f"{PLACE}: no transaction is open in this session")
        name = transaction.name.partition(_AGAIN)[0]
        earlier = self._system.transactions.get(name)
        if earlier is not None and earlier is not transaction:
            if earlier.state == PREPARED:
                self._system.abort(transaction.name)
                raise RefusedByDatabase(f"{PLACE}: transaction identifier {name} is already in use")
            # The database has forgotten the name; the earlier transaction gives it up.
            earlier.name, transaction.name = transaction.name, name
            self._system.transactions.update({earlier.name: earlier, name: transaction})
        self._system.prepare(name)

    def commit_prepared(self, name: str) -> bool:
        """Commit a prepared transaction; False for one that is committed, too.

        Raises InjectedError, or DatabaseUnavailable where a fault says how it fails.
        """
        if self._open is not None:
            raise RefusedByDatabase(f"{PLACE}: COMMIT PREPARED cannot run inside a transaction block")
        transaction = self._prepared(name)
        if transaction is None:
            return False
        with reported_by(POSTGRES):
            self._system.commit(transaction.name)
        return True

    def roll_back_prepared(self, name: str) -> bool:
        if self._open is not None:
            raise RefusedByDatabase(f"{PLACE}: ROLLBACK PREPARED cannot run inside a transaction block")
        transaction = self._prepared(name)
        if transaction is None:
            return False
        with reported_by(POSTGRES):
            self._system.ask_to_abort(transaction.name)
        return True

    def prepared(self, owner: str) -> list[str]:
        return [
            full_name(each)
            for each in self._system.unsettled()
            if each.state == PREPARED and each.owner == owner
        ]

    def is_recorded(self, name: str) -> bool:
        """Return whether the entry is committed, or was written in the open transaction of this session."""
        key = key_of(name)
        seen = [each for each in self._system.transactions.values() if each.state == COMMITTED]
        if self._open is not None:
            seen.append(self._open)
        return key in self._system.ledger or any(key in each.entries for each in seen)

    def has_entry_after(self, owner: str, subtask: int, epoch: int) -> bool:
        """Deny it: no entry is forgotten, so none stands for another."""
        return False

    def forget(self, owner: str, subtask: int, older_than_ms: int) -> None:
        """Keep the ledger: no run lasts a week."""

    def end_sessions(self, may_end: Callable[[SessionName], bool]) -> None:
        """Roll the open transactions of sessions back."""
        for each in self._system.unsettled():
            if each.state == OPEN and may_end(SessionName(each.owner, each.subtask, each.attempt)):
                self._system.abort(each.name)

    def close(self) -> None:
        transaction, self._open = self._open, None
        if transaction is not None and transaction.state == OPEN:
            self._system.abort(transaction.name)

    def _living(self) -> Transaction | None:
        """Return the open transaction, or None. Raises DatabaseUnavailable if the session was ended."""
        transaction = self._open
        if transaction is not None and transaction.state != OPEN:
            raise DatabaseUnavailable(f"{PLACE}: the session was ended by a later attempt")
        return transaction

    def _prepared(self, name: str) -> Transaction | None:
        transaction = self._system.transactions.get(key_of(name))
        return transaction if transaction is not None and transaction.state == PREPARED else None


class PreparedTransactions(TwoPhaseDatabase):
    """The model as the engine's sink sees it."""

    def __init__(self, system: TransactionalSystem) -> None:
        self._system = system

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @property
    def place(self) -> str:
        return PLACE

    def connect(self, session: SessionName) -> ModelSession:
        return ModelSession(self._system, session)

    def check(self, session: TwoPhaseSession) -> None:
        """Accept: the model has the table and the ledger."""

    def check_row(self, row: Any) -> None:
        """Accept every value."""


class SimulatedPostgresSink(ExactlyOnceFunction):
    """The engine's exactly-once sink over the model."""

    def __init__(self, system: TransactionalSystem) -> None:
        super().__init__(PreparedTransactions(system), BATCH_ROWS)
        self._system = system

    def __deepcopy__(self, memo: object) -> SimulatedPostgresSink:
        return SimulatedPostgresSink(self._system)

    def pending_transactions(self) -> list[str]:
        """Return the names of the pending transactions that have rows, as in the external system."""
        return [key_of(name) for name, rows in super().pending_transactions() if rows]


def key_of(name: str) -> str:
    """Return the name of a transaction in the external system."""
    writer = _writer_of(name)
    return f"{writer.subtask}/{writer.epoch}/{writer.attempt}/{writer.owner[:8]}"


def full_name(transaction: Transaction) -> str:
    """Return the name that the engine's sink has given to a transaction."""
    return str(
        TransactionName(transaction.owner, transaction.subtask, transaction.epoch, transaction.attempt)
    )


def _writer_of(name: str) -> TransactionName:
    writer = transaction_name_of(name)
    assert writer is not None, f"{name!r} is no name that the engine gives"
    return writer
