"""The cost of an epoch with little work, and how much unchanged state adds to it.

The rules this module lives by:

- An epoch with nearly no records stands beside a bare Spark job of two stages, in the same session.
- State lies in databases, and checkpoints are incremental. The first epoch counts every key once; each later
  one counts as many records as the smaller state has keys. So with few keys all of them change, and with many
  one in a hundred: the difference is the price of unchanged state.
- The median of the later epochs counts; the first two are left out, since they build what others reuse.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from pyspark.sql import SparkSession

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import CheckpointSettings, Configuration
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.source import SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.graph import JobGraph
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime.job_startup import recover_job
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.spark.epoch_size import EpochSize
from onceproof.engine.runtime.spark.target import spark_storage
from onceproof.engine.types import Types
from onceproof.scenarios._keyed_job import Count as CountInBundles
from tests.benchmarks.local import PARALLELISM, Count, PoolSource

BUFFER_RECORDS: Final = 1_000
FEW_KEYS: Final = 10_000
MANY_KEYS: Final = 1_000_000
LATER_EPOCHS: Final = 10
EPOCHS_LEFT_OUT: Final = 2

_SPREAD: Final = 7_919
"""A prime: keys that are neighbours in the input lie far apart in the state."""


def counting_graph(
    source: PoolSource,
    folder: str,
    interval_records: int,
    options: dict[str, Any] | None = None,
    *,
    in_bundles: bool = False,
) -> JobGraph:
    """Return the job: a keyed count of a source into exactly-once files.

    It writes every count, or with ``in_bundles`` only the last count of each key and epoch.
    """
    common = {
        "execution.checkpointing.interval-records": interval_records,
        "execution.checkpointing.dir": str(Path(folder, "checkpoints")),
        "parallelism.default": PARALLELISM,
        "pipeline.buffer-records": BUFFER_RECORDS,
    }
    configuration = Configuration.from_mapping(common | (options or {}))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    # The source has one split for each of these, whatever the parallelism of the count.
    keys = env.from_source(source, None, "source").uid("source").set_parallelism(PARALLELISM)
    by_key = keys.key_by(lambda key: key, Types.LONG())
    counts = (
        by_key.bundle(source.records).aggregate(CountInBundles(), Types.LONG())
        if in_bundles
        else by_key.process(Count())
    )
    counts.name("count").uid("count")
    sink = FileSink.for_row_format(str(Path(folder, "output")), Encoder.csv_encoder()).build()
    counts.sink_to(sink).name("sink").uid("sink")
    return env.get_job_graph("bench spark")


def state_epoch_seconds(
    session: SparkSession, keys: int, records: int = FEW_KEYS, epochs: int = LATER_EPOCHS
) -> float:
    """Return the seconds of epochs of so many records, beside a state of so many keys."""
    source = EveryKeyFirst(keys, records * epochs)
    options = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True}
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        graph = counting_graph(source, folder, records, options)
        pace = LoadingPace(graph.settings, keys)
        storage = spark_storage(graph)
        with storage.exclusive():
            recovered = recover_job(graph, storage)
            assert isinstance(recovered, Recovered)
            SparkExecution(graph, session.sparkContext, storage, recovered, pace=pace).run()
    moments = pace.moments
    seconds = [after - before for before, after in pairwise(moments)]
    return median(seconds[EPOCHS_LEFT_OUT:])


class LoadingPace(EpochSize):
    """The pace of a job whose first epoch loads all keys; it records when epochs start."""

    def __init__(self, settings: CheckpointSettings, keys: int) -> None:
        super().__init__(settings)
        self._later = self._records
        self._records = keys
        self.moments: list[float] = []

    def quotas(self, sources: Sequence[TaskId], ended: Collection[TaskId] = ()) -> dict[TaskId, int]:
        """Return the quotas of an epoch that begins now."""
        self.moments.append(time.perf_counter())
        quotas = super().quotas(sources, ended)
        self._records = self._later
        return quotas


class EveryKeyFirst(PoolSource):
    """Gives every key once, then keys from all over the state."""

    def __init__(self, keys: int, records: int) -> None:
        self.keys = keys
        self.pool = []
        self.records = keys + records

    def open_split(self, split: str, position: Any | None) -> _EveryKeyReader:  # type: ignore[override]
        share = int(split.removeprefix("share-"))
        return _EveryKeyReader(share, self.keys, position or 0, self.records // PARALLELISM)

    def counts(self) -> dict[int, int]:
        """Return the number of records of each key."""
        given: Counter[int] = Counter()
        for split in self.splits():
            given.update([key for key, _ in self.open_split(split, None).read(self.records)])
        return dict(given)


class _EveryKeyReader(SplitReader):
    """Reads the keys of one share."""

    def __init__(self, share: int, keys: int, position: int, end: int) -> None:
        self._share = share
        self._keys = keys
        self._position = position
        self._end = end

    def read(self, limit: int) -> list[Record]:
        begin_at, keys = self._position, self._keys
        self._position = min(begin_at + limit, self._end)
        return [(self._key(place, keys), None) for place in range(begin_at, self._position)]

    def _key(self, place: int, keys: int) -> int:
        spread = 1 if place < keys // PARALLELISM else _SPREAD
        return (place * spread * PARALLELISM + self._share) % keys

    @property
    def position(self) -> int:
        return self._position

    @property
    def exhausted(self) -> bool:
        return self._position >= self._end
