"""Reads the recovery store of a flow: which epochs are complete, and the cut of the last one.

The rules this module lives by:

- The store is what Bytewax writes: databases of SQLite, one for each partition, with the tables exs (the
  executions), fronts (how far each worker of one has come) and snaps (states by step, key and epoch).
- The next execution begins with the epoch that every worker of the last one had reached: the epochs before it
  are complete. A worker that has written nothing stands where its execution began.
- States are pickles. None is unpickled: a position of a source is an int, which stands in its pickle.
- It is read while no process of the flow lives. Nothing is written.
"""

from __future__ import annotations

import pickletools
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceproof.harness.model.family import FamilyError

FIRST_EPOCH: Final = 1
FLOW: Final = "flow"
"""The name of every flow under trial: its steps are named after it in the store."""
RECORDS: Final = "records"
"""The step of the source."""
_SOURCE: Final = f"{FLOW}.{RECORDS}"
_NOT_VALUES: Final = ("PROTO", "FRAME")


@dataclass(frozen=True, slots=True)
class StoreContents:
    """What a recovery store says."""

    executions: int = 0
    """How many there were."""
    began_at: int = FIRST_EPOCH
    """The epoch with which the last execution has begun."""
    resumes_at: int = FIRST_EPOCH
    """The epoch with which the next one begins: all before it are complete."""
    positions: dict[str, int] = field(default_factory=dict)
    """By split, how many records are before the cut with which that one begins."""


def read_store(folder: Path) -> StoreContents:
    """Return what the recovery store in a folder says; that of a flow that was never started is empty.

    Raises FamilyError for a store that cannot be read.
    """
    executions: dict[int, tuple[int, int]] = {}
    fronts: dict[tuple[int, int], int] = {}
    snapshots: dict[str, dict[int, bytes | None]] = {}
    for path in sorted(folder.glob("*.sqlite3")):
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
                for number, workers, epoch in database.execute(
                    "SELECT ex_num, worker_count, resume_epoch FROM exs"
                ):
                    executions[number] = (workers, epoch)
                for number, worker, front in database.execute(
                    "SELECT ex_num, worker_index, worker_frontier FROM fronts"
                ):
                    fronts[number, worker] = front
                for split, epoch, state in database.execute(
                    "SELECT state_key, snap_epoch, ser_change FROM snaps WHERE step_id = ?", (_SOURCE,)
                ):
                    snapshots.setdefault(split, {})[epoch] = state
        except sqlite3.Error as error:
            raise FamilyError(f"{path}: the recovery store of Bytewax cannot be read: {error}") from None
    if not executions:
        return StoreContents()
    last = max(executions)
    workers, began_at = executions[last]
    resumes_at = min(fronts.get((last, worker), began_at) for worker in range(workers))
    positions = {}
    for split, states in snapshots.items():
        complete = [epoch for epoch in states if epoch < resumes_at]
        state = states[max(complete)] if complete else None
        if state is not None:
            positions[split] = int_in_pickle(state)
    return StoreContents(last + 1, began_at, resumes_at, positions)


def int_in_pickle(state: bytes) -> int:
    """Return the int that a pickle consists of, without unpickling it. Raises FamilyError for another one."""
    try:
        values = [value for code, value, _ in pickletools.genops(state) if code.name not in _NOT_VALUES]
    except (ValueError, IndexError) as error:
        raise FamilyError(f"a state in the recovery store of Bytewax is no pickle: {error}") from None
    # Behind the value comes the end of the pickle.
    match values:
        case [int(value), None]:
            return value
    raise FamilyError(f"a position in the recovery store of Bytewax is no int: {values}")
