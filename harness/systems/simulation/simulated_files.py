"""Folders in the simulation: the file calls of the file sink, over the simulated external system.

A job writes into folders where a consumer takes its files away; others write into the object store
(`simulated_object_store.py`).

The rules this module lives by:

- A part file is a transaction of the external system, and what is written to it are rows: so the history, the
  search for leaks, the neighbour and restored copies know it. A write must hold whole rows.
- The state of the transaction says under which name the file is: hidden while it is open or prepared, visible
  once it is committed, under none when it was deleted or a consumer has taken it. So a rename that was
  answered with an error, and takes place later, needs nothing else.
- An entry of the sink's ledger is a transaction without rows, which the history does not show.
- Calls are durable at once: a power cut strikes the machine of the job, and the folders are on another one.
- A folder is there while it has a file. Those without one are known to the attempt that has made them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from typing import NoReturn

import msgspec

from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.engine.connectors.part_files import hidden_name, mark_of
from onceproof.harness.model.history import as_tuple
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.systems.simulation.client_errors import OUTSIDE, client_error
from onceproof.harness.systems.simulation.external_system import (
    COMMITTED,
    OPEN,
    PREPARED,
    Transaction,
    TransactionalSystem,
)


class CallFailed(OSError, InjectedError):
    """A call was answered with an error; it may have been performed, or be performed later."""


class SimulatedFiles:
    """The file calls of the sinks of one attempt (`engine/file_calls.py`)."""

    def __init__(self, system: TransactionalSystem) -> None:
        self._system = system
        self._open: dict[int, Transaction | None] = {}
        """By descriptor, the file that is open; None for a folder."""
        self._next = 3
        self._folders = {"/"}

    def open(self, path: str, flags: int) -> int:
        """Open a folder, or create a file."""
        if flags & os.O_DIRECTORY:
            return self._opened(None)
        file = self._file(path)
        if file is not None and flags & os.O_EXCL:
            _fail(errno.EEXIST, path)
        return self._opened(file or self._create(path))

    def _opened(self, file: Transaction | None) -> int:
        self._next += 1
        self._open[self._next] = file
        return self._next

    def _create(self, path: str) -> Transaction:
        folder, name = os.path.split(path)
        system, entry, mark = self._system, entry_of(name), mark_of(name)
        if entry is not None:
            system.begin(entry.subtask, entry.epoch, entry.attempt, entry.owner, name=path)
            note = system.transactions[path]
            note.key, note.state = path, COMMITTED
            return note
        assert mark is not None, "only part files and entries of the ledger are written"
        visible = name[1 : -len(hidden_name("", mark)) + 1]
        system.begin(mark.subtask, mark.epoch, mark.attempt, mark.owner, name=visible)
        file = system.transactions[visible]
        file.key, file.can_vanish = os.path.join(folder, name), True
        return file

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Add rows, one a line."""
        file = self._open[descriptor]
        assert file is not None, "a folder is not written to"
        for line in bytes(data).splitlines():
            self._system.write(file.name, as_tuple(msgspec.json.decode(line)))
        file.lengths = [sum(file.lengths) + len(data)]
        return len(data)

    def fsync(self, descriptor: int) -> None:
        """Do nothing: what is written is durable."""

    def read_file(self, path: str) -> bytes:
        _fail(errno.ENOTSUP, path)

    def size_of(self, path: str) -> int | None:
        file = self._file(path)
        return None if file is None else sum(file.lengths)

    def exists(self, path: str) -> bool:
        return self._file(path) is not None or self.is_folder(path)

    def is_folder(self, path: str) -> bool:
        return path in self._folders or any(name.startswith(f"{path}/") for name, _ in self._files())

    def is_same_content(self, one: str, other: str) -> bool:
        """Return whether both are one file: no file has a copy."""
        return self._file(one) is self._file(other)

    def entries(self, folder: str) -> list[tuple[str, bool]]:
        found: dict[str, bool] = {}
        for path in (*(each for each, _ in self._files()), *(f"{each}/" for each in sorted(self._folders))):
            if path.startswith(f"{folder}/"):
                name, slash, _ = path.removeprefix(f"{folder}/").partition("/")
                if name:
                    found[name] = bool(slash)
        return list(found.items())

    def rename(self, source: str, target: str) -> None:
        """Make a part file visible, or give an entry of the ledger another name, which may be there.

        Raises CallFailed if a fault of the scenario strikes the commit.
        """
        file = self._file(source)
        if file is None:
            _fail(errno.ENOENT, source)
        if not file.can_vanish:
            self.unlink(source)
            if self._file(target) is None:
                self._create(target)
            return
        assert os.path.basename(target) == file.name, "a part file has one visible name"
        self._system.prepare(file.name)
        try:
            self._system.commit(file.name)
        except InjectedError as error:
            raise client_error(error, OUTSIDE) or CallFailed(errno.EIO, str(error)) from error

    def link(self, source: str, target: str) -> None:
        _fail(errno.ENOTSUP, target)

    def unlink(self, path: str) -> None:
        """Delete a hidden part file, or an entry of the ledger; the sink deletes nothing else."""
        file = self._file(path)
        if file is None:
            _fail(errno.ENOENT, path)
        if not file.can_vanish:
            del self._system.transactions[file.name]
            return
        try:
            self._system.ask_to_abort(file.name)
        except InjectedError as error:
            raise client_error(error, OUTSIDE) or CallFailed(errno.EIO, str(error)) from error

    def mkdir(self, folder: str) -> None:
        if self.exists(folder):
            _fail(errno.EEXIST, folder)
        self._folders.add(folder)

    def rmdir(self, folder: str) -> None:
        _fail(errno.ENOTSUP, folder)

    def commits_failed(self, names: Iterable[str]) -> None:
        """Enter into the history that files do not become visible in their turn."""
        self._system.commits_failed(names)

    def _file(self, path: str) -> Transaction | None:
        return next((file for each, file in self._files() if each == path), None)

    def _files(self) -> Iterator[tuple[str, Transaction]]:
        """Give all files with the names that they have now."""
        for each in self._system.transactions.values():
            if not each.key:
                continue
            if each.state in (OPEN, PREPARED) or not each.can_vanish:
                yield each.key, each
            elif each.state == COMMITTED and not each.is_taken:
                yield os.path.join(os.path.dirname(each.key), each.name), each


def _fail(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)
