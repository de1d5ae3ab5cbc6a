"""How many records a second the local runtime counts, exactly once, beside a plain Python loop.

The rules this module lives by:

- The case: a keyed count with the user's function over ValueState, two subtasks of source, count and sink
  each, hash edges, an exactly-once file sink, a checkpoint to disk every second. Every record is counted and
  every count is written, so as many rows come out as records went in.
- The floor is a loop that counts the same keys in a dict and builds the same rows; it keeps no durable state
  and writes nothing.
- CPU time is measured, that of the second thread which writes checkpoints included; both take turns, round
  by round. The best round counts, since other work on the machine only adds; the median stands beside it.
- The same job in two workers takes turns with the others. Its time on the wall stands beside that of one
  process; it says something only on a machine with two cores that do nothing else.
- The job with fewer records runs in pairs, monitored and not, behind the rounds (monitoring.py).
- What was written is read back before the figures are given: for every key the counts from one to the last,
  each once and in order. A job that loses rows gives no figure.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.reporting.report_builder import machine_text
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.monitoring import PAIRS, monitoring_figures
from tests.benchmarks.monitoring import RECORDS as MONITORED_RECORDS

RECORDS: Final = 10_000_000
KEYS: Final = (1_000, 100_000)
POOL: Final = 200_000
"""The size of the pool of records, which is drawn once and read repeatedly, so that drawing is not
measured."""
PARALLELISM: Final = 2
WORKERS: Final = 2
ROUNDS: Final = 3
NO_OPTIONS: Final[Mapping[str, object]] = {}


class WrongCount(Exception):
    """The job did not write the rows that it should have written; the message is one line."""


class PoolReader(SplitReader):
    """Reads the pool again and again, up to its share of the records."""

    def __init__(self, pool: list[Record], position: int, end: int) -> None:
        self._pool = pool
        self._position = position
        self._end = end

    def read(self, limit: int) -> list[Record]:
        """Return the next records, up to the end of the pool at the most."""
        begin = self._position % len(self._pool)
        records = self._pool[begin : begin + min(limit, self._end - self._position)]
        self._position += len(records)
        return records

    @property
    def position(self) -> int:
        """Return the number of records read."""
        return self._position

    @property
    def exhausted(self) -> bool:
        """Return whether all records were read."""
        return self._position >= self._end


class PoolSource(Source):
    """Random keys, a share of them for each source subtask."""

    def __init__(self, records: int, keys: int) -> None:
        draw = Random(1).random
        self.pool: list[Record] = [(int(draw() * keys), None) for _ in range(POOL)]
        self.records = records

    def splits(self) -> Sequence[str]:
        """Return one split for each subtask."""
        return [f"share-{index}" for index in range(PARALLELISM)]

    def open_split(self, split: str, position: Any | None) -> PoolReader:
        """Return a reader that starts at ``position``."""
        return PoolReader(self.pool, position or 0, self.records // PARALLELISM)

    def counts(self) -> dict[int, int]:
        """Return the number of records of each key."""
        rounds, rest = divmod(self.records // PARALLELISM, len(self.pool))
        once = Counter([key for key, _ in self.pool])
        part = Counter([key for key, _ in self.pool[:rest]])
        given = {key: PARALLELISM * (count * rounds + part[key]) for key, count in once.items()}
        return {key: count for key, count in given.items() if count}


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Bind the state."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> tuple[tuple[int, int]]:
        """Add one and emit the count."""
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        return ((value, count),)


def measure(
    records: int = RECORDS, keys: Sequence[int] = KEYS, rounds: int = ROUNDS, pairs: int = PAIRS
) -> Measurement:
    """Return the records a second of the job and of the loop, for each number of keys.

    ``pairs`` of shorter runs of the first number of keys say what it costs to monitor the job.
    """
    figures: dict[str, float] = {"records": records}
    floors: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for number in keys:
        source = PoolSource(records, number)
        loops, jobs, walls, in_workers = [], [], [], []
        for _ in range(rounds):
            loops.append(_loop_seconds(source))
            cpu_seconds, wall_seconds, checkpoints = job_seconds(source)
            jobs.append(cpu_seconds)
            walls.append(wall_seconds)
            in_workers.append(job_seconds(source, WORKERS)[1])
        name = f"records_per_second_{number}_keys"
        figures[name] = round(records / min(jobs))
        figures[f"{name}_median"] = round(records / median(jobs))
        figures[f"wall_{name}"] = round(records / min(walls))
        figures[f"wall_{name}_{WORKERS}_workers"] = round(records / min(in_workers))
        figures[f"checkpoints_{number}_keys"] = checkpoints
        floors[name] = round(records / min(loops))
        floors[f"{name}_median"] = round(records / median(loops))
        ratios[name] = round(min(loops) / min(jobs), 3)
        ratios[f"{name}_median"] = round(median(loops) / median(jobs), 3)
    short = PoolSource(min(records, MONITORED_RECORDS), keys[0])
    cost, cost_ratios = monitoring_figures(lambda options: job_seconds(short, options=options)[0], pairs)
    figures |= cost
    ratios |= cost_ratios
    return Measurement("local", figures, floors, ratios, machine_text())


def _loop_seconds(source: PoolSource) -> float:
    """Return the CPU seconds of the plain loop over the same records."""
    started = time.process_time()
    counts: dict[int, int] = {}
    made = 0
    reader = PoolReader(source.pool, 0, source.records)
    while batch := reader.read(1000):
        rows = []
        for key, _ in batch:
            count = counts[key] = counts.get(key, 0) + 1
            rows.append((key, count))
        made += len(rows)
    if made != source.records:
        raise WrongCount(f"the plain loop made {made:,} rows of {source.records:,} records")
    return time.process_time() - started


def job_seconds(
    source: PoolSource, workers: int = 1, options: Mapping[str, object] = NO_OPTIONS
) -> tuple[float, float, int]:
    """Return the CPU seconds of the job, those on the wall, and how many checkpoints it completed.

    The CPU seconds are those of this process. ``options`` are further ones of the job.
    """

    def counts(env: StreamExecutionEnvironment) -> DataStream:
        keys = env.from_source(source, None, "source").uid("source")
        return keys.key_by(lambda key: key, Types.LONG()).process(Count()).name("count").uid("count")

    return measure_job("bench local", counts, lambda output: check_counts(output, source), workers, options)


def measure_job(
    name: str,
    build: Callable[[StreamExecutionEnvironment], DataStream],
    check: Callable[[Path], None],
    workers: int = 1,
    further: Mapping[str, object] = NO_OPTIONS,
) -> tuple[float, float, int]:
    """Run a job with a checkpoint every second into an exactly-once file sink, keyed by the first field.

    ``build`` returns the stream of rows. ``check`` gets the folder of their files after the run.

    Returns:
        CPU seconds of the job, seconds on the wall, and how many checkpoints it completed.
    """
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        output = Path(folder, "output")
        options: dict[str, object] = {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": str(Path(folder, "checkpoints")),
            "parallelism.default": PARALLELISM,
            "execution.local.workers": workers,
            **further,
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
        sink = FileSink.for_row_format(str(output), Encoder.csv_encoder()).build()
        build(env).key_by(lambda row: row[0], Types.LONG()).sink_to(sink).name("sink").uid("sink")
        cpu, wall = time.process_time(), time.perf_counter()
        result = env.execute(name)
        cpu_seconds, wall_seconds = time.process_time() - cpu, time.perf_counter() - wall
        check(output)
    return cpu_seconds, wall_seconds, result.checkpoints


def check_counts(output: Path, source: PoolSource, *, every: bool = True) -> None:
    """Raise WrongCount unless every key was counted from one to the last, in the order of the files.

    Where not ``every`` count is to be written, they must rise.
    """
    # part-<owner>-<subtask>-<epoch>-<attempt>: in an epoch a key has one subtask.
    parts = sorted(output.glob("[!.]*"), key=lambda part: int(part.name.split("-")[3]))
    seen: dict[int, int] = {}
    for part in parts:
        with part.open() as lines:
            for line in lines:
                key, count = map(int, line.split(","))
                before = seen.get(key, 0)
                if count <= before or (every and count > before + 1):
                    raise WrongCount(f"{part.name}: key {key} counts {count} after {before}")
                seen[key] = count
    if seen != source.counts():
        counted = sum(seen.values())
        raise WrongCount(f"{counted:,} records of {len(seen):,} keys counted, of {source.records:,}")
