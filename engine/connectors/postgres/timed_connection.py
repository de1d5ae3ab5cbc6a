"""Connections to PostgreSQL whose every request has a time-out, and the meaning of its errors.

The rules this module lives by:

- A request that has no answer within the time-out ends its connection. Whether the server carries it out
  stays unknown, as when a connection is cut.
- What may heal is DatabaseUnavailable, and what comes again in the same way is RefusedByDatabase. The class
  of the SQLSTATE decides. A refused connection has none; there the words of the server decide, and what they
  do not tell apart may heal.
- Messages are one line: the thing, the place, the server's words, and the mend where there is one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable, RefusedByDatabase

LOCK_TIMEOUT_MS: Final = 5000
_LONGEST_MESSAGE: Final = 600

_REFUSED_CLASSES: Final = ("0A", "22", "23", "25", "26", "28", "2B", "34", "3D", "3F", "42", "44")
"""Features, data, constraints, states, authorization, catalogs, schemas, syntax and rights, views."""
_READ_ONLY: Final = "25006"
"""A standby that has not taken over yet."""
_REFUSED_CONNECTIONS: Final = re.compile(
    r"password authentication failed|no password supplied|pg_hba\.conf|is not permitted to log in"
    r"|(database|role) \".*\" does not exist|permission denied for database|invalid (URI|connection option)"
)
_MENDS: Final = {
    "28": "give the user and the password of the database",
    "3D": "give the name of a database that exists",
    "42501": "grant the user the right",
    "42P01": "create the table, or give the name of another one",
    "53100": "make room on the server's disk",
    "53200": "raise max_prepared_transactions or the memory of the server",
    "53300": "raise max_connections of the server, or run fewer subtasks",
    "55P03": "a row with the same unique key waits in another transaction, perhaps a prepared one of this"
    " job: append rows whose keys are new, or use an upsert sink",
}


class NoAnswer(psycopg.OperationalError):
    """The server does not answer in time."""


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up a request after a time."""

    timeout_s: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Consume a generator of psycopg. Raises NoAnswer after the time-out."""
        limit = self.timeout_s if timeout is None else timeout
        begun = time.monotonic()
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError as error:
            if limit is None or error.sqlstate or time.monotonic() - begun < limit:
                raise
            raise NoAnswer(f"the server does not answer within {limit:g} s") from error


def connect(options: JdbcConnectionOptions, what: str, application_name: str = "") -> TimedConnection:
    """Return a new connection, which commits each statement unless a transaction was begun.

    Args:
        options: where, and as whom.
        what: what connects, for messages.
        application_name: the name of the session.

    Raises:
        DatabaseUnavailable: the server is not there, or not now.
        RefusedByDatabase: it refuses the user, the password or the database.
    """
    beside = {"user": options.get_user_name(), "password": options.get_password()}
    given = {name: value for name, value in beside.items() if value is not None}
    timeout_s = options.request_timeout_ms / 1000
    with translated(what):
        # Whole seconds, and psycopg takes no fewer than two.
        connect_timeout = max(2, round(timeout_s))
        conninfo = make_conninfo(
            options.get_db_url(),
            connect_timeout=connect_timeout,
            application_name=application_name or "onceproof",
            client_encoding="UTF8",
            **given,
        )
        connection = TimedConnection.connect(conninfo, autocommit=True, prepare_threshold=None)
        connection.timeout_s = timeout_s
        try:
            connection.execute(sql.SQL("SET lock_timeout = {}").format(LOCK_TIMEOUT_MS))
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise psycopg's errors as those of `two_phase_database.py`, in one line that begins with ``what``."""
    try:
        yield
    except psycopg.Error as error:
        raise _translation(error, what) from error
    except UnicodeEncodeError as error:
        raise RefusedByDatabase(
            f"{what}: a text holds a lone surrogate ({error.reason}): encode it to bytes"
        ) from error


def _translation(error: psycopg.Error, what: str) -> DatabaseUnavailable | RefusedByDatabase:
    state = error.sqlstate or ""
    text = _words_of(error)
    mend = _MENDS.get(state) or _MENDS.get(state[:2]) or ""
    is_refused = state.startswith(_REFUSED_CLASSES) and state != _READ_ONLY
    if not state:
        refusal = _REFUSED_CONNECTIONS.search(text) if isinstance(error, psycopg.OperationalError) else None
        # Without a SQLSTATE and no OperationalError: psycopg itself refuses a value.
        is_refused = refusal is not None or not isinstance(error, psycopg.OperationalError)
        if refusal is not None:
            mend = "give the address, user and password of a database that exists and takes this user"
        elif isinstance(error, psycopg.OperationalError):
            mend = "start the server, or give the address of one that runs"
    line = f"{what}: {text}{f': {mend}' if mend and mend not in text else ''}"
    return RefusedByDatabase(line) if is_refused else DatabaseUnavailable(line)


def _words_of(error: psycopg.Error) -> str:
    """Return the words of the server, or of psycopg, in one line."""
    diagnosis = error.diag
    words = [diagnosis.message_primary or str(error)]
    if diagnosis.sqlstate:
        words += [text for text in (diagnosis.message_detail, diagnosis.message_hint) if text]
        if diagnosis.context and diagnosis.context.startswith("COPY"):
            words.append(diagnosis.context.splitlines()[0])
    line = " ".join("; ".join(words).split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}…"
