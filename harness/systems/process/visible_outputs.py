"""Reads the visible output of a job after a process has died: part files in a folder, or a database.

Rules:

- Both kinds of output have one interface: the names of visible transactions, an identity that shows whether a
  transaction was replaced, its rows, and the transactions left unfinished.
- A name shows its output: names of transactions in the database contain slashes, names of files cannot, and
  those of servers have a prefix. The part files are asked last, and own what no other output does.
- A watch reads a server's output while the job runs: directly, not through the job's proxy. What it sees is
  an event with the time after the look. So it stands after what has made the rows visible in the order of the
  logs: a sound job has logged the checkpoint before its rows are seen.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.process.database_io import BATCH, Database, writer_of
from onceproof.harness.systems.process.fault_actions import CONSUMED
from onceproof.harness.systems.process.job_specification import HIDDEN

ReadRows = Callable[[Path], list[Row]]


def read_json_rows(path: Path) -> list[Row]:
    """Return the rows of a part file of JSON lines."""
    with path.open("rb") as lines:
        return [as_tuple(msgspec.json.decode(line)) for line in lines]


class Output(Protocol):
    """A place where transactions become visible."""

    def owns(self, name: str) -> bool:
        """Return whether a name is that of a transaction here; asked of one output after the other."""

    def names(self) -> list[str]:
        """Return the names of the visible transactions."""

    def identity(self, name: str) -> Hashable | None:
        """Return a value that changes if a transaction is changed or replaced; None if it is not visible."""

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a visible transaction."""

    def writer(self, name: str) -> tuple[int, int, str]:
        """Return the subtask, the epoch and the attempt that began a transaction, from its name."""

    def waits(self, name: str) -> bool:
        """Return whether it is a batch of a write-ahead sink, which a restore does not send."""

    def unfinished(self) -> list[str]:
        """Return the names of the transactions that are neither committed nor aborted."""


class PartFiles:
    """The part files of the engine's file sink; here each file is a transaction of its own.

    Processes of a job may write into different folders, and into buckets below them: a file is in the one
    where it was prepared.
    """

    def __init__(self, folder: Path, suffix: str, read_rows: ReadRows) -> None:
        self._folders = [folder]
        self._consumed = Path(f"{folder}{CONSUMED}")
        """Where a consumer may have taken visible files."""
        self._paths: dict[str, Path] = {}
        self._left_open: set[str] = set()
        """Hidden files in a folder when the output moved away from it."""
        self._name = re.compile(
            rf"part-[0-9a-f]+-([0-9]+)-([0-9]+)-([0-9]+\.[0-9]+)(?:-[0-9]+)?{re.escape(suffix)}"
        )
        self._read_rows = read_rows

    def writes_into(self, folder: Path) -> None:
        """Make a folder the current one."""
        folder.mkdir(parents=True, exist_ok=True)
        if folder != self._folders[0]:
            self._left_open.update(self._hidden())
        self._folders = [folder, *[each for each in self._folders if each != folder]]

    def owns(self, name: str) -> bool:
        """Return True: files may have any name."""
        return True

    def names(self) -> list[str]:
        """Return the names of all files that are not hidden, sorted."""
        found = [path for folder in (*self._folders, self._consumed) for path in _files_below(folder)]
        self._paths = {path.name: path for path in reversed(found)}
        return sorted(path.name for path in found if not path.name.startswith(HIDDEN))

    def identity(self, name: str) -> Hashable | None:
        """Return the file's inode and length; None if there is no such file."""
        try:
            status = self._path(name).stat()
        except FileNotFoundError:
            return None
        return (status.st_ino, status.st_size) if stat.S_ISREG(status.st_mode) else None

    def rows(self, name: str) -> list[Row]:
        return self._read_rows(self._path(name))

    def writer(self, name: str) -> tuple[int, int, str]:
        """Return the writer in a file's name; (0, 0, "unknown") if the engine gives no such names."""
        match = self._name.fullmatch(name)
        return (0, 0, "unknown") if match is None else (int(match[1]), int(match[2]), match[3])

    def waits(self, name: str) -> bool:
        """Return False: the file sink writes rows before the commit."""
        return False

    def unfinished(self) -> list[str]:
        """Return the names of the hidden files in the current folder, sorted.

        What a dead attempt has left open as the output moved away, no later attempt deletes, also if the
        output comes back to that folder (engine/docs/jobs.md).
        """
        return sorted(name for name in self._hidden() if name not in self._left_open)

    def _hidden(self) -> list[str]:
        names = [path.name for path in _files_below(self._folders[0]) if path.name.startswith(HIDDEN)]
        return [name for name in names if entry_of(name) is None]

    def _path(self, name: str) -> Path:
        path = self._paths.get(name)
        if path is None or not path.exists():
            self.names()
        return self._paths.get(name, self._folders[0] / name)


def _files_below(folder: Path) -> list[Path]:
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


class DatabaseOutput:
    """The transactions of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def owns(self, name: str) -> bool:
        return "/" in name

    def names(self) -> list[str]:
        """Return the names of the visible transactions, in the order in which they became visible."""
        return self._database.visible()

    def identity(self, name: str) -> Hashable | None:
        """Return the rows as text; None if the transaction is not visible."""
        rows = self._database.rows(name)
        return None if rows is None else repr(rows)

    def rows(self, name: str) -> list[Row]:
        return self._database.rows(name) or []

    def writer(self, name: str) -> tuple[int, int, str]:
        return writer_of(name)

    def waits(self, name: str) -> bool:
        return name.startswith(BATCH)

    def unfinished(self) -> list[str]:
        return self._database.prepared()


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
