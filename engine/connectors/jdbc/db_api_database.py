"""Exactly-once sinks over any DB-API driver that has two-phase commit (PEP 249, "Optional Two-Phase Commit").

The rules this module lives by:

- Statements are the user's, with ``?`` for each field of a row, as in JDBC, rewritten in the style of
  parameters of the driver; values are never part of them.
- A connection that has prepared a transaction can do nothing else until that is finished, so the driver's
  connection is closed then. The next transaction has a new one.
- A driver's errors do not say whether a transaction to be committed exists; the list of prepared ones does.
- Errors that a driver calls operational or of its interface may heal; all others come again.
- Sessions of dead attempts cannot be ended in a way that all databases know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.jdbc.two_phase_database import (
    PREFIX,
    DatabaseUnavailable,
    LedgerEntry,
    RefusedByDatabase,
    SessionName,
    TransactionName,
    TwoPhaseDatabase,
    TwoPhaseSession,
    transaction_name_of,
)

FORMAT_ID: Final = 0x6F6E
"""The format of our transaction ids, as X/Open XA asks for one."""
LEDGER: Final = "onceproof_jdbc_ledger"
_COLUMNS: Final = (
    "transaction_name VARCHAR(200) PRIMARY KEY, job VARCHAR(200), sink_owner VARCHAR(16), subtask INTEGER,"
    " checkpoint_id BIGINT, row_count BIGINT, recorded_ms BIGINT"
)
_QUOTES: Final = ("'", '"')


class Driver:
    """A DB-API module, and the connections of one set of options.

    Args:
        options: with the name of the module.

    Raises:
        ValueError: there is no such module, or it is not a DB-API module.
    """

    def __init__(self, options: JdbcConnectionOptions) -> None:
        self.options = options
        name = options.get_driver_name()
        if not name:
            raise ValueError(
                f"{options.place}: give the Python module of the driver, as in with_driver_name('psycopg')"
            )
        try:
            module: Any = import_module(name)
            self._style: str = module.paramstyle
            self._errors = (module.OperationalError, module.InterfaceError)
            self._error: type[Exception] = module.Error
        except (ImportError, AttributeError) as error:
            raise ValueError(f"{options.place}: {name!r} is not a DB-API driver: {error}") from error
        self._name = name

    def connect(self) -> Any:
        """Return a new connection. Raises DatabaseUnavailable, RefusedByDatabase."""
        options = self.options
        beside = {"user": options.get_user_name(), "password": options.get_password()}
        given = {name: value for name, value in beside.items() if value is not None}
        with self.translated():
            return import_module(self._name).connect(options.get_db_url(), **given)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the driver's errors as those of `two_phase_database.py`, in one line."""
        try:
            yield
        except self._error as error:
            line = " ".join(f"{self.options.place}: {error}".split())
            raise (
                DatabaseUnavailable(line) if isinstance(error, self._errors) else RefusedByDatabase(line)
            ) from error

    def statement(self, sql: str) -> str:
        """Return a statement with ``?`` in the driver's style of parameters."""
        return with_parameters(sql, self._style)


def with_parameters(sql: str, style: str) -> str:
    """Return a statement whose ``?`` outside of quotes are parameters of a style of PEP 249.

    Raises:
        ValueError: the style needs names.
    """
    if style == "qmark":
        return sql
    if style not in ("format", "pyformat", "numeric"):
        raise ValueError(
            f"a driver with parameters in the style {style!r} cannot be used: give another driver"
        )
    parts, quote, number = [], "", 0
    for character in sql:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character == "?":
            number += 1
            parts.append(f":{number}" if style == "numeric" else "%s")
            continue
        parts.append("%%" if character == "%" and style != "numeric" else character)
    return "".join(parts)


