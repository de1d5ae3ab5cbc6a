"""The real servers that families ask for: one for a system, with an empty database for each scenario.

The rules this module lives by:

- A server is started with the first scenario that needs it and stopped with the system; its folder goes with
  it.
- It dies with the process that has started it, however that dies: the pool of a run kills its workers.
- Its disk need not be synced: no fault kills the machine.
- Faults strike it, and it comes back, on the same data and port (`server_strikes.py`). A job reaches it
  through a proxy that cuts connections.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.systems.process.server_strikes import StruckServer

_SETTINGS: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


class TrialDatabase(NamedTuple):
    """An empty database of a scenario."""

    address: str
    """For the harness."""
    address_of_job: str
    """For the job, through a proxy."""


class TrialPostgres:
    """A PostgreSQL server for scenarios, one after another.

    Args:
        running: a server that runs already, and is not stopped at the end; None: one of its own.
    """

    def __init__(self, running: PostgresServer | None = None) -> None:
        self._server: PostgresServer | None = running
        self._is_own = running is None
        self._databases = 0
        self._struck: StruckServer | None = None

    @property
    def server(self) -> PostgresServer:
        """The server, which is started if it is not yet. Raises ServiceError, ExtraMissing."""
        if self._server is None:
            folder = Path(tempfile.mkdtemp(prefix="onceproof-postgres-"))
            folder.chmod(0o755)
            server = PostgresServer(folder, settings=_SETTINGS, dies_with_parent=True)
            try:
                server.start()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._server = server
        return self._server

    @property
    def struck(self) -> StruckServer:
        """The server as faults see it. Raises ServiceError, ExtraMissing."""
        if self._struck is None:
            self._struck = StruckServer(self.server)
        return self._struck

    @contextmanager
    def database(self) -> Iterator[TrialDatabase]:
        """Yield the addresses of an empty database, which is dropped afterwards."""
        import psycopg

        server, struck = self.server, self.struck
        self._databases += 1
        name = f"trial{self._databases}"
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            address = server.address_of(name)
            yield TrialDatabase(address, address.replace(f":{server.port}/", f":{struck.port}/"))
        finally:
            self._drop(name)

    def _drop(self, name: str) -> None:
        import psycopg

        server = self.server
        with suppress(psycopg.Error):
            with psycopg.connect(server.address_of(name), autocommit=True) as connection:
                left = connection.execute(
                    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
                ).fetchall()
                for (gid,) in left:
                    connection.execute(f"ROLLBACK PREPARED '{gid}'")
            with psycopg.connect(server.address, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def close(self) -> None:
        """Stop the server, and delete its folder, if it is one of its own; let another one run on."""
        struck, self._struck = self._struck, None
        if struck is not None:
            struck.close()
        server = self._server
        if server is None:
            return
        if self._is_own:
            self._server = None
            server.kill()
            shutil.rmtree(server.folder, ignore_errors=True)
        elif struck is not None and struck.was_restarted:
            server.kill()
            server.start()
