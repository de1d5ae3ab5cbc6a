"""Stores one snapshot, for a driver that writes in a second thread (checkpoint_writer.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onceproof.engine.checkpoint.snapshot_files import SnapshotStorage, delete_unstored, store_encoded
from onceproof.engine.errors import Ending
from onceproof.engine.runtime.checkpoint_writer import Report
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
