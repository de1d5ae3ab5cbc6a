"""The ledger of exactly-once sinks in a PostgreSQL database: a row for each transaction or batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onceproof.engine.connectors.jdbc.two_phase_database import LedgerEntry
from onceproof.engine.connectors.postgres.postgres_table import beside_parameters, make_table, name_in

if TYPE_CHECKING:
    from onceproof.engine.connectors.postgres.timed_connection import TimedConnection

LEDGER: Final = "onceproof_ledger"
COLUMNS: Final = (
    "transaction text PRIMARY KEY, job text NOT NULL, owner text NOT NULL, subtask integer NOT NULL,"
    " checkpoint bigint NOT NULL, row_count bigint NOT NULL, recorded_at timestamptz NOT NULL DEFAULT now()"
)


class PostgresLedger:
    """The statements on the ledger.

    Args:
        name: the name of the table.
        schema: its schema; "": the first in the user's search path.
    """

    def __init__(self, name: str, schema: str) -> None:
        self.name = name_in(schema, name)

    def create(self, connection: TimedConnection, place: str) -> None:
        """Create the table if it is not there. Raises RefusedByDatabase."""
        make_table(connection, place, "ledger", self.name, COLUMNS, "SELECT, INSERT and DELETE")

    def record(self, connection: TimedConnection, entry: LedgerEntry) -> bool:
        """Write an entry. Return False if it is there already."""
        done = connection.execute(
            f"INSERT INTO {beside_parameters(self.name)} (transaction, job, owner, subtask, checkpoint,"
            " row_count) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            entry,
        )
        return done.rowcount == 1

    def has(self, connection: TimedConnection, name: str) -> bool:
        """Return whether there is an entry of a transaction or batch."""
        ledger = beside_parameters(self.name)
        found = connection.execute(f"SELECT 1 FROM {ledger} WHERE transaction = %s", (name,))
        return found.fetchone() is not None

    def has_after(self, connection: TimedConnection, owner: str, subtask: int, epoch: int) -> bool:
        """Return whether there is an entry of a subtask for a checkpoint after ``epoch``."""
        found = connection.execute(
            f"SELECT 1 FROM {beside_parameters(self.name)} WHERE owner = %s AND subtask = %s"
            " AND checkpoint > %s LIMIT 1",
            (owner, subtask, epoch),
        )
        return found.fetchone() is not None

    def forget(self, connection: TimedConnection, owner: str, subtask: int, older_than_ms: int) -> None:
        """Delete the entries of a subtask that were written longer ago than this, but the newest one."""
        ledger = beside_parameters(self.name)
        connection.execute(
            f"DELETE FROM {ledger} WHERE owner = %s AND subtask = %s"
            " AND recorded_at < now() - %s * interval '1 millisecond'"
            f" AND checkpoint < (SELECT max(checkpoint) FROM {ledger} WHERE owner = %s AND subtask = %s)",
            (owner, subtask, older_than_ms, owner, subtask),
        )
