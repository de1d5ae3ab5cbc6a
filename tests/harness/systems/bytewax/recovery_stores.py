"""Recovery stores as Bytewax writes them, as far as they are read."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing


def write_part(folder, index, exs=(), fronts=(), snaps=()):
    """Write a partition of a store with the tables that are read."""
    with closing(sqlite3.connect(folder / f"part-{index}.sqlite3")) as database, database:
        database.execute("CREATE TABLE exs (ex_num, worker_count, resume_epoch)")
        database.execute("CREATE TABLE fronts (ex_num, worker_index, worker_frontier)")
        database.execute("CREATE TABLE snaps (step_id, state_key, snap_epoch, ser_change)")
        database.executemany("INSERT INTO exs VALUES (?, ?, ?)", exs)
        database.executemany("INSERT INTO fronts VALUES (?, ?, ?)", fronts)
        database.executemany("INSERT INTO snaps VALUES (?, ?, ?, ?)", snaps)


def of_split(split, epoch, position):
    """Return the snapshot of a split as a row of the table snaps."""
    return ("flow.records", split, epoch, pickle.dumps(position))
