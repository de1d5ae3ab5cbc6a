"""The same keyed count with Structured Streaming, from Parquet into exactly-once files.

The rules this module lives by:

- Each peer keeps its state in RocksDB and takes as many batches as the engine takes epochs. Peers with a
  Python function write every count, as the engine does; Spark's own aggregation writes only the last of each
  key and batch, which is less work.
- The output of a peer is read back before its time counts.
- Its files are exactly-once: the file sink where rows are appended, else a folder for each batch, which a
  repeated batch replaces.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.benchmarks.local import PARALLELISM, PoolReader, PoolSource, WrongCount

if TYPE_CHECKING:
    import pandas as pd

BATCHES: Final = 2
"""The number of batches, which is that of the engine's epochs."""

STREAMING: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.shuffle.partitions": str(PARALLELISM),
}
"""Options of the session under which peers run."""

_COUNTED: Final = "key BIGINT, count BIGINT"


class CountingByRows(StatefulProcessor):
    """Counts the records of a key, for transformWithState."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count BIGINT")

    def handleInputRows(  # type: ignore[override]  # noqa: N802 (the name is Spark's, the type is ours)
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        """Number each record of a key."""
        found = self._count.get()
        count = 0 if found is None else int(found[0])
        for _ in rows:
            count += 1
            yield Row(key=key[0], count=count)
        self._count.update((count,))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class CountingByFrames(CountingByRows):
    """Counts the records of a key, for transformWithStateInPandas."""

    def handleInputRows(  # type: ignore[override]  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Number each record of a key."""
        found = self._count.get()
        count = 0 if found is None else int(found[0])
        for batch in rows:
            after = count + len(batch)
            yield _numbered(key[0], count, after)
            count = after
        self._count.update((count,))


def _count_frames(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Number each record of a key, for applyInPandasWithState."""
    count = int(state.get[0]) if state.exists else 0
    for frame in frames:
        after = count + len(frame)
        yield _numbered(key[0], count, after)
        count = after
    state.update((count,))


def _numbered(key: int, before: int, after: int) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    return pd.DataFrame({"key": np.full(after - before, key), "count": np.arange(before + 1, after + 1)})


class Peer(NamedTuple):
    """One API of Spark: from the keys to their counts, and whether it writes all counts or the last ones."""

    counts: Callable[[DataFrame], DataFrame]
    gives_all: bool = True


PEERS: Final[Mapping[str, Peer]] = {
    "transform_with_state": Peer(
        lambda keys: keys.groupBy("key").transformWithState(CountingByRows(), _COUNTED, "Append", "None")
    ),
    "transform_with_state_in_pandas": Peer(
        lambda keys: keys.groupBy("key").transformWithStateInPandas(
            CountingByFrames(), _COUNTED, "Append", "None"
        )
    ),
    "apply_in_pandas_with_state": Peer(
        lambda keys: keys.groupBy("key").applyInPandasWithState(
            _count_frames, _COUNTED, "count BIGINT", "append", GroupStateTimeout.NoTimeout
        )
    ),
    "group_by_count": Peer(lambda keys: keys.groupBy("key").count(), gives_all=False),
}
"""The peers by their names in the figures."""


def peer_seconds(session: SparkSession, source: PoolSource, name: str) -> float:
    """Return the seconds of a peer over the records of a source; WrongCount where it miscounts."""
    peer = PEERS[name]
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        given, output = Path(folder, "input"), Path(folder, "output")
        write_keys(source, given)
        for option, value in STREAMING.items():
            session.conf.set(option, value)
        begun = time.perf_counter()
        keys = session.readStream.schema("key BIGINT").option("maxFilesPerTrigger", PARALLELISM)
        counts = peer.counts(keys.parquet(str(given)))
        writer = counts.writeStream.option("checkpointLocation", str(Path(folder, "checkpoints")))
        writer = writer.trigger(availableNow=True)
        if peer.gives_all:
            query = writer.format("csv").outputMode("append").start(str(output))
        else:
            query = writer.outputMode("update").foreachBatch(replacing(output)).start()
        query.awaitTermination()
        seconds = time.perf_counter() - begun
        if peer.gives_all:
            check_all(session, str(output), source, name)
        else:
            check_last(session, str(output), source, name)
    return seconds


def replacing(output: Path) -> Callable[[DataFrame, int], None]:
    """Return a batch writer that puts each batch into its own folder; a repeated batch replaces it."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").csv(str(output / f"batch={number}"))

    return write


def write_keys(source: PoolSource, folder: Path) -> None:
    """Write the records as Parquet, a file for each batch and subtask."""
    folder.mkdir()
    parts = BATCHES * PARALLELISM
    reader = PoolReader(source.pool, 0, source.records)
    for part in range(parts):
        left = source.records * (part + 1) // parts - reader.position
        keys: list[int] = []
        while left > len(keys):
            keys += [key for key, _ in reader.read(left - len(keys))]
        parquet.write_table(pa.table({"key": pa.array(keys, pa.int64())}), folder / f"{part}.parquet")


def check_all(session: SparkSession, output: str, source: PoolSource, name: str) -> None:
    """Raise WrongCount unless the counts of every key go from one to the last, each number once."""
    session.read.schema(_COUNTED).csv(output).createOrReplaceTempView("counted")
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
        raise WrongCount(f"{name} wrote {written:,} rows of {source.records:,} records")


def check_last(session: SparkSession, output: str, source: PoolSource, name: str) -> None:
    """Raise WrongCount unless the greatest counts of all keys add up to the number of records."""
    session.read.schema(_COUNTED).csv(output).createOrReplaceTempView("counted")
    [(counted,)] = session.sql(
        "SELECT coalesce(sum(last), 0) FROM (SELECT max(count) AS last FROM counted GROUP BY key)"
    ).collect()
    if counted != source.records:
        raise WrongCount(f"{name} counted {counted:,} of {source.records:,} records")
