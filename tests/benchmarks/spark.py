"""How many records a second the engine counts on Spark, exactly once, and what an epoch costs by itself.

The rules this module lives by:

- The case: a keyed count with the user's function over ValueState, two subtasks, an exactly-once file sink, a
  checkpoint every half of the records. Every count is written, so as many rows come out as records went in.
- The same count in bundles writes the last count of each key and epoch. That is what groupBy.count gives, so
  both stand beside each other; the ratio of groupBy.count to the job that writes every count is given, too.
- The floor is a bare shuffle of the same buffers of the same records, counted in a dict: nothing is kept,
  nothing written. The peers are Spark's own ways to count a stream (spark_peers.py).
- All run on the same two cores of the same Spark and take turns, after each has run once to warm up. Wall
  time is measured, for the work is done in other processes. The best round counts, since other work on the
  machine only adds; the median stands beside it.
- A peer that goes to Java for each key of each batch takes minutes over many keys: there it has one round.
- The same count by 64 subtasks on the two cores, over the fewest keys, shows what a subtask costs by itself.
- What was written is read back before the figures are given.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from pyspark import Broadcast
from pyspark.sql import SparkSession

from onceproof.engine.elements import Record
from onceproof.engine.runtime.spark.target import execute_on_spark
from onceproof.engine.runtime.spark_session import spark_session
from onceproof.harness.reporting.report_builder import machine_text
from tests.benchmarks.local import PARALLELISM, PoolReader, PoolSource, WrongCount, check_counts
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.spark_epochs import (
    BUFFER_RECORDS,
    FEW_KEYS,
    LATER_EPOCHS,
    MANY_KEYS,
    counting_graph,
    state_epoch_seconds,
)
from tests.benchmarks.spark_peers import BATCHES, PEERS, peer_seconds

RECORDS: Final = 1_000_000
LARGE_RECORDS: Final = 5_000_000
KEYS: Final = (1_000, 100_000)
STATES: Final = (FEW_KEYS, MANY_KEYS)
"""Keys of the state beside which an epoch is timed."""
ROUNDS: Final = 3
EPOCHS: Final = BATCHES
MANY_SUBTASKS: Final = 64
"""So many subtasks count on the two cores, beside the two of all other figures."""
MOST_KEYS_IN_ROUNDS: Final = 10_000
"""Beyond, peers have one round."""
SMALL_EPOCHS: Final = 20
RECORDS_PER_SMALL_EPOCH: Final = 100


class Rounds:
    """The seconds of each round, by program."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def add(self, name: str, seconds: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)

    def best(self, name: str) -> float:
        """Return the shortest round of a program."""
        return min(self.seconds[name])

    def usual(self, name: str) -> float:
        """Return the median round of a program."""
        return median(self.seconds[name])


def measure(
    records: int = RECORDS,
    keys: Sequence[int] = KEYS,
    rounds: int = ROUNDS,
    small_epochs: int = SMALL_EPOCHS,
    states: Sequence[int] = STATES,
    state_epochs: int = LATER_EPOCHS,
    session: SparkSession | None = None,
    *,
    warms_up: bool = True,
    large: bool = False,
) -> Measurement:
    """Return the records a second of the engine, the floor and the peers, and the milliseconds of epochs.

    Args:
        session: the Spark session; None starts one.
        warms_up: whether each program runs once before it is measured.
        large: whether to count LARGE_RECORDS instead of ``records``.
    """
    if session is None:
        with spark_session() as started:
            return measure(
                records,
                keys,
                rounds,
                small_epochs,
                states,
                state_epochs,
                started,
                warms_up=warms_up,
                large=large,
            )
    counted = LARGE_RECORDS if large else records
    figures: dict[str, float] = {"records": counted, "epochs": EPOCHS}
    floors: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for number in keys:
        took = _rounds(session, PoolSource(counted, number), number, rounds, warms_up)
        name = f"records_per_second_{number}_keys"
        figures[name] = round(counted / took.best(OURS))
        figures[f"{name}_median"] = round(counted / took.usual(OURS))
        figures[f"bundled_{name}"] = round(counted / took.best(BUNDLED))
        figures[f"bundled_{name}_median"] = round(counted / took.usual(BUNDLED))
        floors[name] = round(counted / took.best(FLOOR))
        floors[f"{name}_median"] = round(counted / took.usual(FLOOR))
        ratios[name] = round(took.best(FLOOR) / took.best(OURS), 3)
        for peer in PEERS:
            floors[f"{peer}_{number}_keys"] = round(counted / took.best(peer))
            ratios[f"{peer}_{number}_keys"] = round(took.best(peer) / took.best(OURS), 3)
        for peer in [peer for peer, how in PEERS.items() if not how.gives_all]:
            ratios[f"bundled_{peer}_{number}_keys"] = round(took.best(peer) / took.best(BUNDLED), 3)
    source, few = PoolSource(counted, min(keys)), f"records_per_second_{min(keys)}_keys"
    many = counted / min([_engine_seconds(session, source, subtasks=MANY_SUBTASKS) for _ in range(rounds)])
    figures[f"{few}_{MANY_SUBTASKS}_subtasks"] = round(many)
    ratios[f"{few}_{MANY_SUBTASKS}_subtasks_against_{PARALLELISM}"] = round(many / figures[few], 3)
    took = Rounds()
    for _ in range(rounds):
        took.add(OURS, _epoch_seconds(session, small_epochs))
        took.add(FLOOR, _job_seconds(session, small_epochs))
    figures["epoch_ms"] = round(1000 * took.best(OURS), 1)
    floors["epoch_ms"] = round(1000 * took.best(FLOOR), 1)
    ratios["epoch_ms"] = round(took.best(FLOOR) / took.best(OURS), 3)
    seconds = [state_epoch_seconds(session, number, min(states), state_epochs) for number in states]
    for number, each in zip(states, seconds, strict=True):
        figures[f"epoch_ms_beside_{number}_keys"] = round(1000 * each, 1)
    ratios["epoch_ms_few_keys_against_many"] = round(seconds[0] / seconds[-1], 3)
    return Measurement("spark", figures, floors, ratios, machine_text())


