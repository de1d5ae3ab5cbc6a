"""A reader of a job's tables in PostgreSQL, in another process than the job, which looks all the time.

The rules this module lives by:

- It looks directly at the server, not through the job's proxy, and waits while the server is away.
- Each look is one statement for each table, so it sees what one moment shows.
- What it sees is an event with the time after the look. So it stands behind what has made rows visible, in
  the order of the logs of all processes: a sound job has logged the checkpoint before its rows are seen.
- Rows are gone if a transaction has fewer of them than before, or a key is missing from a table by key.
"""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from onceproof.harness.model.history import Row
from onceproof.harness.systems.process.postgres_io import PostgresOutput
from onceproof.harness.systems.recording import event_log

SECONDS_BETWEEN_LOOKS: Final = 0.02


class PostgresWatch:
    """Looks at a database while its context lasts.

    Args:
        address: of the database, directly.
    """

    def __init__(self, address: str) -> None:
        self.looks = 0
        """How often it has seen all tables."""
        self._output = PostgresOutput(address)
        self._counts: dict[str, int] = {}
        """By transaction, the most rows that were seen of it."""
        self._keys: set[Row] = set()
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()
        self.close()

    def close(self) -> None:
        """End the session with the server; the next look begins another one."""
        self._output.close()

    def take_events(self) -> list[dict[str, Any]]:
        """Return what was seen since the last call, as events of a log."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def look(self) -> None:
        """Look at all tables once. Raises psycopg.Error where the server does not answer for long."""
        counts = self._output.visible()
        keys = {row[: table.keys] for table in self._output.tables() for row in table.rows}
        for name, count in counts.items():
            if name not in self._counts:
                self._note(event_log.ROWS_SEEN, name)
            self._counts[name] = max(count, self._counts.get(name, 0))
        for name, most in list(self._counts.items()):
            if counts.get(name, 0) < most:
                self._note(event_log.ROWS_GONE, name)
                self._counts[name] = 0
        for key in sorted(self._keys - keys, key=repr):
            self._note(event_log.ROWS_GONE, repr(key))
        self._keys = keys
        self.looks += 1

    def _note(self, kind: str, name: str) -> None:
        with self._lock:
            self._events.append({"at": time.monotonic_ns(), "kind": kind, "transaction": name})

    def _watch(self) -> None:
        while not self._ends.wait(SECONDS_BETWEEN_LOOKS):
            # The database may be dropped, or its tables made, at any moment.
            with contextlib.suppress(psycopg.Error):
                self.look()
