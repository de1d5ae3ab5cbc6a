"""The cost of an access to keyed state on each backend, beside a bare dict and a bare database.

The rules this module lives by:

- An access is what an operator does for a record: set the current key, call the state. The floors do the same
  to a dict, and to a database of rocksdict with the same settings whose keys and values are bytes already.
  Iterating is measured over maps of a hundred entries each.
- A snapshot is measured to the last file on disk, a restore from there until a key of each key group has
  returned its state. Beside both stands the whole table as one msgpack file: encoded, written and
  synchronised; read and decoded.
- A second snapshot follows when all values have changed, but no key: what a backend knows of its keys by then
  it need not find out again.
- CPU seconds of this process, all threads of it; backend and floor take turns, and the best round counts.
  Snapshots and restores are measured in wall seconds, because they wait for the disk, and in CPU seconds,
  because a busy machine has them wait for more. The CPU floor is msgpack alone, without a file.
- Every read is compared with what was written; a difference is an error instead of a figure.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from onceproof.engine.checkpoint.metadata import StateHandle
from onceproof.engine.checkpoint.snapshot_files import store_snapshot
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.key_groups import key_group_of
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.engine.state.descriptors import MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.state.rocksdb.database import Database
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot, decode_task_snapshot
from onceproof.engine.state.stored import NativePart
from onceproof.engine.types import Types
from onceproof.harness.reporting.report_builder import machine_text
from tests.benchmarks.large_state import measure_large_state
from tests.benchmarks.measurement import Measurement

ACCESSES: Final = 400_000
KEYS: Final = (1_000, 100_000)
"""A table that fits into the processor's caches, where a dict is quickest; and one that does not."""
MAP_ENTRIES: Final = 100
SNAPSHOT_KEYS: Final = 1_000_000
ROUNDS: Final = 3
MAX_PARALLELISM: Final = 128
OPERATOR: Final = "state-bench"
BACKENDS: Final = {"hashmap": HashMapStateBackend, "rocksdb": RocksDBStateBackend}
VALUE: Final = ValueStateDescriptor("value", Types.LONG())
MAP: Final = MapStateDescriptor("map", Types.LONG(), Types.LONG())


_CPU_FLOORS: Final = {"snapshot": "encode", "second_snapshot": "encode", "restore": "decode"}
"""What msgpack does of what a step does."""


class WrongState(Exception):
    """A state did not return what was written to it; the message is one line."""


def measure(
    accesses: int = ACCESSES,
    keys: Sequence[int] = KEYS,
    snapshot_keys: int = SNAPSHOT_KEYS,
    rounds: int = ROUNDS,
    large: bool = False,
) -> Measurement:
    """Return accesses a second of each backend and its floor, and the figures of snapshots and restores.

    ``large`` adds a state of gigabytes in a process of its own, and its peak memory.
    """
    figures: dict[str, float] = {"accesses": accesses, "snapshot_keys": snapshot_keys}
    floors: dict[str, float] = {}
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        for name, number in product(BACKENDS, keys):
            for access, (ours, bare) in _access_seconds(name, folder, accesses, number, rounds).items():
                metric = f"{name}_{access}_per_second_{number}_keys"
                figures[metric] = round(accesses / ours)
                floors[metric] = round(accesses / bare)
                ratios[metric] = round(bare / ours, 3)
        floors |= _file_figures(folder, snapshot_keys)
        for name in BACKENDS:
            found = _snapshot_figures(name, folder, snapshot_keys)
            figures |= found
            for step in ("snapshot", "restore"):
                ours_seconds, floor_seconds = found[f"{name}_{step}_seconds"], floors[f"file_{step}_seconds"]
                ratios[f"{name}_{step}"] = round(floor_seconds / ours_seconds, 3)
            for step, floor in _CPU_FLOORS.items():
                metric = f"{name}_{step}_cpu"
                ratios[metric] = round(floors[f"msgpack_{floor}_cpu_seconds"] / found[f"{metric}_seconds"], 3)
    if large:
        figures |= measure_large_state()
    return Measurement("state", figures, floors, ratios, machine_text())


@contextmanager
def opened(name: str, folder: str) -> Iterator[KeyedStateBackend]:
    """Yield a backend over all key groups, whose databases lie below a folder; close it in the end."""
    backend = made(name, folder)
    try:
        yield backend
    finally:
        backend.close()


