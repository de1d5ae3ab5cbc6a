"""A state of gigabytes on the database backend, in a process whose memory is measured.

Values are random, so that compression does not make the state smaller. The process fills the state, reads it
at random, takes a snapshot, stores it, and reports its peak resident memory. It is a process of its own
because the peak never falls: earlier work would be counted, too.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from onceproof.engine.checkpoint.snapshot_files import store_snapshot
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot
from onceproof.engine.types import Types

BYTES: Final = 5 << 30
VALUE_BYTES: Final = 4 << 10
READS: Final = 20_000
MAX_PARALLELISM: Final = 128
ROOT: Final = Path(__file__).parents[2]


class LargeStateFailed(Exception):
    """The process with the large state died or lost state; the message is one line."""


def measure_large_state(size_bytes: int = BYTES) -> dict[str, float]:
    """Measure a state of ``size_bytes`` in a new process and return the figures.

    Raises LargeStateFailed.
    """
    command = [sys.executable, "-m", "tests.benchmarks.large_state", str(size_bytes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise LargeStateFailed(f"the process with the large state ended with {done.returncode}: {reason}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def take_figures(size_bytes: int, folder: str) -> dict[str, float]:
    """Fill, read and store a state, in this process.

    Raises LargeStateFailed where a value is not what was written.
    """
    keys = max(1, size_bytes // VALUE_BYTES)
    settings = StateBackendSettings("rocksdb", folder)
    backend = RocksDBStateBackend(MAX_PARALLELISM, (0, MAX_PARALLELISM - 1), Types.LONG(), None, settings)
    state = backend.value_state(ValueStateDescriptor("large", Types.PRIMITIVE_ARRAY(Types.BYTE())))
    started = time.perf_counter()
    for key in range(keys):
        backend.current_key = key
        state.update(_value(key))
    filled = time.perf_counter()
    draw = Random(2).random
    for _ in range(READS):
        key = backend.current_key = int(draw() * keys)
        if state.value() != _value(key):
            raise LargeStateFailed(f"key {key} does not have the value that was written")
    read = time.perf_counter()
    storage = LocalCheckpointStorage(Path(folder, "checkpoints"))
    taken = TaskSnapshot({"large": OperatorSnapshot(backend.snapshot(1))})
    handle = store_snapshot(storage, "chk-1/task", taken)
    stored = time.perf_counter()
    backend.close()
    return {
        "large_state_bytes": keys * VALUE_BYTES,
        "large_snapshot_bytes": handle.total_length,
        "large_fill_seconds": filled - started,
        "large_reads_per_second": round(READS / (read - filled)),
        "large_snapshot_seconds": stored - read,
        "large_peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _value(key: int) -> bytes:
    return Random(key).randbytes(VALUE_BYTES)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as where:
        print(json.dumps(take_figures(int(sys.argv[1]), where)))
