"""The PostgreSQL server that families ask for, with an empty database for each scenario.

The rules this module lives by:

- As `trial_server.py`: one for a system, struck by faults, and gone with the process that has started it.
- Its disk need not be synced: no fault kills the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.systems.process.trial_server import TrialServer

_SETTINGS: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


class TrialDatabase(NamedTuple):
    """An empty database of a scenario."""

    address: str
    """For the harness."""
    address_of_job: str
    """For the job, through a proxy."""


class TrialPostgres(TrialServer[PostgresServer]):
    """A PostgreSQL server for scenarios."""

    name = "postgres"

    def new_server(self, folder: Path) -> PostgresServer:
        folder.chmod(0o755)
        return PostgresServer(folder, settings=_SETTINGS, dies_with_parent=True)

    @contextmanager
    def database(self) -> Iterator[TrialDatabase]:
        """Yield the addresses of an empty database, which is dropped afterwards."""
        import psycopg

        server, struck = self.server, self.struck
        name = self.next_name()
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            address = server.address_of(name)
            yield TrialDatabase(address, address.replace(f":{server.port}/", f":{struck.port}/"))
        finally:
            self._drop(name)

    def _drop(self, name: str) -> None:
        import psycopg
        from psycopg import sql

        server = self.server
        with suppress(psycopg.Error):
            with psycopg.connect(server.address_of(name), autocommit=True) as connection:
                left = connection.execute(
                    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
                ).fetchall()
                for (gid,) in left:
                    # A program gives its transactions the names that it likes.
                    connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
            with psycopg.connect(server.address, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
