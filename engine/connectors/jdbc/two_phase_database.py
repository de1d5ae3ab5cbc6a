"""What the exactly-once sink asks of a database: transactions that are prepared, and a ledger.

Rules:

- A prepared transaction survives the end of its session, of its client and of the server. Any later session
  can commit it or roll it back by its name.
- The ledger is a table in the same database. The entry of a transaction is written within the transaction, so
  it is there exactly if the transaction is committed. A database answers the second commit of a transaction
  as it answers the commit of one that never existed: the ledger alone tells them apart.
- An entry is needed as long as any checkpoint or savepoint lists the transaction as pending. The newest one
  of each subtask stays: it shows that the database is not older than the checkpoints.
- A session that has raised DatabaseUnavailable is of no more use.
- The name of a transaction carries owner, subtask, epoch and attempt (`two_phase.py`); that of a session
  owner, subtask and attempt. A name is read as a whole: subtask 1 never takes the names of subtask 10 for its
  own.
- A name has letters, digits, dots and underscores only, and at most 100 bytes. PostgreSQL takes 200 for a
  transaction and 63 for a session.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from onceproof.engine.errors import TransientError, UnrecoverableError
from onceproof.engine.messages import is_of_later_process, order_of

PREFIX: Final = "onceproof"
# On Spark, that of the driver is a word: "1.driver".
_ATTEMPT: Final = r"([0-9]{1,9}\.[0-9a-z.]{1,20})"
_TRANSACTION: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_([0-9]{{1,9}})_([0-9]{{1,19}})_{_ATTEMPT}")
_SESSION: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{16}})_([0-9]{{1,9}})_{_ATTEMPT}")


class TransactionName(NamedTuple):
    """The writer of a transaction, and the checkpoint with whose snapshot it was begun."""

    owner: str
    subtask: int
    epoch: int
    attempt: str

    def __str__(self) -> str:
        return f"{PREFIX}_{self.owner}_{self.subtask}_{self.epoch}_{self.attempt}"


class SessionName(NamedTuple):
    """The writer that a session with the database belongs to."""

    owner: str
    subtask: int
    attempt: str

    def __str__(self) -> str:
        return f"{PREFIX}_{self.owner}_{self.subtask}_{self.attempt}"


def is_dead(session: SessionName, mine: SessionName, parallelism: int) -> bool:
    """Return whether a session is of an earlier attempt of the same sink, which this subtask must end.

    It ends all those of earlier processes, and within its own process those of the subtasks whose
    transactions it takes over. On Spark, where each task has an attempt of its own, the other subtasks live.
    """
    if session.owner != mine.owner or is_of_later_process(session.attempt, mine.attempt):
        return False
    found, own = order_of(session.attempt), order_of(mine.attempt)
    return found[0] < own[0] or (session.subtask % parallelism == mine.subtask and found[1] < own[1])


def transaction_name_of(text: str) -> TransactionName | None:
    """Return the name that a text is; None if a sink of this engine gives no such name."""
    match = _TRANSACTION.fullmatch(text)
    return None if match is None else TransactionName(match[1], int(match[2]), int(match[3]), match[4])


def session_name_of(text: str) -> SessionName | None:
    """Return the name that a text is; None if a sink of this engine gives no such name."""
    match = _SESSION.fullmatch(text)
    return None if match is None else SessionName(match[1], int(match[2]), match[3])


def owner_prefix(owner: str) -> str:
    """Return what all names of an owner begin with."""
    return f"{PREFIX}_{owner}_"


class DatabaseUnavailable(TransientError, OSError):
    """The database cannot be reached, or does not do now what it may do later. The job is restarted for it.

    The message is one line.
    """


class RefusedByDatabase(UnrecoverableError, ValueError):
    """The database refuses a table, a row or a user, and would refuse it again. The message is one line."""


class LostTransaction(UnrecoverableError):
    """A transaction that a checkpoint lists is neither prepared nor recorded as committed: its rows are gone.

    The message is one line.
    """


class LedgerEntry(NamedTuple):
    """The record of one committed transaction."""

    transaction: str
    """Its name."""
    job: str
    owner: str
    subtask: int
    checkpoint: int
    rows: int


class TwoPhaseSession(ABC):
    """One connection of a sink to its database."""

    @abstractmethod
    def begin(self, name: str) -> None:
        """Begin a transaction that is to be prepared under a name; none may be open in this session."""

    @abstractmethod
    def write(self, rows: Sequence[Any]) -> None:
        """Write rows into the open transaction; the database may answer them with a later call.

        Raises:
            RefusedByDatabase: no transaction is open, or a row does not fit.
        """

    @abstractmethod
    def record(self, entry: LedgerEntry) -> None:
        """Write an entry of the ledger into the open transaction."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare the open transaction. From now on it can be committed after any crash.

        Raises:
            RefusedByDatabase: no transaction is open, or one of its name is prepared; then it is rolled back.
        """

    @abstractmethod
    def commit_prepared(self, name: str) -> bool:
        """Commit a prepared transaction. Return False if the database has none of that name.

        No transaction may be open in this session.
        """

    @abstractmethod
    def roll_back_prepared(self, name: str) -> bool:
        """Roll a prepared transaction back. Return False if the database has none of that name."""

    @abstractmethod
    def prepared(self, owner: str) -> list[str]:
        """Return the names of the prepared transactions of an owner, in any order."""

    @abstractmethod
    def is_recorded(self, name: str) -> bool:
        """Return whether the ledger has the entry of a transaction."""

    @abstractmethod
    def has_entry_after(self, owner: str, subtask: int, epoch: int) -> bool:
        """Return whether the ledger has an entry of a subtask for a checkpoint after ``epoch``."""

    @abstractmethod
    def forget(self, owner: str, subtask: int, older_than_ms: int) -> None:
        """Delete the entries of a subtask that were written longer ago than this, but the newest one."""

    def end_sessions(self, may_end: Callable[[SessionName], bool]) -> None:
        """End the sessions of writers that ``may_end`` names, and return when they are gone.

        The server may still carry out what a dead writer had asked for. No transaction may be open in this
        session. By default nothing is done.
        """

    @abstractmethod
    def close(self) -> None:
        """End the session. The server rolls its open transaction back."""


class TwoPhaseDatabase(ABC):
    """A table and a ledger in a database: an immutable description, which every subtask may connect to."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The table and the database in words, without a password, for messages."""

    @abstractmethod
    def connect(self, session: SessionName) -> TwoPhaseSession:
        """Return a new session."""

    @abstractmethod
    def check(self, session: TwoPhaseSession) -> None:
        """Check the table, make the ledger if it is missing, and check that transactions can be prepared.

        Raises:
            RefusedByDatabase: with the line that names what is wrong, and the mend.
        """

    @abstractmethod
    def check_row(self, row: Any) -> None:
        """Raise RefusedByDatabase for a value that is no row of the table."""

    def check_rows(self, rows: Sequence[Any]) -> None:
        """Check several values."""
        for row in rows:
            self.check_row(row)
