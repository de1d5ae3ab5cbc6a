"""Flink's programs of the benchmark `peers`, which run in an environment of their own.

    python flink_peer.py CASE INPUT OUTPUT STATE thread|java

With ``thread`` the keyed count is a Python function, which Java runs inside of itself; with ``java`` a case
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

from pyflink.common import Configuration, Encoder, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import EnvironmentSettings, TableEnvironment

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


def run_python(given: str, output: str, state: str) -> None:
    """Run the keyed count with functions in Python."""
    env = StreamExecutionEnvironment.get_execution_environment(settings(state))
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), given).build()
    keys = env.from_source(files, WatermarkStrategy.no_watermarks(), "lines").map(int, Types.LONG())
    rows = keys.key_by(lambda key: key, Types.LONG()).process(Count(), Types.STRING())
    rows.sink_to(FileSink.for_row_format(output, Encoder.simple_string_encoder()).build())
    env.execute("bench peers count")


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
    if way == "thread":
        run_python(given, output, state)
    else:
        run_java(case, given, output, state)
    print(json.dumps({"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}))


if __name__ == "__main__":
    main(*sys.argv[1:])
