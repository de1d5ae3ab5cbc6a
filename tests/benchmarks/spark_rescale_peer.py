"""The same rescales by Structured Streaming: a query ends, its state is repartitioned, the query restarts.

The rules this module lives by:

- The query is Spark's own count by key over RocksDB, in update mode: the smallest state that a count can
  have, all of it in Java. A function in Python would be called for each of a million keys.
- The state is repartitioned by ``_streamingCheckpointManager.repartition``, the one way that Spark 4.3 has.
  It is private, and reads no input; the next batch has the records of the step, and writes its rows.
- After each step the state is read by Spark's own state reader: the number of keys, the number of partitions,
  and the sums of the counts, plain and weighted by the keys, must be right.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from tests.benchmarks.local import PARALLELISM, WrongCount
from tests.benchmarks.spark_epochs import EveryKeyFirst
from tests.benchmarks.spark_peers import PEERS, STREAMING, replacing

STEPS: Final[Mapping[str, int]] = {"same": 2, "2_to_4": 4, "4_to_2": 2}
"""By name in the figures, in order: the parallelism with which a job of two subtasks is restored."""

_PEER: Final = "group_by_count"


class StepTaken(NamedTuple):
    """Seconds and bytes of one step."""

    seconds: float
    """From the moment when nothing runs to the first written rows."""
    bytes: int
    """Bytes of the files that the step has added to the state on disk."""
    offline_seconds: float = 0.0
    """The part of it that repartitioning took, where that is a separate operation."""


def peer_steps(session: SparkSession, source: EveryKeyFirst) -> dict[str, StepTaken]:
    """Take all steps; WrongCount where the state is wrong afterwards."""
    records = (source.records - 2 * source.keys) // len(STEPS)
    given = Given()
    taken: dict[str, StepTaken] = {}
    for option, value in STREAMING.items():
        session.conf.set(option, value)
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as name:
        folder = Path(name)
        inputs = _inputs(source, [source.keys, *[records] * len(STEPS)], folder / "input", given)
        next(inputs)
        _run_query(session, folder)
        parallelism = PARALLELISM
        for step, wanted in STEPS.items():
            next(inputs)
            new = NewFiles(folder / "checkpoints" / "state")
            begun = dealt = time.perf_counter()
            if wanted != parallelism:
                session._streamingCheckpointManager.repartition(str(folder / "checkpoints"), wanted)
                dealt = time.perf_counter()
            _run_query(session, folder)
            taken[step] = StepTaken(time.perf_counter() - begun, new.bytes(), dealt - begun)
            parallelism = wanted
            check_state(session, folder / "checkpoints", source.keys, parallelism, given)
    return taken


class Given:
    """The number of records and sums that the counts must add up to."""

    def __init__(self) -> None:
        self.records = 0
        self.weighed = 0
        """The sum of the keys of all records."""

    def add(self, keys: list[int]) -> None:
        """Add the records of these keys."""
        self.records += len(keys)
        self.weighed += sum(keys)


def _inputs(source: EveryKeyFirst, sizes: list[int], folder: Path, given: Given) -> Iterator[None]:
    """Write the records of one step after the other, a file for each subtask of the source."""
    folder.mkdir()
    readers = [source.open_split(split, None) for split in source.splits()]
    for step, size in enumerate(sizes):
        for share, reader in enumerate(readers):
            keys = [key for key, _ in reader.read(size // len(readers))]
            given.add(keys)
            parquet.write_table(
                pa.table({"key": pa.array(keys, pa.int64())}), folder / f"{step}-{share}.parquet"
            )
        yield


def _run_query(session: SparkSession, folder: Path) -> None:
    """Run the query over the available records, in one batch, and end it."""
    keys = session.readStream.schema("key BIGINT").parquet(str(folder / "input"))
    writer = PEERS[_PEER].counts(keys).writeStream.option("checkpointLocation", str(folder / "checkpoints"))
    store: Callable[[DataFrame, int], None] = replacing(folder / "output")
    query = writer.trigger(availableNow=True).outputMode("update").foreachBatch(store).start()
    query.awaitTermination()


def check_state(session: SparkSession, checkpoints: Path, keys: int, parallelism: int, given: Given) -> None:
    """Raise WrongCount unless the state in a checkpoint location is that of the records that were given."""
    state = session.read.format("statestore").load(str(checkpoints))
    [found] = state.selectExpr(
        "count(*)",
        "count(DISTINCT partition_id)",
        "sum(value.count)",
        "sum(value.count * key.key)",
    ).collect()
    wanted = (keys, parallelism, given.records, given.weighed)
    if tuple(found) != wanted:
        raise WrongCount(
            f"at parallelism {parallelism} Structured Streaming has (keys, partitions, records, weighed) ="
            f" {tuple(found)}, not {wanted}"
        )


class NewFiles:
    """The files below a folder that have appeared since it was created."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = frozenset(self._files())

    def bytes(self) -> int:
        """Return the bytes of the new files."""
        return sum(path.stat().st_size for path in self._files() if path not in self._before)

    def _files(self) -> Iterator[Path]:
        return (path for path in self._folder.rglob("*") if path.is_file())