def made(name: str, folder: str) -> KeyedStateBackend:
    common = (MAX_PARALLELISM, (0, MAX_PARALLELISM - 1), Types.LONG(), None)
    if name == "hashmap":
        return HashMapStateBackend(*common)
    return RocksDBStateBackend(*common, StateBackendSettings("rocksdb", folder))


# Accesses.


def _access_seconds(
    name: str, folder: str, accesses: int, keys: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """Return the seconds of the backend and those of its floor, by kind of access."""
    draw = Random(1).random
    chosen = [int(draw() * keys) for _ in range(accesses)]
    maps = max(1, min(keys, accesses // MAP_ENTRIES))
    walk = [number % maps for number in range(accesses // MAP_ENTRIES)]
    bare: _BareDict | _BareDatabase = _BareDict() if name == "hashmap" else _BareDatabase(folder, chosen)
    with opened(name, folder) as backend:
        steps: dict[str, tuple[Callable[[], int], Callable[[], int], int]] = {
            "update": (lambda: _update(backend, chosen), lambda: bare.update(chosen), accesses),
            "get": (lambda: _get(backend, chosen), lambda: bare.get(chosen), accesses),
            "iterate": (lambda: _iterate(backend, walk), lambda: bare.iterate(walk), len(walk) * MAP_ENTRIES),
        }
        _fill_maps(backend, maps)
        bare.fill_maps(maps)
        found: dict[str, tuple[float, float]] = {}
        for access, (ours, floor, expected) in steps.items():
            seconds: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                for each, taken in zip((ours, floor), seconds, strict=True):
                    started = time.process_time()
                    done = each()
                    taken.append(time.process_time() - started)
                    if done != expected:
                        raise WrongState(f"{name}, {access}: {done:,} right answers of {expected:,}")
            found[access] = min(seconds[0]), min(seconds[1])
        bare.close()
    return found


def _update(backend: KeyedStateBackend, chosen: Sequence[int]) -> int:
    update = backend.value_state(VALUE).update
    for key in chosen:
        backend.current_key = key
        update(key)
    return len(chosen)


def _get(backend: KeyedStateBackend, chosen: Sequence[int]) -> int:
    value = backend.value_state(VALUE).value
    right = 0
    for key in chosen:
        backend.current_key = key
        if value() == key:
            right += 1
    return right


def _fill_maps(backend: KeyedStateBackend, maps: int) -> None:
    state = backend.map_state(MAP)
    for key in range(maps):
        backend.current_key = key
        state.put_all({number: number for number in range(MAP_ENTRIES)})


def _iterate(backend: KeyedStateBackend, walk: Sequence[int]) -> int:
    state = backend.map_state(MAP)
    right = 0
    for key in walk:
        backend.current_key = key
        for number, value in state.items():
            if number == value:
                right += 1
    return right


class _BareDict:
    """The floor of the heap backend: the same accesses on dicts."""

    def __init__(self) -> None:
        self._values: dict[int, int] = {}
        self._maps: dict[int, dict[int, int]] = {}

    def update(self, chosen: Sequence[int]) -> int:
        values = self._values
        for key in chosen:
            values[key] = key
        return len(chosen)

    def get(self, chosen: Sequence[int]) -> int:
        value = self._values.get
        right = 0
        for key in chosen:
            if value(key) == key:
                right += 1
        return right

    def fill_maps(self, maps: int) -> None:
        for key in range(maps):
            self._maps[key] = {number: number for number in range(MAP_ENTRIES)}

    def iterate(self, walk: Sequence[int]) -> int:
        right = 0
        for key in walk:
            for number, value in self._maps[key].items():
                if number == value:
                    right += 1
        return right

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class _BareDatabase:
    """The floor of the database backend: the same accesses with ready-made bytes."""

    def __init__(self, folder: str, chosen: Sequence[int]) -> None:
        self._database = Database.fresh(StateBackendSettings("rocksdb", folder))
        self._bytes = {key: b"v" + key.to_bytes(8, "big") for key in chosen}

    def update(self, chosen: Sequence[int]) -> int:
        put, data = self._database.put, self._bytes
        for key in chosen:
            put(data[key], data[key])
        return len(chosen)

    def get(self, chosen: Sequence[int]) -> int:
        get, data = self._database.get, self._bytes
        right = 0
        for key in chosen:
            if get(data[key]) == data[key]:
                right += 1
        return right

    def fill_maps(self, maps: int) -> None:
        pack = int.to_bytes
        for key in range(maps):
            self._database.write(
                (b"m" + pack(key, 8, "big") + pack(number, 8, "big"), pack(number, 8, "big"))
                for number in range(MAP_ENTRIES)
            )

    def iterate(self, walk: Sequence[int]) -> int:
        pack = int.to_bytes
        right = 0
        for key in walk:
            for name, value in self._database.scan(b"m" + pack(key, 8, "big")):
                if name[9:] == value:
                    right += 1
        return right

    def close(self) -> None:
        self._database.close()


# Snapshots.


def _file_figures(folder: str, keys: int) -> dict[str, float]:
    """Return the figures of the whole table as one file."""
    table = {key: key for key in range(keys)}
    path = Path(folder, "table")
    started, began = time.perf_counter(), time.process_time()
    data = msgspec.msgpack.encode(table)
    encoded = time.process_time() - began
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    written = time.perf_counter()
    stored = path.read_bytes()
    began = time.process_time()
    found = msgspec.msgpack.decode(stored, type=dict[int, int])
    decoded = time.process_time() - began
    if len(found) != keys:
        raise WrongState("the file of the floor lacks keys")
    read = time.perf_counter()
    path.unlink()
    return {
        "file_snapshot_seconds": written - started,
        "file_restore_seconds": read - written,
        "file_snapshot_bytes": len(data),
        "msgpack_encode_cpu_seconds": encoded,
        "msgpack_decode_cpu_seconds": decoded,
    }


def _snapshot_figures(name: str, folder: str, keys: int) -> dict[str, float]:
    """Return the figures of two snapshots of ``keys`` keys and of a restore."""
    storage = LocalCheckpointStorage(Path(folder, f"checkpoints-{name}"))
    figures: dict[str, float] = {}
    with opened(name, folder) as backend:
        for number, step in enumerate(("snapshot", "second_snapshot"), start=1):
            fill(backend, range(keys), value=2 - number)
            started, began = time.perf_counter(), time.process_time()
            taken = backend.snapshot(number)
            isolated = time.perf_counter()
            snapshot = TaskSnapshot({OPERATOR: OperatorSnapshot(taken)})
            handle = store_snapshot(storage, f"chk-{number}/task", snapshot)
            figures |= {
                f"{name}_{step}_bytes": handle.total_length,
                f"{name}_{step}_blocking_seconds": isolated - started,
                f"{name}_{step}_seconds": time.perf_counter() - started,
                f"{name}_{step}_cpu_seconds": time.process_time() - began,
            }
    with opened(name, folder) as backend:
        started, began = time.perf_counter(), time.process_time()
        restore(backend, storage, handle)
        _check(backend, keys)
        figures[f"{name}_restore_seconds"] = time.perf_counter() - started
        figures[f"{name}_restore_cpu_seconds"] = time.process_time() - began
    return figures


def fill(backend: KeyedStateBackend, keys: Sequence[int], value: int = 0) -> None:
    """Set the state of each key to the key plus ``value``."""
    update = backend.value_state(VALUE).update
    for key in keys:
        backend.current_key = key
        update(key + value)


def restore(backend: KeyedStateBackend, storage: LocalCheckpointStorage, handle: StateHandle) -> None:
    """Restore a backend from a snapshot of one over the same key groups."""
    stored = decode_task_snapshot(storage.read(handle.path), handle.path, handle.sha256)[OPERATOR]
    native = []
    if stored.native is not None:
        files = {file.name: file for file in handle.files}
        native.append(NativePart(0, MAX_PARALLELISM - 1, handle.path, stored.native, files, storage.read))
    backend.restore(stored.keyed, native)


def _check(backend: KeyedStateBackend, keys: int) -> None:
    """Raise WrongState unless a key of each key group has its state."""
    state = backend.value_state(VALUE)
    seen: dict[int, Any] = {}
    for key in range(keys):
        seen.setdefault(key_group_of(key, MAX_PARALLELISM, Types.LONG()), key)
        if len(seen) == MAX_PARALLELISM:
            break
    for key in seen.values():
        backend.current_key = key
        if state.value() != key:
            raise WrongState(f"key {key} was restored with {state.value()}")
