"""Bytes and seconds of a checkpoint when little has changed, and for how long it delays records.

The rules this module lives by:

- The case: a million keys in a database, of which one in a hundred changes between two checkpoints. Both full
  and incremental checkpoints are taken round by round from states that are changed alike. Files are copied to
  the checkpoint directory, as onto another disk: if files could be linked, a full checkpoint would cost as
  little as an incremental one.
- Databases compact their files now and then, and compacted files are stored again. So the mean over all
  rounds counts, and the most expensive round stands beside it.
- The last incremental checkpoint is restored, and every key that was ever changed is compared.
- A gap is the longest time between two records in the operator with the state while a job runs. Beside it
  stands the same job without checkpoints, whose gaps come from other work on the machine.
- Under backpressure the next operator is slow, and the channel to it always full.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.checkpoint.metadata import StateHandle
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry
from onceproof.engine.checkpoint.snapshot_files import store_snapshot
from onceproof.engine.configuration import Configuration
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.elements import Record
from onceproof.engine.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot
from onceproof.engine.types import Types
from onceproof.harness.reporting.report_builder import machine_text
from tests.benchmarks.local import PoolSource
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.state import MAX_PARALLELISM, OPERATOR, VALUE, WrongState, fill, restore

KEYS: Final = 1_000_000
CHANGED: Final = 0.01
CHECKPOINTS: Final = 12
RECORDS: Final = 1_000_000
INTERVAL_MS: Final = 500
PAUSE_SECONDS: Final = 0.001
NONE: Final = "no_checkpoints"
MODES: Final[dict[str, dict[str, Any]]] = {
    NONE: {},
    "aligned": {},
    "unaligned": {"execution.checkpointing.unaligned.enabled": True},
    "at_least_once": {"execution.checkpointing.mode": "AT_LEAST_ONCE"},
}


class CopyingStorage(LocalCheckpointStorage):
    """Behaves like a directory on another disk than the databases: files are copied, not linked."""

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        self.write(path, Path(source).read_bytes())


class Costs(NamedTuple):
    """Bytes stored and seconds taken by each checkpoint after the first."""

    lengths: list[int]
    seconds: list[float]


def measure(
    keys: int = KEYS,
    checkpoints: int = CHECKPOINTS,
    records: int = RECORDS,
    backends: Sequence[str] = ("hashmap", "rocksdb"),
) -> Measurement:
    """Return what full and incremental checkpoints cost, and the longest gaps of each mode."""
    figures: dict[str, float] = {"keys": keys, "changed_keys": round(keys * CHANGED), "records": records}
    floors: dict[str, float] = {}
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        full = _costs(folder, keys, checkpoints, incremental=False)
        changed = _costs(folder, keys, checkpoints, incremental=True)
    floors["checkpoint_bytes"] = round(mean(full.lengths))
    floors["checkpoint_seconds"] = mean(full.seconds)
    figures["checkpoint_bytes"] = round(mean(changed.lengths))
    figures["checkpoint_bytes_most"] = max(changed.lengths)
    figures["checkpoint_bytes_share"] = round(mean(changed.lengths) / mean(full.lengths), 4)
    figures["checkpoint_seconds"] = mean(changed.seconds)
    ratios["checkpoint_bytes"] = round(mean(full.lengths) / mean(changed.lengths), 2)
    ratios["checkpoint_seconds"] = round(mean(full.seconds) / mean(changed.seconds), 2)
    for backend in backends:
        for mode in MODES:
            for is_slow in (False, True):
                # Unaligned barriers overtake only where records are in the way.
                if is_slow != (mode == "unaligned") and mode != NONE:
                    continue
                name = f"{backend}_{mode}_longest_gap_seconds{'_under_backpressure' if is_slow else ''}"
                gap = longest_gap(backend, mode, keys, records, is_slow)
                (floors if mode == NONE else figures)[name] = gap
    return Measurement("checkpoint", figures, floors, ratios, machine_text())


# What is stored.


def _costs(folder: str, keys: int, checkpoints: int, incremental: bool) -> Costs:
    """Return the costs of checkpoints between which a fixed share of the state changes."""
    storage = CopyingStorage(Path(folder, "checkpoints"))
    settings = StateBackendSettings("rocksdb", folder, incremental=incremental)
    backend = RocksDBStateBackend(MAX_PARALLELISM, (0, MAX_PARALLELISM - 1), Types.LONG(), None, settings)
    registry = SharedStateRegistry()
    fill(backend, range(keys))
    changes: dict[int, int] = {}
    draw = Random(1).random
    lengths: list[int] = []
    seconds: list[float] = []
    handle: StateHandle | None = None
    for checkpoint_id in range(1, checkpoints + 2):
        started = time.perf_counter()
        taken = TaskSnapshot({OPERATOR: OperatorSnapshot(backend.snapshot(checkpoint_id))})
        handle = store_snapshot(storage, f"chk-{checkpoint_id}/task", taken)
        seconds.append(time.perf_counter() - started)
        lengths.append(handle.stored_length)
        registry.register_all(checkpoint_id, handle)
        handle = replace(
            handle, files=tuple(map(registry.placed, handle.files)) if incremental else handle.files
        )
        registry.confirm(handle)
        for path in registry.unregister_unused(checkpoint_id):
            storage.delete(path)
        backend.notify_checkpoint_complete(checkpoint_id)
        if checkpoint_id <= checkpoints:
            chosen = [int(draw() * keys) for _ in range(max(1, round(keys * CHANGED)))]
            fill(backend, chosen, checkpoint_id)
            changes.update(dict.fromkeys(chosen, checkpoint_id))
    backend.close()
    assert handle is not None
    restored = RocksDBStateBackend(MAX_PARALLELISM, (0, MAX_PARALLELISM - 1), Types.LONG(), None, settings)
    restore(restored, storage, handle)
    state = restored.value_state(VALUE)
    for key, change in changes.items():
        restored.current_key = key
        if state.value() != key + change:
            raise WrongState(f"key {key} was restored with {state.value()} instead of {key + change}")
    restored.close()
    shutil.rmtree(storage.root)
    return Costs(lengths[1:], seconds[1:])


# How long records wait.


class Stopwatch(KeyedProcessFunction):
    """Counts the records of each key, and notes the longest time between two records."""

    longest = 0.0
    last = 0.0

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        Stopwatch.longest, Stopwatch.last = 0.0, time.perf_counter()

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> tuple[int]:
        """Count a record and note the time since the one before."""
        self._count.update((self._count.value() or 0) + 1)
        now = time.perf_counter()
        gap = now - Stopwatch.last
        if gap > Stopwatch.longest:
            Stopwatch.longest = gap
        Stopwatch.last = now
        return (value,)


class Slow(MapFunction):
    """Waits for a moment at every thousandth record."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._seen = 0

    def map(self, value: int) -> int:
        self._seen += 1
        if self._pause_seconds and self._seen % 1000 == 0:
            time.sleep(self._pause_seconds)
        return value


