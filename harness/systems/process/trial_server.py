"""A real server that families ask for: one for a system, over all its scenarios.

The rules this module lives by:

- A server is started with the first scenario that needs it and stopped with the system; its folder goes with
  it.
- It dies with the process that has started it, however that dies: the pool of a run kills its workers.
- Faults strike it, and it comes back, on the same data and port (`server_strikes.py`). A job reaches it
  through a proxy that cuts connections.
"""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from onceproof.harness.systems.process.server_strikes import MortalService, StruckServer

Server = TypeVar("Server", bound=MortalService)


class TrialServer(ABC, Generic[Server]):
    """A server for scenarios, one after another.

    Args:
        running: a server that runs already, and is not stopped at the end; None: one of its own.
    """

    name: ClassVar[str]
    """Of the server, for the name of its folder."""

    def __init__(self, running: Server | None = None) -> None:
        self._server: Server | None = running
        self._is_own = running is None
        self._struck: StruckServer | None = None
        self._scenarios = 0

    @abstractmethod
    def new_server(self, folder: Path) -> Server:
        """Return a server with its data in a new folder, not yet started."""

    def struck_by_faults(self, server: Server) -> StruckServer:
        """Return the running server as faults see it."""
        return StruckServer(server)

    @property
    def server(self) -> Server:
        """The server, which is started if it is not yet. Raises ServiceError, ExtraMissing."""
        if self._server is None:
            folder = Path(tempfile.mkdtemp(prefix=f"onceproof-{self.name}-"))
            server = self.new_server(folder)
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
            self._struck = self.struck_by_faults(self.server)
        return self._struck

    def next_name(self) -> str:
        """Return a name for what the next scenario has on the server."""
        self._scenarios += 1
        return f"trial{self._scenarios}"

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
