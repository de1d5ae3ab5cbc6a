"""The checkpoint storage of a local process, in which single reads, lists and deletions fail.

Rules:

- A call fails where the fault clock says so, once; the next one succeeds, as on a network drive that was away
  for a moment. Or it takes its time, or this process still lists a file that it has deleted.
- The thread that writes snapshots is left alone: the fault clock belongs to the thread that runs the job.
- A process finds its checkpoints before it has a fault clock, so its first reads never fail. The simulation
  has that case.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final, Protocol

from onceproof.engine.locations import scheme_of
from onceproof.engine.protocol_points import COMPLETED, COORDINATOR, RESTORING
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Fault

READ: Final = "read"
DELETION: Final = "deletion"


class AwayForAMoment(StorageError, InjectedError):
    """A fault has made a call of the storage fail."""


class CallFaults(Protocol):
    """Counts calls: the fault clock of a process, or the board of several."""

    def other_at(self, point: str, task: str, checkpoint_id: int) -> Fault | None:
        """Count a call of the storage. Return the fault that it suffers, if any."""


class UnreliableCalls:
    """The faults of the storage that stands behind it among the bases of a class.

    Its reads, lists and deletions raise AwayForAMoment, or are late or stale, where a fault strikes.
    ``fault_clock`` says which call that is, once there is one.
    """

    fault_clock: CallFaults | None = None

    def __init__(self, at: str) -> None:
        super().__init__(at)  # type: ignore[call-arg]  # That of the storage beside this class.
        self._listed_until: dict[str, float] = {}
        """Deleted files that are still listed, and until when, by the monotonic clock in seconds."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        self.suffer(READ, path)
        content: bytes = super().read(path)  # type: ignore[misc]
        return content

    def delete(self, path: str) -> None:
        """Delete a file."""
        self.suffer(DELETION, path)
        super().delete(path)  # type: ignore[misc]

    def suffer(self, what: str, path: str) -> None:
        """Count a call; a fault may strike it. Raises AwayForAMoment."""
        if self.fault_clock is None or threading.current_thread() is not threading.main_thread():
            return
        point = RESTORING if what == READ else COMPLETED
        number = path.partition("/")[0].removeprefix("chk-")
        checkpoint_id = int(number) if number.isdecimal() else 0
        fault = self.fault_clock.other_at(point, COORDINATOR, checkpoint_id)
        if fault is None:
            return
        if not fault.delay:
            raise AwayForAMoment(f"checkpoint file {path!r}: the storage does not answer a {what}")
        if what == READ:
            time.sleep(fault.delay / 1000)
        else:
            self._listed_until[path] = time.monotonic() + fault.delay / 1000

    def list(self, prefix: str) -> list[str]:
        """Return the sorted paths that begin with a prefix, those included that are listed on."""
        self.suffer(READ, prefix)
        found: Sequence[str] = super().list(prefix)  # type: ignore[misc]
        now = time.monotonic()
        stale = [path for path, until in self._listed_until.items() if now < until]
        return sorted({*found, *(path for path in stale if path.startswith(prefix))})


class UnreliableStorage(UnreliableCalls, LocalCheckpointStorage):
    """A checkpoint folder whose calls suffer faults."""


class UnreliableObjects(UnreliableCalls, RemoteCheckpointStorage):
    """Checkpoints in an object store, whose calls suffer faults besides all that happens to the store."""


def unreliable_storage(at: str) -> UnreliableStorage | UnreliableObjects:
    """Return the storage at a place: a folder, or an address of an object store."""
    return UnreliableObjects(at) if scheme_of(at) else UnreliableStorage(at)
