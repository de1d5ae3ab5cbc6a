"""Our engine's program of the benchmark `peers`, in a process of its own.

    python -m tests.benchmarks.peer_engine CASE INPUT OUTPUT STATE local|spark RECORDS

It prints the seconds of the job as a JSON object: on the processor, with those of all processes that it has
started, and on the wall. The start of Java is not counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.folder_source import FileSource
from onceproof.engine.connectors.text_lines import StreamFormat
from onceproof.engine.durations import Duration, Time
from onceproof.engine.functions import AggregateFunction
from onceproof.engine.runtime.local import execute
from onceproof.engine.types import Types
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.engine.windows.assigners import TumblingEventTimeWindows
from onceproof.engine.windows.window_functions import AllWindowFunction
from onceproof.engine.windows.windows import TimeWindow
from onceproof.scenarios._keyed_job import Count
from tests.benchmarks.local import Count as EachCount
from tests.benchmarks.peer_cases import BATCHES, COUNT, DISORDER_MS, PARTS, WINDOW_MS, WINDOWS
from tests.benchmarks.peer_clock import Stopwatch
from tests.benchmarks.windows import Tell

BUFFER_RECORDS: Final = 1_000
WINDOW: Final = Time.milliseconds(WINDOW_MS)


class LastField(TimestampAssigner):
    """The time of a line is its last field."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        """Return it in milliseconds."""
        return int(value[value.rindex(",") + 1 :])


class Highest(AggregateFunction):
    """The greatest of some tuples."""

    def create_accumulator(self) -> tuple[int, ...]:
        """Return what every bid exceeds."""
        return ()

    def add(self, value: tuple[int, ...], accumulator: tuple[int, ...]) -> tuple[int, ...]:
        """Return the greater one."""
        return max(value, accumulator)

    def get_result(self, accumulator: tuple[int, ...]) -> tuple[int, ...]:
        """Return the greatest one."""
        return accumulator

    def merge(self, acc_a: tuple[int, ...], acc_b: tuple[int, ...]) -> tuple[int, ...]:
        """Return the greater one."""
        return max(acc_a, acc_b)


class WithStart(AllWindowFunction):
    """Adds the beginning of its window to a bid."""

    def apply(self, window: TimeWindow, inputs: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
        """Yield one row."""
        for bid in inputs:
            yield window.start, *bid


def rows_of(case: str, lines: DataStream) -> DataStream:
    """Return the rows of a case."""
    numbers = lines.map(lambda line: tuple([int(field) for field in line.split(",")]))
    if case == COUNT:
        return (
            numbers.map(lambda fields: fields[0]).key_by(lambda key: key, Types.LONG()).process(EachCount())
        )
    tumbling = TumblingEventTimeWindows.of(WINDOW)
    if case == WINDOWS:
        return (
            numbers.key_by(lambda fields: fields[0], Types.LONG()).window(tumbling).aggregate(Count(), Tell())
        )
    bids = numbers.filter(lambda fields: fields[0] == 1).map(lambda fields: (fields[3], fields[1], fields[2]))
    return bids.window_all(tumbling).aggregate(Highest(), WithStart())


def build(env: StreamExecutionEnvironment, case: str, given: str, output: str) -> None:
    """Build the job of a case."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2 * DISORDER_MS))
    strategy = None if case == COUNT else bounded.with_timestamp_assigner(LastField())
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), given).build()
    rows = rows_of(case, env.from_source(source, strategy, "lines"))
    rows.sink_to(FileSink.for_row_format(output, Encoder.csv_encoder()).build())


def main(case: str, given: str, output: str, state: str, runtime: str, records: str) -> None:
    """Run a case, and print its seconds."""
    options: dict[str, Any] = {"execution.checkpointing.dir": state, "parallelism.default": PARTS}
    if runtime == "spark":
        options["execution.checkpointing.interval-records"] = -(-int(records) // BATCHES)
        options["pipeline.buffer-records"] = BUFFER_RECORDS
    else:
        options["execution.checkpointing.interval"] = "1 s"
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    build(env, case, given, output)
    graph = env.get_job_graph(f"bench peers {case}")
    if runtime == "local":
        stopwatch = Stopwatch()
        execute(graph)
        taken = stopwatch.seconds()
    else:
        from onceproof.engine.runtime.spark.target import execute_on_spark
        from onceproof.engine.runtime.spark_session import spark_session

        with spark_session() as session:
            session.range(1).count()
            stopwatch = Stopwatch()
            execute_on_spark(graph, session)
            taken = stopwatch.seconds()
    Path(output).mkdir(exist_ok=True)
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