class DbApiSession(TwoPhaseSession):
    """A session by the methods tpc_begin, tpc_prepare, tpc_commit, tpc_rollback and tpc_recover."""

    def __init__(self, driver: Driver, sql: str) -> None:
        self._driver = driver
        self._sql = driver.statement(sql)
        self._connection: Any = None
        self._is_begun = False

    def begin(self, name: str) -> None:
        connection = self.connection()
        with self._driver.translated():
            connection.tpc_begin(self._xid(name))
        self._is_begun = True

    def write(self, rows: Sequence[Any]) -> None:
        self._require_open()
        with self._driver.translated():
            self.connection().cursor().executemany(self._sql, [tuple(row) for row in rows])

    def record(self, entry: LedgerEntry) -> None:
        self._run(
            f"INSERT INTO {LEDGER} (transaction_name, job, sink_owner, subtask, checkpoint_id, row_count,"
            " recorded_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*entry, _now_ms()),
        )

    def prepare(self) -> None:
        self._require_open()
        with self._driver.translated():
            self.connection().tpc_prepare()
        self.close()

    def commit_prepared(self, name: str) -> bool:
        return self._finish(name, lambda connection, xid: connection.tpc_commit(xid))

    def roll_back_prepared(self, name: str) -> bool:
        return self._finish(name, lambda connection, xid: connection.tpc_rollback(xid))

    def prepared(self, owner: str) -> list[str]:
        with self._driver.translated():
            found = [f"{xid[1]}_{xid[2]}" for xid in self.connection().tpc_recover() if xid[0] == FORMAT_ID]
        return [text for text in found if (name := transaction_name_of(text)) and name.owner == owner]

    def is_recorded(self, name: str) -> bool:
        return bool(self._run(f"SELECT 1 FROM {LEDGER} WHERE transaction_name = ?", (name,)))

    def has_entry_after(self, owner: str, subtask: int, epoch: int) -> bool:
        found = f"SELECT count(*) FROM {LEDGER} WHERE sink_owner = ? AND subtask = ? AND checkpoint_id > ?"
        return bool(self._run(found, (owner, subtask, epoch))[0][0])

    def forget(self, owner: str, subtask: int, older_than_ms: int) -> None:
        newest = f"SELECT max(checkpoint_id) FROM {LEDGER} WHERE sink_owner = ? AND subtask = ?"
        [(checkpoint_id,)] = self._run(newest, (owner, subtask))
        if checkpoint_id is not None:
            self._run(
                f"DELETE FROM {LEDGER} WHERE sink_owner = ? AND subtask = ? AND recorded_ms < ?"
                " AND checkpoint_id < ?",
                (owner, subtask, _now_ms() - older_than_ms, checkpoint_id),
            )

    def make_ledger(self) -> None:
        """Create the ledger if it is not there. Raises RefusedByDatabase."""
        if self._has_ledger():
            return
        try:
            self._run(f"CREATE TABLE {LEDGER} ({_COLUMNS})", ())
        except RefusedByDatabase:
            self.close()
            # Another subtask may have created it meanwhile.
            if not self._has_ledger():
                raise

    def close(self) -> None:
        connection, self._connection, self._is_begun = self._connection, None, False
        if connection is not None:
            with self._driver.translated():
                connection.close()

    def connection(self) -> Any:
        """Return the driver's connection."""
        if self._connection is None:
            self._connection = self._driver.connect()
            if not hasattr(self._connection, "tpc_begin"):
                raise RefusedByDatabase(
                    f"{self._driver.options.place}: the driver has no two-phase commit (tpc_begin): give"
                    " another one, or use JdbcSink.sink, which is at least once"
                )
        return self._connection

    def _has_ledger(self) -> bool:
        try:
            self._run(f"SELECT 1 FROM {LEDGER} WHERE 1 = 0", ())
        except RefusedByDatabase:
            self.close()
            return False
        return True

    def _finish(self, name: str, finish: Callable[[Any, Any], None]) -> bool:
        connection = self.connection()
        try:
            with self._driver.translated():
                finish(connection, self._xid(name))
        except RefusedByDatabase:
            self.close()
            writer = transaction_name_of(name)
            if writer is not None and name in self.prepared(writer.owner):
                raise
            return False
        return True

    def _run(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """Run a statement; outside of a transaction that is to be prepared, commit it."""
        connection = self.connection()
        with self._driver.translated():
            cursor = connection.cursor()
            cursor.execute(self._driver.statement(sql), values)
            rows = list(cursor.fetchall()) if cursor.description is not None else []
            if not self._is_begun:
                connection.commit()
        return rows

    def _require_open(self) -> None:
        if not self._is_begun:
            raise RefusedByDatabase(f"{self._driver.options.place}: no transaction is open in this session")

    def _xid(self, name: str) -> Any:
        writer = transaction_name_of(name)
        assert writer is not None, f"{name!r} is not a name of a transaction that this engine gives"
        return self.connection().xid(FORMAT_ID, *xid_parts(writer))


class DbApiDatabase(TwoPhaseDatabase):
    """A statement, and a ledger, in a database that a DB-API driver reaches.

    Args:
        options: where the database is, with the name of the driver.
        sql: the statement that writes a row, with ``?`` for each field.
    """

    def __init__(self, options: JdbcConnectionOptions, sql: str) -> None:
        self._driver = Driver(options)
        self._sql = sql

    @property
    def place(self) -> str:
        return self._driver.options.place

    def connect(self, session: SessionName) -> DbApiSession:
        return DbApiSession(self._driver, self._sql)

    def check(self, session: TwoPhaseSession) -> None:
        assert isinstance(session, DbApiSession), "this database gives sessions of its own"
        session.make_ledger()

    def check_row(self, row: Any) -> None:
        """Accept any sequence: the database knows how many fields it takes."""


def xid_parts(name: TransactionName) -> tuple[str, str]:
    """Return the global part and the branch of a transaction's id, each of at most 64 bytes."""
    return f"{PREFIX}_{name.owner}", f"{name.subtask}_{name.epoch}_{name.attempt}"


def _now_ms() -> int:
    return int(time.time() * 1000)
