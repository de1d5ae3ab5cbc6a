"""The second thread of the local runtime: it writes snapshots and metadata, one after the other.

Rules:

- The driver submits work and gets the report of each piece in its own thread, in the order of submission.
- Work that has not begun can be withdrawn, with all that it holds in memory. So what waits here belongs to
  checkpoints that are pending: at most as many per task as may be under way at a time.
- Work that has begun is finished: a storage call cannot be interrupted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any, Protocol

from msgspec import Struct

from onceproof.engine.checkpoint.snapshot_files import SnapshotStorage, delete_unstored, store_encoded
from onceproof.engine.errors import Ending
from onceproof.engine.forked_children import runs_user_code
from onceproof.engine.state.snapshot import encode_task_snapshot
from onceproof.engine.task.events import SnapshotFailed, SnapshotStored, StoreSnapshot


def snapshot_work(
    storage: SnapshotStorage,
    effect: StoreSnapshot,
    stored: Callable[[Sequence[str], SnapshotStored | SnapshotFailed], None],
    not_encoded: Callable[[BaseException], None],
) -> Callable[[], Report]:
    """Return what encodes and writes a snapshot; it returns the report for the driver's thread.

    The report calls ``stored`` with the files that are there and the event for the task, or ``not_encoded``:
    state that cannot be encoded is an error of the job, not of the storage.
    """

    def write() -> Report:
        try:
            encoded = encode_task_snapshot(effect.snapshot, effect.canonical)
        except Ending:
            raise
        except BaseException as error:
            # Values of users pickle and copy themselves.
            failure = error
            return lambda: not_encoded(failure)
        try:
            handle = store_encoded(storage, effect.path, encoded)
        except OSError as error:
            reason = str(error)
            # If the checkpoint was aborted meanwhile, only this thread can delete the written part.
            delete_unstored(storage, effect.path, effect.snapshot)
            return lambda: stored((), SnapshotFailed(effect.checkpoint_id, reason))
        return lambda: stored(handle.paths, SnapshotStored(effect.checkpoint_id, handle))

    return write


Report = Callable[[], None]
"""What the driver does in its own thread once a piece of work is done."""


class Work(Struct, eq=False):
    """A piece of work: ``about`` says what it belongs to, ``run`` does it and returns its report."""

    about: Any
    run: Callable[[], Report]


class Writer(Protocol):
    """Does the work of a driver, in another thread or at once."""

    def submit(self, work: Work) -> None:
        """Queue a piece of work."""
        ...

    def withdraw(self, is_void: Callable[[Any], bool]) -> list[Work]:
        """Drop and return the work that has not begun and whose ``about`` is void."""
        ...

    def close(self) -> None:
        """Finish what is left, and end the thread."""
        ...


class CheckpointWriter:
    """Does work in a thread of its own, and passes each report to ``report``."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self.report = report
        self.waiting: deque[Work] = deque()
        """The work that has not begun."""
        self._changed = Condition()
        self._is_closed = False
        self._thread: Thread | None = None

    def submit(self, work: Work) -> None:
        """Queue a piece of work; the first one starts the thread."""
        with self._changed:
            self.waiting.append(work)
            if self._thread is None:
                self._thread = Thread(target=self._work, name="checkpoint-writer", daemon=True)
                self._thread.start()
            self._changed.notify()

    def withdraw(self, is_void: Callable[[Any], bool]) -> list[Work]:
        """Drop and return the work that has not begun and whose ``about`` is void."""
        with self._changed:
            dropped = [work for work in self.waiting if is_void(work.about)]
            if dropped:
                self.waiting = deque([work for work in self.waiting if not is_void(work.about)])
        return dropped

    def close(self) -> None:
        """Finish what is left, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    @runs_user_code
    def _work(self) -> None:
        while True:
            with self._changed:
                while not self.waiting:
                    if self._is_closed:
                        return
                    self._changed.wait()
                work = self.waiting.popleft()
            try:
                report = work.run()
            except BaseException as error:
                report = _raiser(error)
            self.report(report)
            # Nothing may keep the snapshot while the thread waits.
            del work, report


def _raiser(error: BaseException) -> Report:
    def raise_it() -> None:
        raise error

    return raise_it
