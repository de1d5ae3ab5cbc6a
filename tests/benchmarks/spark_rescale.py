"""Seconds to rescale a state of a million keys from two subtasks to four and back, and a peer's.

The rules this module lives by:

- The case: a keyed count on Spark by two subtasks, whose first epoch counts every key once. Then the job is
  ended and restored from its checkpoint at the same parallelism, at four, and at two again, each time for an
  epoch of few records. The time goes from the moment when nothing of the job runs to the first committed
  rows.
- Structured Streaming does the same with the same records (spark_rescale_peer.py): its query is ended, its
  state is repartitioned, the query is started again, and a batch is written.
- Both run in one Spark on two cores, after a warm-up over fewer keys, and take turns. The best round counts,
  since other work on the machine only adds; the median stands beside it.
- In the end every key is counted once more, and the counts of each key must go from one to the last without a
  gap: a rescale that loses or misplaces a key gives no figure.
- Bytes are those of the files that a step has added to the state on disk.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

from pyspark.sql import SparkSession

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest
from onceproof.engine.runtime.job_result import JobCancelled
from onceproof.engine.runtime.job_startup import recover_job
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.spark.driver import SparkExecution
from onceproof.engine.runtime.spark.epoch_size import EpochSize
from onceproof.engine.runtime.spark.target import spark_storage
from onceproof.engine.runtime.spark_session import spark_session
from onceproof.harness.reporting.report_builder import machine_text
from tests.benchmarks.local import check_counts
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.spark_epochs import EveryKeyFirst, counting_graph
from tests.benchmarks.spark_rescale_peer import STEPS, NewFiles, StepTaken, peer_steps

KEYS: Final = 1_000_000
RECORDS: Final = 1_000
"""The number of records in the epoch after a rescale, each of another key."""
ROUNDS: Final = 2
WARM_UP: Final = 50
"""The warm-up has one key for this many."""

BACKENDS: Final[Mapping[str, dict[str, Any]]] = {
    "hashmap": {},
    "rocksdb": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
}
_RETAINED: Final = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}

Taken = dict[str, StepTaken]
Run = Callable[[SparkSession, EveryKeyFirst], Taken]
"""Loads the state, takes the steps, and checks the counts."""


def measure(
    keys: int = KEYS,
    records: int = RECORDS,
    rounds: int = ROUNDS,
    session: SparkSession | None = None,
    *,
    warms_up: bool = True,
    peer: Run = peer_steps,
) -> Measurement:
    """Return the seconds and bytes of each step, on each backend and of the peer.

    Without a session one is started. Without a warm-up the figures are those of a cold Java.
    """
    if session is None:
        with spark_session() as started:
            return measure(keys, records, rounds, started, warms_up=warms_up, peer=peer)
    runs: dict[str, Run] = {name: _engine_run(name) for name in BACKENDS}
    runs["structured_streaming"] = peer
    if warms_up:
        small = source_of(keys // WARM_UP, records)
        for run in runs.values():
            run(session, small)
    source = source_of(keys, records)
    taken: dict[str, list[Taken]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            taken[name].append(run(session, source))
    figures: dict[str, float] = {"keys": keys, "records": records, "rounds": rounds}
    floors: dict[str, float] = {}
    for name, steps in taken.items():
        (figures if name in BACKENDS else floors).update(_figures(name, steps))
    ratios = {
        f"{name}_{step}": round(
            floors[f"structured_streaming_{step}_seconds"] / figures[f"{name}_{step}_seconds"], 3
        )
        for name in BACKENDS
        for step in STEPS
    }
    return Measurement("rescale", figures, floors, ratios, machine_text())


def source_of(keys: int, records: int) -> EveryKeyFirst:
    """Return a source of every key, some records for each step, and every key once more."""
    return EveryKeyFirst(keys, len(STEPS) * records + keys)


def _figures(name: str, rounds: Sequence[Taken]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for step in STEPS:
        seconds = [taken[step].seconds for taken in rounds]
        figures[f"{name}_{step}_seconds"] = round(min(seconds), 3)
        figures[f"{name}_{step}_seconds_median"] = round(median(seconds), 3)
        offline = min(taken[step].offline_seconds for taken in rounds)
        if offline:
            figures[f"{name}_{step}_offline_seconds"] = round(offline, 3)
        figures[f"{name}_{step}_bytes"] = rounds[0][step].bytes
    return figures


def _engine_run(backend: str) -> Run:
    def run(session: SparkSession, source: EveryKeyFirst) -> Taken:
        return engine_steps(session, source, BACKENDS[backend])

    return run


def engine_steps(session: SparkSession, source: EveryKeyFirst, options: Mapping[str, Any]) -> Taken:
    """Take all steps with the engine; WrongCount where a key was miscounted."""
    records = (source.records - 2 * source.keys) // len(STEPS)
    taken: Taken = {}
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        _go_on(session, source, folder, options, source.keys)
        for step, parallelism in STEPS.items():
            at = {**options, "parallelism.default": parallelism}
            taken[step] = _go_on(session, source, folder, at, records)
        _go_on(session, source, folder, options, source.keys)
        check_counts(Path(folder, "output"), source)
    return taken


def _go_on(
    session: SparkSession, source: EveryKeyFirst, folder: str, options: Mapping[str, Any], records: int
) -> StepTaken:
    """Restore the job, run one epoch of ``records`` records and cancel it; a last job runs to its end."""
    graph = counting_graph(source, folder, records, {**_RETAINED, **options})
    new = NewFiles(Path(folder, "checkpoints"))
    begun = time.perf_counter()
    storage = spark_storage(graph)
    with storage.exclusive(), suppress(JobCancelled):
        recovered = recover_job(graph, storage)
        assert isinstance(recovered, Recovered)
        pace = OneEpoch(graph.settings, new)
        execution = SparkExecution(graph, session.sparkContext, storage, recovered, pace=pace)
        pace.end = lambda: execution.submit(JobRequest("cancel"), _unheard)
        execution.run()
    return StepTaken(pace.committed - begun, pace.bytes)


def _unheard(answer: JobAnswer) -> None:
    """Ignore the answer: the caller observes the result of the request itself."""


class OneEpoch(EpochSize):
    """The pace of a job that stops after the commit of its first epoch."""

    def __init__(self, settings: CheckpointSettings, new: NewFiles) -> None:
        super().__init__(settings)
        self._new = new
        self._epochs = 0
        self.end: Callable[[], None] | None = None
        self.committed = 0.0
        """Time of the commit of the first epoch, as of time.perf_counter."""
        self.bytes = 0
        """Bytes of the files that were new then."""

    def quotas(self, sources: Sequence[TaskId], ended: Collection[TaskId] = ()) -> dict[TaskId, int]:
        """Return the quotas of the first epoch; afterwards cancel the job and return 0 records."""
        self._epochs += 1
        if self._epochs == 1:
            return super().quotas(sources, ended)
        self.committed = time.perf_counter()
        self.bytes = self._new.bytes()
        assert self.end is not None
        self.end()
        return dict.fromkeys(sources, 0)
