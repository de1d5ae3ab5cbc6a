"""Flink's programs of `bench peers`, which run in an environment of their own.

    python flink_peer.py CASE INPUT OUTPUT STATE thread|java

With ``thread`` the operators are Python functions, which Java runs inside of itself; with ``java`` the same
is said in Flink's SQL, and Java's own operators run. A checkpoint every second. It prints the seconds of the
job as a JSON object: on the processor, with those of Java, and on the wall. The start of Java is not counted.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

# Flink's Java runs Python inside of itself, and finds packages by this.
os.environ["PYTHONPATH"] = sysconfig.get_path("purelib")

from pyflink.common import Configuration, Duration, Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflink.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.table import EnvironmentSettings, TableEnvironment

WINDOW_MS = 10_000
BOUND_MS = 1_000
PARALLELISM = "2"
TICKS = os.sysconf("SC_CLK_TCK")

COLUMNS = {
    "count": "`key` BIGINT, `at` AS PROCTIME()",
    "windows": "`key` BIGINT, `moment` BIGINT",
    "query": "`is_bid` INT, `auction` BIGINT, `bidder` BIGINT, `price` BIGINT, `moment` BIGINT",
}
EVENT_TIME = ", `at` AS TO_TIMESTAMP_LTZ(`moment`, 3), WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND"
WINDOWED = "TABLE(TUMBLE(TABLE lines, DESCRIPTOR(`at`), INTERVAL '10' SECOND))"
START = "UNIX_TIMESTAMP(CAST(window_start AS STRING)) * 1000"
ROWS = {
    "count": "`key` BIGINT, `total` BIGINT",
    "windows": "`key` BIGINT, `start` BIGINT, `total` BIGINT",
    "query": "`start` BIGINT, `price` BIGINT, `auction` BIGINT, `bidder` BIGINT",
}
QUERIES = {
    "count": "SELECT `key`, COUNT(*) OVER (PARTITION BY `key` ORDER BY `at`"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM lines",
    "windows": f"SELECT `key`, {START}, COUNT(*) FROM {WINDOWED} GROUP BY window_start, window_end, `key`",
    "query": f"SELECT {START}, price, auction, bidder FROM (SELECT *, ROW_NUMBER() OVER ("
    "PARTITION BY window_start, window_end ORDER BY price DESC, auction DESC, bidder DESC) AS place"
    f" FROM (SELECT * FROM {WINDOWED}) WHERE is_bid = 1) WHERE place <= 1",
}


class LastField(TimestampAssigner):
    """The time of a line is its last field."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        """Return it in milliseconds."""
        return int(value[value.rindex(",") + 1 :])


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context: Any) -> None:
        """Bind the state."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        """Add one and emit the count."""
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{value},{count}"


class Total(AggregateFunction):
    """Counts the records of a window."""

    def create_accumulator(self) -> int:
        """Return zero."""
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        """Add one."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """Return the count."""
        return accumulator

    def merge(self, one: int, other: int) -> int:
        """Add two counts."""
        return one + other


class Tell(ProcessWindowFunction):
    """Adds key and window to a count."""

    def process(self, key: int, context: Any, elements: Any) -> Any:
        """Yield one row."""
        for total in elements:
            yield f"{key},{context.window().start},{total}"


class Highest(AggregateFunction):
    """The greatest of some bids, as lists of numbers."""

    def create_accumulator(self) -> list[int]:
        """Return what every bid exceeds."""
        return [0, 0, 0]

    def add(self, value: list[int], accumulator: list[int]) -> list[int]:
        """Return the greater one."""
        return max(list(value), list(accumulator))

    def get_result(self, accumulator: list[int]) -> list[int]:
        """Return the greatest one."""
        return accumulator

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        """Return the greater one."""
        return max(list(one), list(other))


class WithStart(AllWindowFunction):
    """Adds the beginning of its window to a bid."""

    def apply(self, window: Any, inputs: Any) -> Any:
        """Yield one row."""
        for bid in inputs:
            yield ",".join(map(str, (window.start, *bid)))


def settings(state: str) -> Configuration:
    """Return the configuration of the job."""
    configuration = Configuration()
    for key, value in {
        "python.execution-mode": "thread",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "parallelism.default": PARALLELISM,
        "rest.port": "0",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": Path(state).absolute().as_uri(),
        "table.local-time-zone": "UTC",
    }.items():
        configuration.set_string(key, value)
    return configuration


def run_python(case: str, given: str, output: str, state: str) -> None:
    """Run a case with functions in Python."""
    env = StreamExecutionEnvironment.get_execution_environment(settings(state))
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
    strategy = (
        WatermarkStrategy.no_watermarks() if case == "count" else bounded.with_timestamp_assigner(LastField())
    )
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), given).build()
    lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "lines")
    if case != "count":
        lines = lines.assign_timestamps_and_watermarks(strategy)
    longs = Types.PRIMITIVE_ARRAY(Types.LONG())
    numbers = lines.map(lambda line: [int(field) for field in line.split(",")], longs)
    window = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    if case == "count":
        keys = numbers.map(lambda fields: fields[0], Types.LONG())
        rows = keys.key_by(lambda key: key, Types.LONG()).process(Count(), Types.STRING())
    elif case == "windows":
        keyed = numbers.key_by(lambda fields: fields[0], Types.LONG())
        rows = keyed.window(window).aggregate(Total(), Tell(), Types.LONG(), Types.STRING())
    else:
        bids = numbers.filter(lambda fields: fields[0] == 1)
        bids = bids.map(lambda fields: [fields[3], fields[1], fields[2]], longs)
        rows = bids.window_all(window).aggregate(Highest(), WithStart(), longs, Types.STRING())
    rows.sink_to(FileSink.for_row_format(output, Encoder.simple_string_encoder()).build())
    env.execute(f"bench peers {case}")


def run_java(case: str, given: str, output: str, state: str) -> None:
    """Run a case with Java's own operators."""
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings(state)).build()
    )
    files = "'connector' = 'filesystem', 'format' = 'csv', 'path' = '{}'"
    timed = "" if case == "count" else EVENT_TIME
    tables.execute_sql(f"CREATE TABLE lines ({COLUMNS[case]}{timed}) WITH ({files.format(given)})")
    tables.execute_sql(f"CREATE TABLE written ({ROWS[case]}) WITH ({files.format(output)})")
    tables.execute_sql(f"INSERT INTO written {QUERIES[case]}").wait()


def cpu_seconds() -> float:
    """Return the processor time of this process and of its children."""
    total = time.process_time()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            total += sum(map(int, fields[11:15])) / TICKS
    return total


def main(case: str, given: str, output: str, state: str, way: str) -> None:
    """Run a case, and print its seconds."""
    # The first call starts Java.
    settings(state)
    cpu, wall = cpu_seconds(), time.perf_counter()
    (run_python if way == "thread" else run_java)(case, given, output, state)
    print(json.dumps({"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}))


if __name__ == "__main__":
    main(*sys.argv[1:])
