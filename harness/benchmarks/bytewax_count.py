"""The keyed count of `bench local` as a program of Bytewax, which runs in an environment of its own.

    python bytewax_count.py POOL RECORDS OUTPUT RECOVERY

POOL is a file with a key on each line, read again and again until two parts together have RECORDS keys. Every
count is a line ``key,count`` in the folder OUTPUT; a restart cuts its files back to the last snapshot.
The state is kept in the folder RECOVERY every second. The program prints the seconds as a JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import DirSink
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

PARTS = 2
BATCH = 1000


class PoolPart(StatefulSourcePartition):  # type: ignore[misc]
    """Reads the pool again and again, up to its share of the records."""

    def __init__(self, pool: list[str], position: int, end: int) -> None:
        self._pool = pool
        self._position = position
        self._end = end

    def next_batch(self) -> list[str]:
        """Return the next keys, up to the end of the pool at the most."""
        if self._position >= self._end:
            raise StopIteration
        begin = self._position % len(self._pool)
        batch = self._pool[begin : begin + min(BATCH, self._end - self._position)]
        self._position += len(batch)
        return batch

    def snapshot(self) -> int:
        """Return the number of keys read."""
        return self._position


class Pool(FixedPartitionedSource):  # type: ignore[misc]
    """The keys, a share of them for each part."""

    def __init__(self, pool: list[str], records: int) -> None:
        self._pool = pool
        self._records = records

    def list_parts(self) -> list[str]:
        """Return the names of the parts."""
        return [f"share-{index}" for index in range(PARTS)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> PoolPart:
        """Return a part that starts at its snapshot."""
        return PoolPart(self._pool, resume_state or 0, self._records // PARTS)


def count(before: int | None, key: str) -> tuple[int, tuple[str, int]]:
    """Add one to the state, and emit the count."""
    now = (before or 0) + 1
    return now, (key, now)


def main(pool: str, records: str, output: str, recovery: str) -> None:
    """Run the dataflow, and print how long it took."""
    keys = Path(pool).read_text().split()
    Path(output).mkdir()
    Path(recovery).mkdir()
    init_db_dir(recovery, 1)
    flow = Dataflow("count")
    source = op.input("keys", flow, Pool(keys, int(records)))
    counts = op.stateful_map("count", op.key_on("key", source, lambda key: key), count)
    rows = op.map("row", counts, lambda pair: (pair[0], f"{pair[1][0]},{pair[1][1]}"))
    op.output("sink", rows, DirSink(Path(output), PARTS))
    cpu, wall = time.process_time(), time.perf_counter()
    cli_main(
        flow,
        workers_per_process=1,
        epoch_interval=timedelta(seconds=1),
        recovery_config=RecoveryConfig(recovery, timedelta(0)),
    )
    print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}))


if __name__ == "__main__":
    main(*sys.argv[1:])
