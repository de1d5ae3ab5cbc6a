"""Bytewax's program of the benchmark `peers`, which runs in an environment of its own.

    python bytewax_peer.py CASE INPUT OUTPUT STATE

It reads the lines of all files in INPUT and writes rows to files in OUTPUT, which a restart cuts back to the
last snapshot. The state is kept in the folder STATE every second. It prints the seconds as a JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.files import DirSink, DirSource
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

PARTS = 2
BATCH = 1000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WINDOW = timedelta(milliseconds=10_000)
WAIT = timedelta(milliseconds=20_000)
"""The files are read side by side; none is ahead of another by as much."""


def numbers(line: str) -> tuple[int, ...]:
    """Return the numbers in a line."""
    return tuple([int(field) for field in line.split(",")])


def count(before: int | None, fields: tuple[int, ...]) -> tuple[int, str]:
    """Add one to the state, and emit the count."""
    now = (before or 0) + 1
    return now, f"{fields[0]},{now}"


def clock() -> Any:
    """Return a clock by the last field."""
    return win.EventClock(
        lambda fields: EPOCH + timedelta(milliseconds=fields[-1]), WAIT, to_system_utc=lambda _: None
    )


def start_of(number: int) -> int:
    """Return when a window begins, in milliseconds."""
    return number * 10_000


def rows_of(case: str, lines: Any) -> Any:
    """Return the rows of a case as pairs of a key and a line."""
    records = op.map("numbers", lines, numbers)
    windows = win.TumblingWindower(WINDOW, EPOCH)
    if case == "count":
        return op.stateful_map("count", op.key_on("key", records, lambda fields: str(fields[0])), count)
    if case == "windows":
        keyed = op.key_on("key", records, lambda fields: str(fields[0]))
        totals = win.fold_window("count", keyed, clock(), windows, lambda: 0, add_one, add, ordered=False)
        return op.map("row", totals.down, lambda row: (row[0], f"{row[0]},{start_of(row[1][0])},{row[1][1]}"))
    bids = op.key_on("all", op.filter("bids", records, lambda fields: fields[0] == 1), lambda _: "all")
    best = win.fold_window("best", bids, clock(), windows, tuple, higher, max, ordered=False)
    return op.map(
        "row", best.down, lambda row: (row[0], ",".join(map(str, (start_of(row[1][0]), *row[1][1]))))
    )


def add_one(total: int, _: tuple[int, ...]) -> int:
    """Count a record."""
    return total + 1


def add(one: int, other: int) -> int:
    """Add two counts."""
    return one + other


def higher(best: tuple[int, ...], fields: tuple[int, ...]) -> tuple[int, ...]:
    """Return the higher bid, as price, auction and bidder."""
    return max(best, (fields[3], fields[1], fields[2]))


def main(case: str, given: str, output: str, state: str) -> None:
    """Run a case, and print its seconds."""
    for folder in (output, state):
        Path(folder).mkdir()
    init_db_dir(state, 1)
    flow = Dataflow(case)
    lines = op.input("lines", flow, DirSource(Path(given), batch_size=BATCH))
    op.output("sink", rows_of(case, lines), DirSink(Path(output), PARTS))
    cpu, wall = time.process_time(), time.perf_counter()
    cli_main(
        flow,
        workers_per_process=1,
        epoch_interval=timedelta(seconds=1),
        recovery_config=RecoveryConfig(state, timedelta(0)),
    )
    print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}))


if __name__ == "__main__":
    main(*sys.argv[1:])
