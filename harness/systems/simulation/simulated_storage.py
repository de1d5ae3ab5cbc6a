"""The simulated checkpoint storage, which survives the death of every simulated process.

The rules this module lives by:

- The world schedules each write as a step of its own, in which a fault may change it. Reads and deletions
  happen at once, in the step of the caller. A fault may make them fail, hold a read up, or list on what
  was deleted.
- A file that is there is always listed: the engine asks that of a storage, and the big object stores do it.
- What the harness itself looks up (``files``, ``paths``) never fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from onceproof.engine.runtime import deletion, recovery
from onceproof.engine.runtime.storage import MissingFile
from onceproof.harness.model.fault_kinds import Target
from onceproof.harness.model.faults import leaving_files
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.agenda import Clock

STORAGE_FAILED: Final = leaving_files("read", "deletion")
"""Faults after which files may stay that should be deleted, until a later start of the job."""


class FileMissing(Exception):
    """A file that should be there is not."""


class StorageUnavailable(OSError, InjectedError):
    """A fault has made a call of the storage fail; the next one may succeed."""


class SimulatedStorage:
    """Files by path, relative to the job's checkpoint directory.

    ``fault_of`` is asked with what is about to be done, and the path, which fault strikes the call.
    """

    __slots__ = ("_clock", "_listed_until", "fault_of", "files", "undeleted")
    is_in_place = True
    writes_may_be_late = False
    """A write of a dead process that lands late is one step of the world, in which its claim is checked."""

    def __init__(self, clock: Clock) -> None:
        self.files: dict[str, bytes] = {}
        self.undeleted: set[str] = set()
        """The files that are there again, or only then, since a power cut or a put that came late."""
        self.fault_of: Callable[[Target, str], Fault | None] = no_fault
        self._clock = clock
        self._listed_until: dict[str, int] = {}
        """Deleted files that are still listed, and until when."""

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises StorageUnavailable; FileMissing if there is none; MissingFile if it was listed nevertheless.
        """
        self._suffer("read", path)
        try:
            return self.files[path]
        except KeyError:
            raise self._missing(path) from None

    def _missing(self, path: str) -> Exception:
        said = f"{path} is not there"
        return MissingFile(said) if path in self._listed_until else FileMissing(said)

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, atomically."""
        self.files[path] = data

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store the local file ``source``; take the content from ``earlier`` if it is stored there."""
        known = None if earlier is None else self.files.get(earlier)
        self.files[path] = Path(source).read_bytes() if known is None else known

    def tear(self, path: str, data: bytes) -> None:
        """Store the first half of a file, as a crash in the middle of a write does."""
        self.files[path] = data[: len(data) // 2]

    def paths(self, prefix: str) -> list[str]:
        """Return all paths that begin with ``prefix``, sorted, whatever fault there is."""
        if not prefix:
            return sorted(self.files)
        length = len(prefix)
        return sorted([path for path in self.files if path[:length] == prefix])

    def list(self, prefix: str) -> list[str]:
        """Return all paths that begin with ``prefix``, sorted. Raises StorageUnavailable."""
        self._suffer("read", prefix)
        listed = self.paths(prefix)
        if self._listed_until:
            now = self._clock.now
            stale = [path for path, until in self._listed_until.items() if now < until]
            listed = sorted({*listed, *(path for path in stale if path.startswith(prefix))})
        return listed

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it does not exist. Raises StorageUnavailable."""
        self._suffer("deletion", path)
        self.files.pop(path, None)

    def _suffer(self, what: Target, path: str) -> Fault | None:
        """Let a fault strike a call, and return it."""
        fault = self.fault_of(what, path)
        if fault is not None and not fault.delay:
            raise StorageUnavailable(f"the storage does not answer: {what} of {path!r}")
        # No listing names a file that has never been there, which a caller may delete all the same.
        if fault is not None and fault.kind == "stale_list" and self.exists(path):
            self._listed_until[path] = self._clock.now + fault.delay
        return fault

    def perform_all(self) -> None:
        """Do nothing: no write is on its way (`checkpoint_storages.py` has late ones)."""

    def lose_power(self) -> None:
        """Keep everything: what is written here is durable at once (`checkpoint_storages.py` has a disk)."""

    def exists(self, path: str) -> bool:
        return path in self.files

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file. Return False if it exists already."""
        if path in self.files:
            return False
        self.files[path] = data
        return True

    def make_durable(self, path: str) -> None:
        """Do nothing: a simulated file is durable when it is there."""


def no_fault(what: Target, path: str) -> Fault | None:
    """Let every call of a storage succeed."""
    return None


def is_no_fault(record: logging.LogRecord) -> bool:
    """Return whether a warning of the engine is about something other than what a fault has refused."""
    return not any(isinstance(argument, StorageUnavailable) for argument in record.args or ())


@contextmanager
def process_recovers() -> Iterator[None]:
    """Keep quiet, while a simulated process recovers, of checkpoints that are not the job's."""
    logger = logging.getLogger(recovery.__name__)
    logger.addFilter(_is_of_the_job)
    try:
        yield
    finally:
        logger.removeFilter(_is_of_the_job)


def _is_of_the_job(record: logging.LogRecord) -> bool:
    return "is of a process that had lost the job" not in record.msg


# The history has the faults: thousands of scenarios must not print a line for each.
logging.getLogger(deletion.__name__).addFilter(is_no_fault)