OURS: Final = "engine"
BUNDLED: Final = "engine in bundles"
FLOOR: Final = "floor"


def _rounds(session: SparkSession, source: PoolSource, keys: int, rounds: int, warms_up: bool) -> Rounds:
    """Run the engine, the floor and the peers in turn."""
    took = Rounds()
    pool = session.sparkContext.broadcast(source.pool)
    if warms_up:
        # The JVM compiles its code, and the workers start.
        small = PoolSource(source.records // 10, keys // 10)
        _engine_seconds(session, small)
        _engine_seconds(session, small, in_bundles=True)
        _floor_seconds(session, small, session.sparkContext.broadcast(small.pool))
        for peer in PEERS:
            peer_seconds(session, small, peer)
    for number in range(rounds):
        took.add(OURS, _engine_seconds(session, source))
        took.add(BUNDLED, _engine_seconds(session, source, in_bundles=True))
        took.add(FLOOR, _floor_seconds(session, source, pool))
        if number == 0 or keys <= MOST_KEYS_IN_ROUNDS:
            for peer in PEERS:
                took.add(peer, peer_seconds(session, source, peer))
    return took


# The engine


def _engine_seconds(
    session: SparkSession, source: PoolSource, *, in_bundles: bool = False, subtasks: int = PARALLELISM
) -> float:
    options = {"parallelism.default": subtasks}
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        graph = counting_graph(source, folder, -(-source.records // EPOCHS), options, in_bundles=in_bundles)
        begun = time.perf_counter()
        result = execute_on_spark(graph, session)
        seconds = time.perf_counter() - begun
        if result.checkpoints != EPOCHS:
            raise WrongCount(f"the job took {result.checkpoints} epochs, not {EPOCHS}")
        check_counts(Path(folder, "output"), source, every=not in_bundles)
    return seconds


def _epoch_seconds(session: SparkSession, epochs: int) -> float:
    """Return the seconds of an epoch of RECORDS_PER_SMALL_EPOCH records."""
    source = PoolSource(epochs * RECORDS_PER_SMALL_EPOCH, RECORDS_PER_SMALL_EPOCH)
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        graph = counting_graph(source, folder, RECORDS_PER_SMALL_EPOCH)
        begun = time.perf_counter()
        result = execute_on_spark(graph, session)
        return (time.perf_counter() - begun) / result.checkpoints


# The floor


class _Share:
    """Yields a share of the records in buffers, each for the partition of its keys."""

    def __init__(self, pool: Broadcast[list[Record]], records: int) -> None:
        self._pool = pool
        self._end = records // PARALLELISM

    def __call__(self, partition: int, nothing: Iterable[Any]) -> Iterator[tuple[int, list[Record]]]:
        """Yield (partition, buffer)."""
        reader = PoolReader(self._pool.value, 0, self._end)
        while batch := reader.read(BUFFER_RECORDS):
            buffers: list[list[Record]] = [[] for _ in range(PARALLELISM)]
            for record in batch:
                buffers[record[0] % PARALLELISM].append(record)
            yield from enumerate(buffers)


def _count(partition: int, buffers: Iterable[tuple[int, list[Record]]]) -> Iterator[int]:
    """Build a row of each record; yield their number."""
    counts: dict[int, int] = {}
    made = 0
    for _, buffer in buffers:
        rows = []
        for key, _ in buffer:
            count = counts[key] = counts.get(key, 0) + 1
            rows.append((key, count))
        made += len(rows)
    yield made


def _itself(partition: int) -> int:
    return partition


def _floor_seconds(session: SparkSession, source: PoolSource, pool: Broadcast[list[Record]]) -> float:
    begun = time.perf_counter()
    shares = session.sparkContext.parallelize(range(PARALLELISM), PARALLELISM).mapPartitionsWithIndex(
        _Share(pool, source.records)
    )
    made = sum(shares.partitionBy(PARALLELISM, _itself).mapPartitionsWithIndex(_count).collect())
    seconds = time.perf_counter() - begun
    if made != source.records // PARALLELISM * PARALLELISM:
        raise WrongCount(f"the bare shuffle made {made:,} rows of {source.records:,} records")
    return seconds


def _job_seconds(session: SparkSession, jobs: int) -> float:
    """Return the seconds of a Spark job of two stages over RECORDS_PER_SMALL_EPOCH records."""
    source = PoolSource(RECORDS_PER_SMALL_EPOCH, RECORDS_PER_SMALL_EPOCH)
    pool = session.sparkContext.broadcast(source.pool)
    return sum(_floor_seconds(session, source, pool) for _ in range(jobs)) / jobs
