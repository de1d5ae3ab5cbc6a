"""Sinks that run a statement for each row by a DB-API driver, under PyFlink's names.

The rules this module lives by:

- `JdbcSink.sink` is at least once: rows are sent in batches and before each snapshot, and again after a
  failure. A statement that writes by key (an upsert) makes that exactly once.
- `JdbcSink.exactly_once_sink` is exactly once by prepared transactions (`exactly_once_function.py`).
- A batch that fails is sent again on a new connection, ``max_retries`` times, if the error may heal.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from onceproof.engine.connectors.jdbc.db_api_database import DbApiDatabase, Driver
from onceproof.engine.connectors.jdbc.exactly_once_function import ExactlyOnceFunction
from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions, JdbcExecutionOptions
from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable
from onceproof.engine.connectors.sink import FlushedSinkFunction

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation


class JdbcStatementFunction(FlushedSinkFunction):
    """Runs a statement for each row of one subtask, at least once (Flink: GenericJdbcSinkFunction)."""

    def __init__(
        self, sql: str, connection_options: JdbcConnectionOptions, execution_options: JdbcExecutionOptions
    ) -> None:
        self._driver = Driver(connection_options)
        self._sql = self._driver.statement(sql)
        self._options = execution_options
        self._rows: list[tuple[Any, ...]] = []
        self._sent_at = time.monotonic()
        self._connection: Any = None

    def invoke(self, value: Any, context: Any) -> None:
        """Keep a row; send all if they are enough, or old enough. Raises DatabaseUnavailable."""
        self._rows.append(tuple(value))
        interval_s = self._options.get_batch_interval_ms() / 1000
        is_old = interval_s and time.monotonic() - self._sent_at >= interval_s
        if is_old or len(self._rows) >= self._options.get_batch_size():
            self._flush()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._driver.translated():
                connection.close()

    def _flush(self) -> None:
        """Send the rows that are held back. Raises DatabaseUnavailable."""
        self._sent_at = time.monotonic()
        if not self._rows:
            return
        for left in reversed(range(self._options.get_max_retries() + 1)):
            try:
                self._send()
                break
            except DatabaseUnavailable:
                self.close()
                if not left:
                    raise
        self._rows = []

    def _send(self) -> None:
        """Send all rows in one transaction."""
        if self._connection is None:
            self._connection = self._driver.connect()
        with self._driver.translated():
            self._connection.cursor().executemany(self._sql, self._rows)
            self._connection.commit()


class JdbcSink:
    """Makes sinks that run a statement for each row (PyFlink: JdbcSink)."""

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcStatementFunction:
        """Return a sink that is at least once.

        Args:
            sql: the statement, with ``?`` for each field of a row.
            type_info: the type of the rows; Python's values say their types themselves.
            jdbc_connection_options: where the database is, with the name of the driver.
            jdbc_execution_options: when rows are sent; None: the defaults.

        Raises:
            ValueError: there is no such driver.
        """
        return JdbcStatementFunction(
            sql, jdbc_connection_options, jdbc_execution_options or JdbcExecutionOptions.defaults()
        )

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> ExactlyOnceFunction:
        """Return a sink that is exactly once (Flink: JdbcSink.exactlyOnceSink).

        The driver must have two-phase commit, and the database prepared transactions. The arguments are those
        of ``sink``; retries are left to the restart strategy.

        Raises:
            ValueError: there is no such driver.
        """
        execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return ExactlyOnceFunction(DbApiDatabase(jdbc_connection_options, sql), execution.get_batch_size())
