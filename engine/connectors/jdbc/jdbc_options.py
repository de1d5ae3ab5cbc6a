"""The connection and the execution of sinks and sources of databases, under PyFlink's names.

The rules this module lives by:

- An address is a URL, with or without "jdbc:" before it. Password and user may stand in it or beside it.
- No message, log record or ``repr`` shows a password.
- Every request has a time-out: a server that is paused must not stop the tasks of a process.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_JDBC: Final = "jdbc:"
_PASSWORD_IN_URL: Final = re.compile(r"(?<=[?&])(password|sslpassword)=[^&]*", re.IGNORECASE)
REQUEST_TIMEOUT_MS: Final = 10_000
BATCH_ROWS: Final = 5000
MAX_RETRIES: Final = 3


class JdbcConnectionOptions:
    """Where a database is, and as whom to connect (PyFlink: JdbcConnectionOptions)."""

    def __init__(
        self,
        url: str,
        driver_name: str | None = None,
        user_name: str | None = None,
        password: str | None = None,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Called by the builder.

        Raises:
            ValueError: there is no URL, or the time-out is not positive.
        """
        if not url or "\0" in url or "://" not in url:
            raise ValueError(
                f"{shown_url(url)!r} is not an address of a database: give one such as"
                " postgresql://user@host:5432/database"
            )
        if request_timeout_ms < 1:
            raise ValueError(f"request timeout {request_timeout_ms} ms must be positive")
        self._url = url.removeprefix(_JDBC)
        self._driver_name = driver_name
        self._user_name = user_name
        self._password = password
        self.request_timeout_ms = request_timeout_ms
        """After how many milliseconds without an answer the connection is given up (ours)."""

    def get_db_url(self) -> str:
        """Return the URL, without "jdbc:" before it."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the name of the driver: a Python module of DB-API 2.0."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user that stands beside the URL."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password that stands beside the URL."""
        return self._password

    @property
    def place(self) -> str:
        """The address for messages, without a password."""
        return shown_url(self._url)

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self.place})"

    class JdbcConnectionOptionsBuilder:
        """Builds JdbcConnectionOptions (PyFlink: JdbcConnectionOptionsBuilder)."""

        def __init__(self) -> None:
            self._url = ""
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None
            self._request_timeout_ms = REQUEST_TIMEOUT_MS

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the URL, such as postgresql://host:5432/database."""
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the driver: a Python module of DB-API 2.0, such as ``psycopg``."""
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user."""
            self._user_name = user_name
            return self

        def with_password(self, password: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password."""
            self._password = password
            return self

        def with_request_timeout_ms(
            self, request_timeout_ms: int
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set after how many milliseconds without an answer a connection is given up (ours)."""
            self._request_timeout_ms = request_timeout_ms
            return self

        def build(self) -> JdbcConnectionOptions:
            """Return the options. Raises ValueError if something is missing or wrong."""
            return JdbcConnectionOptions(
                self._url, self._driver_name, self._user_name, self._password, self._request_timeout_ms
            )


class JdbcExecutionOptions:
    """When a sink sends its rows (PyFlink: JdbcExecutionOptions)."""

    def __init__(self, batch_interval_ms: int, batch_size: int, max_retries: int) -> None:
        """Called by the builder. Raises ValueError for a number that is not possible."""
        if batch_size < 1:
            raise ValueError(f"batch size {batch_size}: at least 1 is needed")
        if batch_interval_ms < 0 or max_retries < 0:
            raise ValueError(
                f"batch interval {batch_interval_ms} ms and max retries {max_retries} must not be negative"
            )
        self._batch_interval_ms = batch_interval_ms
        self._batch_size = batch_size
        self._max_retries = max_retries

    def get_batch_interval_ms(self) -> int:
        """Return after how many milliseconds rows are sent with the next row; 0: however old they are."""
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows at which they are sent."""
        return self._batch_size

    def get_max_retries(self) -> int:
        """Return how often a batch is sent again, on a new connection, before the task fails."""
        return self._max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return batches of 5,000 rows and three retries, as in Flink."""
        return JdbcExecutionOptions(0, BATCH_ROWS, MAX_RETRIES)

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder with the defaults."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Builds JdbcExecutionOptions (PyFlink: JdbcExecutionOptions.Builder)."""

        def __init__(self) -> None:
            self._size = BATCH_ROWS
            self._interval_ms = 0
            self._max_retries = MAX_RETRIES

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set the number of rows at which they are sent."""
            self._size = size
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set after how many milliseconds rows are sent with the next row."""
            self._interval_ms = interval_ms
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set how often a batch is sent again before the task fails."""
            self._max_retries = max_retries
            return self

        def build(self) -> JdbcExecutionOptions:
            """Return the options. Raises ValueError for a number that is not possible."""
            return JdbcExecutionOptions(self._interval_ms, self._size, self._max_retries)


def shown_url(url: str) -> str:
    """Return a URL for messages: one line, without a password."""
    try:
        parts = urlsplit(url.removeprefix(_JDBC))
    except ValueError:
        return "the address"
    host = parts.netloc.rpartition("@")[2]
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    query = _PASSWORD_IN_URL.sub(r"\1=***", f"?{parts.query}") if parts.query else ""
    shown = f"{parts.scheme}://{user}{'@' if user else ''}{host}{parts.path}{query}"
    return " ".join(shown.split())
