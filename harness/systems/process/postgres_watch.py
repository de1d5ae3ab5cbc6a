"""A reader of a job's tables in PostgreSQL, in another process than the job, which looks all the time.

The rules this module lives by:

- As `server_watch.py`: directly, all the time, with the time after the look.
- Each look is one statement for each table, so it sees what one moment shows.
- Rows are gone if a transaction has fewer of them than before, or a key is missing from a table by key.
"""

from __future__ import annotations

import contextlib
from typing import Final

import psycopg

from onceproof.harness.model.history import Row
from onceproof.harness.systems.process.postgres_io import PostgresOutput
from onceproof.harness.systems.process.server_watch import ServerWatch
from onceproof.harness.systems.recording import event_log

SECONDS_BETWEEN_LOOKS: Final = 0.02


class PostgresWatch(ServerWatch):
    """Looks at a database.

    Args:
        address: of the database, directly.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self.looks = 0
        """How often it has seen all tables."""
        self._output = PostgresOutput(address)
        self._counts: dict[str, int] = {}
        """By transaction, the most rows that were seen of it."""
        self._keys: set[Row] = set()

    def close(self) -> None:
        """End the session with the server; the next look begins another one."""
        self._output.close()

    def look(self) -> None:
        """Look at all tables once. Raises psycopg.Error where the server does not answer for long."""
        counts = self._output.visible()
        keys = {row[: table.keys] for table in self._output.tables() for row in table.rows}
        for name, count in counts.items():
            if name not in self._counts:
                self.note(event_log.ROWS_SEEN, name)
            self._counts[name] = max(count, self._counts.get(name, 0))
        for name, most in list(self._counts.items()):
            if counts.get(name, 0) < most:
                self.note(event_log.ROWS_GONE, name)
                self._counts[name] = 0
        for key in sorted(self._keys - keys, key=repr):
            self.note(event_log.ROWS_GONE, repr(key))
        self._keys = keys
        self.looks += 1

    def watch(self) -> None:
        try:
            while not self.ends.wait(SECONDS_BETWEEN_LOOKS):
                # The database may be dropped, or its tables made, at any moment.
                with contextlib.suppress(psycopg.Error):
                    self.look()
        finally:
            self.close()