class Keys(PoolSource):
    """Gives every key once, so that all have state; then random ones."""

    def __init__(self, records: int, keys: int) -> None:
        super().__init__(records, keys)
        every: list[Record] = [(key, None) for key in range(keys)]
        self.pool = every + self.pool


def longest_gap(backend: str, mode: str, keys: int, records: int, is_slow: bool) -> float:
    """Return the longest time between two records of a job after its first checkpoint, in seconds."""
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        options: dict[str, Any] = {
            "state.backend.type": backend,
            "state.backend.rocksdb.localdir": folder,
            "pipeline.channel-buffers": 2,
            **MODES[mode],
        }
        if mode != NONE:
            options["execution.checkpointing.interval"] = f"{INTERVAL_MS} ms"
            options["execution.checkpointing.dir"] = str(Path(folder, "checkpoints"))
            if backend == "rocksdb":
                options["execution.checkpointing.incremental"] = True
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
        source = env.from_source(Keys(records + keys, keys), None, "keys").uid("keys")
        counted = source.key_by(lambda key: key, Types.LONG()).process(Stopwatch()).name("count").uid("count")
        counted.rebalance().map(Slow(PAUSE_SECONDS if is_slow else 0.0)).name("slow").uid("slow")
        result = env.execute("bench checkpoint")
        if mode != NONE and not result.checkpoints:
            raise WrongState(f"{backend}, {mode}: no checkpoint was taken")
        return Stopwatch.longest
