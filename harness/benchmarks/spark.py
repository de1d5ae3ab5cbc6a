"""How many records a second the engine counts on Spark, exactly once, and what an epoch costs by itself.

The rules this module lives by:

- The case: a keyed count with the user's function over ValueState, two subtasks, an exactly-once file sink, a
  checkpoint every half of the records. Every count is written, so as many rows come out as records went in.
- The floor is a bare shuffle of the same buffers of the same records, counted in a dict: nothing is kept,
  nothing written. The peer is Spark's own way to keep state in Python, transformWithState in pandas over
  RocksDB, with as many batches as we have epochs, from Parquet into exactly-once CSV files.
- All three run on the same two cores of the same Spark and take turns, after each has run once to warm up.
  Wall time is measured, for the work is done in other processes. The best round counts, since other work on
  the machine only adds; the median stands beside it.
- The peer goes to Java for each key of each batch. With many keys it takes most of the time of the benchmark,
  so there it has one round.
- What was written is read back before the figures are given.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from pyspark import Broadcast
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from engine.configuration import Configuration
from engine.connectors.encoders import Encoder
from engine.connectors.file_sink import FileSink
from engine.elements import Record
from engine.environment import StreamExecutionEnvironment
from engine.graph import JobGraph
from engine.runtime.spark.driver import execute_on_spark
from engine.runtime.spark_session import spark_session
from engine.types import Types
from harness.benchmarks.local import PARALLELISM, Count, PoolReader, PoolSource, WrongCount, check_counts
from harness.benchmarks.measurement import Measurement
from harness.reporting import machine_text

RECORDS: Final = 1_000_000
KEYS: Final = (1_000, 100_000)
ROUNDS: Final = 3
EPOCHS: Final = 2
MANY_KEYS: Final = 10_000
"""From here on the peer has one round."""
SMALL_EPOCHS: Final = 20
RECORDS_PER_SMALL_EPOCH: Final = 100
BUFFER_RECORDS: Final = 1_000

_STREAMING: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.shuffle.partitions": str(PARALLELISM),
}


def measure(
    records: int = RECORDS,
    keys: Sequence[int] = KEYS,
    rounds: int = ROUNDS,
    small_epochs: int = SMALL_EPOCHS,
    session: SparkSession | None = None,
    *,
    warms_up: bool = True,
) -> Measurement:
    """Return the records a second of the engine, the floor and the peer, and the milliseconds of an epoch.

    Without a session one is started. Without a warm-up the figures are those of a cold Java.
    """
    if session is None:
        with spark_session() as started:
            return measure(records, keys, rounds, small_epochs, started, warms_up=warms_up)
    figures: dict[str, float] = {"records": records, "epochs": EPOCHS}
    floors: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for number in keys:
        source = PoolSource(records, number)
        ours, floor, peer = _rounds(session, source, number, rounds, warms_up)
        name, against_peer = f"records_per_second_{number}_keys", f"transform_with_state_{number}_keys"
        figures[name] = round(records / min(ours))
        figures[f"{name}_median"] = round(records / median(ours))
        floors[name] = round(records / min(floor))
        floors[f"{name}_median"] = round(records / median(floor))
        floors[against_peer] = round(records / min(peer))
        ratios[name] = round(min(floor) / min(ours), 3)
        ratios[against_peer] = round(min(peer) / min(ours), 3)
    epochs, jobs = [], []
    for _ in range(rounds):
        epochs.append(_epoch_seconds(session, small_epochs))
        jobs.append(_job_seconds(session, small_epochs))
    figures["epoch_ms"] = round(1000 * min(epochs), 1)
    floors["epoch_ms"] = round(1000 * min(jobs), 1)
    ratios["epoch_ms"] = round(min(jobs) / min(epochs), 3)
    return Measurement("spark", figures, floors, ratios, machine_text())


def _rounds(
    session: SparkSession, source: PoolSource, keys: int, rounds: int, warms_up: bool
) -> tuple[list[float], list[float], list[float]]:
    """Return the seconds of each round: of the engine, the floor and the peer."""
    ours: list[float] = []
    floor: list[float] = []
    peer: list[float] = []
    pool = session.sparkContext.broadcast(source.pool)
    if warms_up:
        # Java compiles what it will need, and workers start.
        small = PoolSource(source.records // 10, keys // 10)
        _engine_seconds(session, small)
        _floor_seconds(session, small, session.sparkContext.broadcast(small.pool))
        _peer_seconds(session, small)
    for number in range(rounds):
        ours.append(_engine_seconds(session, source))
        floor.append(_floor_seconds(session, source, pool))
        if number == 0 or keys < MANY_KEYS:
            peer.append(_peer_seconds(session, source))
    return ours, floor, peer


# The engine


def _graph(source: PoolSource, folder: str, interval_records: int) -> JobGraph:
    options = {
        "execution.checkpointing.interval-records": interval_records,
        "execution.checkpointing.dir": str(Path(folder, "checkpoints")),
        "parallelism.default": PARALLELISM,
        "pipeline.buffer-records": BUFFER_RECORDS,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    keys = env.from_source(source, None, "source").uid("source")
    counts = keys.key_by(lambda key: key, Types.LONG()).process(Count()).name("count").uid("count")
    sink = FileSink.for_row_format(str(Path(folder, "output")), Encoder.csv_encoder()).build()
    counts.sink_to(sink).name("sink").uid("sink")
    return env.get_job_graph("bench spark")


def _engine_seconds(session: SparkSession, source: PoolSource) -> float:
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        graph = _graph(source, folder, -(-source.records // EPOCHS))
        begun = time.perf_counter()
        result = execute_on_spark(graph, session)
        seconds = time.perf_counter() - begun
        if result.checkpoints != EPOCHS:
            raise WrongCount(f"the job took {result.checkpoints} epochs, not {EPOCHS}")
        check_counts(Path(folder, "output"), source)
    return seconds


def _epoch_seconds(session: SparkSession, epochs: int) -> float:
    """Return how long an epoch takes that has next to nothing to do."""
    source = PoolSource(epochs * RECORDS_PER_SMALL_EPOCH, RECORDS_PER_SMALL_EPOCH)
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        graph = _graph(source, folder, RECORDS_PER_SMALL_EPOCH)
        begun = time.perf_counter()
        result = execute_on_spark(graph, session)
        return (time.perf_counter() - begun) / result.checkpoints


# The floor


class _Share:
    """Gives a share of the records in buffers, each to the partition of its keys."""

    def __init__(self, pool: Broadcast[list[Record]], records: int) -> None:
        self._pool = pool
        self._end = records // PARALLELISM

    def __call__(self, partition: int, nothing: Iterable[Any]) -> Iterator[tuple[int, list[Record]]]:
        """Give (partition, buffer)."""
        reader = PoolReader(self._pool.value, 0, self._end)
        while batch := reader.read(BUFFER_RECORDS):
            buffers: list[list[Record]] = [[] for _ in range(PARALLELISM)]
            for record in batch:
                buffers[record[0] % PARALLELISM].append(record)
            yield from enumerate(buffers)


def _count(partition: int, buffers: Iterable[tuple[int, list[Record]]]) -> Iterator[int]:
    """Make a row of each record; give how many there are."""
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
    """Return how long a Spark job of two stages takes that has next to nothing to do."""
    source = PoolSource(RECORDS_PER_SMALL_EPOCH, RECORDS_PER_SMALL_EPOCH)
    pool = session.sparkContext.broadcast(source.pool)
    return sum(_floor_seconds(session, source, pool) for _ in range(jobs)) / jobs


# The peer


class CountingProcessor(StatefulProcessor):
    """Counts the records of a key, for transformWithStateInPandas."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Bind the state."""
        self._count = handle.getValueState("count", "count BIGINT")

    def handleInputRows(  # type: ignore[override]  # noqa: N802 (the name is Spark's, the type is ours)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Give each record its number."""
        found = self._count.get()
        count = 0 if found is None else int(found[0])
        for batch in rows:
            after = count + len(batch)
            yield pd.DataFrame({"key": np.full(len(batch), key[0]), "count": np.arange(count + 1, after + 1)})
            count = after
        self._count.update((count,))

    def close(self) -> None:
        """Hold nothing."""


def _peer_seconds(session: SparkSession, source: PoolSource) -> float:
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        given, output = Path(folder, "input"), str(Path(folder, "output"))
        _write_keys(source, given)
        for option, value in _STREAMING.items():
            session.conf.set(option, value)
        begun = time.perf_counter()
        keys = session.readStream.schema("key BIGINT").option("maxFilesPerTrigger", PARALLELISM)
        counts = (
            keys.parquet(str(given))
            .groupBy("key")
            .transformWithStateInPandas(CountingProcessor(), "key BIGINT, count BIGINT", "Append", "None")
        )
        query = (
            counts.writeStream.format("csv")
            .option("checkpointLocation", str(Path(folder, "checkpoints")))
            .trigger(availableNow=True)
            .outputMode("append")
            .start(output)
        )
        query.awaitTermination()
        seconds = time.perf_counter() - begun
        _check_peer(session, output, source)
    return seconds


def _write_keys(source: PoolSource, folder: Path) -> None:
    """Write the records as Parquet, a file for each batch and subtask."""
    folder.mkdir()
    parts = EPOCHS * PARALLELISM
    reader = PoolReader(source.pool, 0, source.records)
    for part in range(parts):
        left = source.records * (part + 1) // parts - reader.position
        keys: list[int] = []
        while left > len(keys):
            keys += [key for key, _ in reader.read(left - len(keys))]
        parquet.write_table(pa.table({"key": pa.array(keys, pa.int64())}), folder / f"{part}.parquet")


def _check_peer(session: SparkSession, output: str, source: PoolSource) -> None:
    """Raise WrongCount unless every key was counted from one to the last, each number once."""
    rows = session.read.schema("key BIGINT, count BIGINT").csv(output)
    rows.createOrReplaceTempView("counted")
    [(written, wrong)] = session.sql(
        """
        SELECT coalesce(sum(made), 0), count_if(made <> numbers OR made <> last)
        FROM (
          SELECT count(*) AS made, count(DISTINCT count) AS numbers, max(count) AS last
          FROM counted GROUP BY key
        )
        """
    ).collect()
    if wrong or written != source.records:
        raise WrongCount(f"transformWithState wrote {written:,} rows of {source.records:,} records")
