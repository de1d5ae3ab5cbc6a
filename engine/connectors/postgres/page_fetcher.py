"""The thread that reads the rows of a table for a task, page by page, in the order of a key.

The rules this module lives by:

- A page begins behind the last key of the one before it. So each page is one short query by the index, a
  reader goes on from any key, and no query stays open between two pages.
- The task takes what has arrived and never waits for the server; the thread wakes it. At most two pages wait.
- A failure ends the thread. The task raises it behind the rows that had arrived.
- The table is checked (`table_guard.py`) before the first page and behind each, and only then its rows count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

from onceproof.engine.connectors.postgres.postgres_table import PostgresTable
from onceproof.engine.connectors.postgres.table_guard import KeyedRow, TableGuard, digest_of

MOST_PAGES: Final = 2
CLOSE_SECONDS: Final = 1.0


class Page(NamedTuple):
    """Rows in the order of their keys; behind the columns of each stand the table's storage and the key."""

    rows: Sequence[tuple[Any, ...]]
    is_last: bool
    """Whether nothing is behind it now."""


Query = Callable[[Any, int], Page]
"""Called with a connection and a key; returns the page behind the key."""


class PageFetcher:
    """Fetches pages in a thread of its own.

    Args:
        table: the table.
        guard: checks the table.
        query: returns the page behind a key.
        after: the row behind which the first page begins.
        interval_s: how long to wait behind a last page, in seconds; None: it is the end.
        wake_up: called when rows have arrived, and at the end.
    """

    def __init__(
        self,
        table: PostgresTable,
        guard: TableGuard,
        query: Query,
        after: KeyedRow,
        interval_s: float | None,
        wake_up: Callable[[], None],
    ) -> None:
        self._table = table
        self._guard = guard
        self._query = query
        self._after = after
        self._interval_s = interval_s
        self._wake_up = wake_up
        self._changed = Condition()
        """Guards everything below."""
        self._pages: deque[Sequence[tuple[Any, ...]]] = deque()
        self._is_stopped = False
        self._has_ended = False
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name=table.place, daemon=True)
        self._thread.start()

    def take(self, limit: int) -> Sequence[tuple[Any, ...]] | None:
        """Return and remove the oldest rows, ``limit`` at most; None: all are taken, and none will come.

        Raises what has ended the thread.
        """
        with self._changed:
            if not self._pages:
                if self._failure is not None:
                    raise self._failure
                return None if self._has_ended else ()
            page = self._pages.popleft()
            if len(page) > limit:
                self._pages.appendleft(page[limit:])
            self._changed.notify_all()
        return page[:limit]

    def stop(self) -> None:
        """End the thread; a query that runs ends by itself."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            self._fetch()
        except BaseException as error:
            with self._changed:
                self._failure = error
        with self._changed:
            self._has_ended = True
        self._wake_up()

    def _fetch(self) -> None:
        from onceproof.engine.connectors.postgres.timed_connection import connect, translated

        connection = connect(self._table.options, self._table.place)
        try:
            with translated(self._table.place):
                self._guard.begin(connection)
            while not self._is_stopped:
                with translated(self._table.place):
                    page = self._query(connection, self._after.key)
                    if page.is_last or not self._guard.is_storage(page.rows[-1][-2]):
                        self._guard.check(connection, self._after)
                if page.rows:
                    *values, _, key = page.rows[-1]
                    self._after = KeyedRow(key, digest_of(values))
                    self._put(page.rows)
                if page.is_last:
                    if self._interval_s is None:
                        return
                    with self._changed:
                        self._changed.wait_for(lambda: self._is_stopped, self._interval_s)
        finally:
            connection.close()

    def _put(self, rows: Sequence[tuple[Any, ...]]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or len(self._pages) < MOST_PAGES)
            self._pages.append(rows)
        self._wake_up()
