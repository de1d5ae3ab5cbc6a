"""How many records a second the local runtime counts in windows of event time, beside a plain Python loop.

The rules this module lives by:

- The case: a tumbling count by key in event time, aggregated as records come in, two subtasks of source,
  windows and sink each, hash edges, an exactly-once file sink, a checkpoint to disk every second. Timestamps
  rise by a millisecond a record and are out of order by less than watermarks wait for, so nothing is late.
- The floor is a loop that keeps the same counts in dicts, emits a window when the greatest timestamp has
  passed its end by the same delay, and builds the same rows.
- CPU time is measured, that of the second thread which writes checkpoints included; both take turns, round by
  round. The best round counts, since other work on the machine only adds; the median stands beside it.
- Every count of every window is read back from the files and compared before the figures are given.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.connectors.source import Source
from onceproof.engine.durations import Duration, Time
from onceproof.engine.elements import Record
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import WindowFunction
from onceproof.engine.windows.windows import TimeWindow
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.scenarios._keyed_job import Count
from tests.benchmarks.local import PARALLELISM, PoolReader, WrongCount, measure_job
from tests.benchmarks.measurement import Measurement

RECORDS: Final = 1_000_000
KEYS: Final = 1_000
WINDOW_MS: Final = 100_000
DISORDER_MS: Final = 500
ROUNDS: Final = 3
BATCH: Final = 1000


class Clicks(Source):
    """Pairs of a key and a time, a share of them for each source subtask."""

    def __init__(self, records: int, keys: int) -> None:
        draw = Random(1).random
        self.shares: list[list[Record]] = [
            [
                ((int(draw() * keys), moment + int(draw() * DISORDER_MS)), None)
                for moment in range(records // PARALLELISM)
            ]
            for _ in range(PARALLELISM)
        ]

    @property
    def records(self) -> int:
        """Return the number of records."""
        return sum(map(len, self.shares))

    def splits(self) -> Sequence[str]:
        """Return one split for each subtask."""
        return [str(index) for index in range(PARALLELISM)]

    def open_split(self, split: str, position: Any | None) -> PoolReader:
        """Return a reader that starts at ``position``."""
        share = self.shares[int(split)]
        return PoolReader(share, position or 0, len(share))

    def counts(self) -> Counter[tuple[int, int]]:
        """How many records each key has in each window, by (key, beginning)."""
        return Counter(
            (key, moment - moment % WINDOW_MS) for share in self.shares for (key, moment), _ in share
        )


class Moment(TimestampAssigner):
    """The time of a click."""

    def extract_timestamp(self, value: tuple[int, int], record_timestamp: int) -> int:
        """The second field."""
        return value[1]


class Tell(WindowFunction):
    """Adds key and window to a count."""

    def apply(self, key: int, window: TimeWindow, inputs: Iterable[int]) -> list[tuple[int, int, int]]:
        """One row."""
        return [(key, window.start, count) for count in inputs]


def measure(records: int = RECORDS, keys: int = KEYS, rounds: int = ROUNDS) -> Measurement:
    """Return the records a second of the job and of the loop."""
    source = Clicks(records, keys)
    loops, jobs, walls = [], [], []
    for _ in range(rounds):
        loops.append(_loop_seconds(source))
        cpu_seconds, wall_seconds = _job_seconds(source)
        jobs.append(cpu_seconds)
        walls.append(wall_seconds)
    name = "records_per_second"
    return Measurement(
        "windows",
        {
            "records": source.records,
            "keys": keys,
            "rows": len(source.counts()),
            name: round(source.records / min(jobs)),
            f"{name}_median": round(source.records / median(jobs)),
            f"wall_{name}": round(source.records / min(walls)),
        },
        {
            name: round(source.records / min(loops)),
            f"{name}_median": round(source.records / median(loops)),
        },
        {
            name: round(min(loops) / min(jobs), 3),
            f"{name}_median": round(median(loops) / median(jobs), 3),
        },
        machine_text(),
    )


def _loop_seconds(source: Clicks) -> float:
    """Return the CPU seconds of the plain loop over the same records."""
    started = time.process_time()
    counts: dict[int, dict[int, int]] = {}
    rows: list[tuple[int, int, int]] = []
    readers = [source.open_split(split, None) for split in source.splits()]
    reached = [0] * len(readers)
    while not all(reader.exhausted for reader in readers):
        for index, reader in enumerate(readers):
            greatest = reached[index]
            for (key, moment), _ in reader.read(BATCH):
                if moment > greatest:
                    greatest = moment
                start = moment - moment % WINDOW_MS
                window = counts.get(start)
                if window is None:
                    window = counts[start] = {}
                window[key] = window.get(key, 0) + 1
            reached[index] = greatest
        over = min(reached) - DISORDER_MS - WINDOW_MS
        for start in [start for start in counts if start <= over]:
            rows += [(key, start, count) for key, count in counts.pop(start).items()]
    rows += [(key, start, count) for start, window in counts.items() for key, count in window.items()]
    if sum(count for _, _, count in rows) != source.records:
        raise WrongCount(f"the plain loop did not count all of {source.records:,} records")
    return time.process_time() - started


def _job_seconds(source: Clicks) -> tuple[float, float]:
    """Return the CPU seconds of the job, and those on the wall."""

    def counts(env: StreamExecutionEnvironment) -> DataStream:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(
            Duration.of_millis(DISORDER_MS)
        ).with_timestamp_assigner(Moment())
        clicks = env.from_source(source, strategy, "clicks").uid("clicks")
        windows = clicks.key_by(lambda click: click[0], Types.LONG()).window(
            TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
        )
        return windows.aggregate(Count(), Tell(), Types.LONG()).name("count").uid("count")

    return measure_job("bench windows", counts, lambda output: check_counts(output, source))[:2]


def check_counts(output: Path, source: Clicks) -> None:
    """Raise WrongCount unless every window of every key was written once, with its count."""
    found: dict[tuple[int, int], int] = {}
    for part in output.glob("[!.]*"):
        with part.open() as lines:
            for line in lines:
                key, start, count = map(int, line.split(","))
                if (key, start) in found:
                    raise WrongCount(
                        f"{part.name}: the window of key {key} from {start} on was written twice"
                    )
                found[key, start] = count
    if found != source.counts():
        raise WrongCount(
            f"{len(found):,} windows with {sum(found.values()):,} records for {source.records:,} records"
        )
