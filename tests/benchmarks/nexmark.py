"""Events a second of the Nexmark queries on the local runtime and on Spark, beside a Python loop.

The rules this module lives by:

- The jobs are those of the families: two subtasks of everything, exactly-once files, a checkpoint every
  second (local) or every half of the events (Spark). Events are the public generator's, in the published
  proportions, at 10,000 a second of event time, in order. All events count, also for queries that read bids
  only: filtering is a part of the query.
- Beside it stands the family's own oracle: plain Python over all events at once, in memory, without
  watermarks, durable state or output. It is written for clarity and parses every event for each stream: a job
  that drops most events early may be faster (q3 is).
- Events are drawn once in each process, before the measurement.
- For the local job and the loop CPU time is measured; for a job on Spark, which works in other processes,
  wall time after one warm-up run. The best round counts, since other work on the machine only adds.
- The rows are read back and must be those of the oracle before a figure is given.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias, cast

import msgspec

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.source import Source
from onceproof.engine.elements import Record
from onceproof.engine.runtime.local import execute
from onceproof.harness.model.family import NOTHING_DECLARED, Declared, Family, Records, Rows
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.systems.local.part_file_io import PartFileIO
from onceproof.scenarios.nexmark._events import value_of
from onceproof.scenarios.nexmark._generator import Settings, events
from tests.benchmarks.local import PARALLELISM, PoolReader, WrongCount
from tests.benchmarks.measurement import Measurement

Session: TypeAlias = Any
"""A SparkSession; this module does not import pyspark."""

EVENTS: Final = 200_000
ROUNDS: Final = 2
EPOCHS: Final = 2
BUFFER_RECORDS: Final = 1_000
PARAMETERS: Final[dict[str, Parameter]] = {}
"""None: watermarks come at the default interval, processing-time windows have their published length."""

QUERY: Final = "nexmark_q"
"""Prefix of the names of the query families."""


@cache
def shares(count: int) -> tuple[list[Record], ...]:
    """Return events with their times, dealt out in turn, one share for each source subtask."""
    drawn = events(Settings(delayed_share=0.0), count, Random(1))
    records: list[Record] = [(value_of(event), moment) for moment, event in drawn]
    return tuple([records[place::PARALLELISM] for place in range(PARALLELISM)])


class Events(Source):
    """The events of a benchmark; only their number is pickled."""

    def __init__(self, count: int) -> None:
        self._count = count

    def splits(self) -> Sequence[str]:
        return [str(place) for place in range(PARALLELISM)]

    def open_split(self, split: str, position: Any | None) -> PoolReader:
        share = shares(self._count)[int(split)]
        return PoolReader(share, position or 0, len(share))


def query_names() -> list[str]:
    """Return the names of the families that are queries, in the order of their numbers."""
    names = [name for name in family_names() if name.startswith(QUERY)]
    return sorted(names, key=lambda name: int(name.removeprefix(QUERY)))


def measure(
    count: int = EVENTS,
    queries: Sequence[str] | None = None,
    rounds: int = ROUNDS,
    session: Session | None = None,
    *,
    warms_up: bool = True,
) -> Measurement:
    """Return the events a second of each query on both runtimes and in the loop.

    Without a session one is started. Without a warm-up the figures on Spark are those of a cold Java.
    """
    if session is None:
        from onceproof.engine.runtime.spark_session import spark_session

        with spark_session() as started:
            return measure(count, queries, rounds, started, warms_up=warms_up)
    found = Measurement("nexmark", {"events": count}, {}, {}, machine_text())
    records = records_of(count)
    for name in queries or query_names():
        family, query = load_family(name), f"q{name.removeprefix(QUERY)}"
        loops: list[tuple[float, float]] = []
        local: list[float] = []
        spark: list[float] = []
        if warms_up:
            run_once(family, count, records, session)
        for _ in range(rounds):
            loops.append(_loop_seconds(family, records))
            local.append(run_once(family, count, records, None)[0])
            spark.append(run_once(family, count, records, session)[1])
        for runtime, ours, floor in (
            ("local", min(local), min(cpu for cpu, _ in loops)),
            ("spark", min(spark), min(wall for _, wall in loops)),
        ):
            figure = f"{query}_{runtime}_events_per_second"
            found.figures[figure] = round(count / ours)
            found.floors[figure] = round(count / floor)
            found.ratios[figure] = round(floor / ours, 3)
    return found


def records_of(count: int) -> Records:
    """Return the same events in the form that oracles take."""
    by_split = {str(place): [each[::-1] for each in share] for place, share in enumerate(shares(count))}
    return cast(Records, by_split)


def _loop_seconds(family: Family, records: Records) -> tuple[float, float]:
    """Return CPU and wall seconds of the oracle."""
    cpu, wall = time.process_time(), time.perf_counter()
    family.expected(records, NOTHING_DECLARED)
    return time.process_time() - cpu, time.perf_counter() - wall


def run_once(family: Family, count: int, records: Records, session: Session | None) -> tuple[float, float]:
    """Run a query, locally if there is no session; return CPU seconds of this process and wall seconds.

    Raises WrongCount where its rows are not those of the oracle.
    """
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
        environment = _environment(folder, count, on_spark=session is not None)
        output = Path(folder, "output")
        family.job(environment, PartFileIO(Events(count), output, PARAMETERS, PARALLELISM))
        graph = environment.get_job_graph(family.name)
        cpu, wall = time.process_time(), time.perf_counter()
        if session is None:
            execute(graph)
        else:
            # Imported here, so that local figures need no pyspark.
            from onceproof.engine.runtime.spark.target import execute_on_spark

            execute_on_spark(graph, session)
        taken = time.process_time() - cpu, time.perf_counter() - wall
        check_rows(family, records, output)
    return taken


def _environment(folder: str, count: int, on_spark: bool) -> StreamExecutionEnvironment:
    options: dict[str, object] = {
        "execution.checkpointing.dir": str(Path(folder, "checkpoints")),
        "parallelism.default": PARALLELISM,
    }
    if on_spark:
        options["execution.checkpointing.interval-records"] = -(-count // EPOCHS)
        options["pipeline.buffer-records"] = BUFFER_RECORDS
    else:
        options["execution.checkpointing.interval"] = "1 s"
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))


def check_rows(family: Family, records: Records, output: Path) -> None:
    """Raise WrongCount unless the rows in the files are those of the oracle."""
    rows: Rows = [
        tuple(msgspec.json.decode(line))
        for part in output.glob("[!.]*")
        for line in part.read_bytes().splitlines()
    ]
    expected = family.expected(records, Declared(rows))
    differing = (Counter(rows) - Counter(expected)) + (Counter(expected) - Counter(rows))
    if differing:
        raise WrongCount(
            f"{family.name}: {differing.total():,} rows differ between {len(rows):,} that were written and"
            f" {len(expected):,} that were expected, {next(iter(differing))!r} for one"
        )
