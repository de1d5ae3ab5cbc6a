"""The real servers that families ask for: one for a system, with an empty database for each scenario.

The rules this module lives by:

- A server is started with the first scenario that needs it and stopped with the system; its folder goes with
  it.
- It dies with the process that has started it, however that dies: the pool of a run kills its workers.
- Its disk need not be synced: no fault kills the machine.
- A server that a fault has killed is started again at once, on the same data and port.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.services.service import ServiceError

_SETTINGS: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}
_SECONDS_BETWEEN_LOOKS: Final = 0.02


class TrialPostgres:
    """A PostgreSQL server for scenarios, one after another.

    Args:
        running: a server that runs already, and is not stopped at the end; None: one of its own.
    """

    def __init__(self, running: PostgresServer | None = None) -> None:
        self._server: PostgresServer | None = running
        self._databases = 0
        self._stops = threading.Event()
        self._keeper: threading.Thread | None = None

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
            self._keeper = threading.Thread(target=self._keep, args=(server,), daemon=True)
            self._keeper.start()
        return self._server

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the address of an empty database, which is dropped afterwards."""
        import psycopg

        server = self.server
        self._databases += 1
        name = f"trial{self._databases}"
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            yield server.address_of(name)
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
        """Stop the server, and delete its folder, if it is one of its own."""
        server, keeper = self._server, self._keeper
        if server is not None and keeper is not None:
            self._server = self._keeper = None
            self._stops.set()
            keeper.join()
            self._stops.clear()
            server.kill()
            shutil.rmtree(server.folder, ignore_errors=True)

    def _keep(self, server: PostgresServer) -> None:
        """Start the server again whenever it is dead."""
        while not self._stops.wait(_SECONDS_BETWEEN_LOOKS):
            if server.processes.has_died():
                with suppress(ServiceError):
                    server.start()
