"""A reader of what a job has written into a server, in another process than the job.

The rules this module lives by:

- It reads directly from the server, not through the job's proxy, and waits while the server is away.
- What it sees is an event with the time after the look. So it stands behind what has made rows visible, in
  the order of the logs of all processes: a sound job has logged the checkpoint before its rows are seen.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self


class ServerWatch(ABC):
    """Looks at a server in a thread of its own while its context lasts."""

    def __init__(self) -> None:
        self.ends = threading.Event()
        """Set when the context ends."""
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.watch, daemon=True)

    @abstractmethod
    def watch(self) -> None:
        """Look again and again until ``ends`` is set."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ends.set()
        self._thread.join()

    def note(self, kind: str, name: str) -> None:
        """Add an event: rows of a transaction, or of a key, are seen or gone."""
        with self._lock:
            self._events.append({"at": time.monotonic_ns(), "kind": kind, "transaction": name})

    def take_events(self) -> list[dict[str, Any]]:
        """Return what was seen since the last call, as events of a log."""
        with self._lock:
            events, self._events = self._events, []
        return events
