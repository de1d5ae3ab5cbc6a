"""Running totals by key in Bytewax, between its stock source of files and its stock sink of one file."""

import json
import shutil
import sys
import time
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import DirSource, FileSink
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

given, written, workers = Path(sys.argv[1]), Path(sys.argv[2]) / "totals.jsonl", int(sys.argv[3])
kept = Path("recovery")
if not kept.is_dir():
    # Killed in between, it would leave a folder that no start can use.
    new = Path("recovery.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    init_db_dir(new, 1)
    new.rename(kept)


def read(line: str) -> tuple[str, int]:
    """Return the key of a record and the record, slowly: files are not this fast in life."""
    time.sleep(0.005)
    record = json.loads(line)
    return record["key"], record["amount"]


def add(total: int | None, amount: int) -> tuple[int, int]:
    """Return the new total, as state and as row."""
    total = (total or 0) + amount
    return total, total


flow = Dataflow("totals")
lines = op.input("lines", flow, DirSource(given, batch_size=1))
totals = op.stateful_map("totals", op.map("read", lines, read), add)
rows = op.map("rows", totals, lambda each: (each[0], json.dumps({"key": each[0], "total": each[1]})))
op.output("written", rows, FileSink(written))
cli_main(
    flow,
    workers_per_process=workers,
    epoch_interval=timedelta(milliseconds=50),
    recovery_config=RecoveryConfig(kept),
)
