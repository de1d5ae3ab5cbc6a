"""Sums over event-time sessions in PyFlink: bounded input, and one file of rows at the end.

``job.py INPUT OUTPUT reduce`` sums by a ReduceFunction, ``job.py INPUT OUTPUT aggregate`` by an
AggregateFunction whose accumulator is not what it returns.
"""

import json
import os
import sys
import sysconfig
from pathlib import Path

# Flink's Java runs Python inside of itself, and finds packages by this.
os.environ["PYTHONPATH"] = sysconfig.get_path("purelib")

from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows

GAP_MS = 5
RECORD = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
ROW = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()])


class OfRecord(TimestampAssigner):
    """The timestamp of a record."""

    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Sum(AggregateFunction):
    """Sums amounts; its accumulator is a pair, its result the record that ``WithBounds`` reads."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return {"total": accumulator[0]}

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


class WithBounds(ProcessWindowFunction):
    """Adds the bounds of its session to a sum."""

    def process(self, key, context, elements):
        for element in elements:
            total = element["total"] if isinstance(element, dict) else element[1]
            yield key, context.window().start, context.window().end, total


given, written, way = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
records = [json.loads(line) for path in sorted(given.iterdir()) for line in path.read_text().splitlines()]
settings = Configuration()
settings.set_string("python.execution-mode", "thread")
settings.set_string("parallelism.default", "1")
settings.set_string("rest.port", "0")
settings.set_string("python.executable", sys.executable)
settings.set_string("python.client.executable", sys.executable)
env = StreamExecutionEnvironment.get_execution_environment(settings)
values = [(record["key"], record["amount"], record["timestamp"]) for record in records]
sessions = (
    # The only watermark is that of the end: every record is in time, and sessions merge in any order.
    env.from_collection(values, RECORD)
    .assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks().with_timestamp_assigner(OfRecord()))
    .key_by(lambda value: value[0], Types.STRING())
    .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
)
if way == "reduce":
    sums = sessions.reduce(lambda one, other: (one[0], one[1] + other[1], 0), WithBounds(), ROW)
else:
    pair = Types.PICKLED_BYTE_ARRAY()
    sums = sessions.aggregate(Sum(), WithBounds(), pair, ROW)
rows = [json.dumps(list(row)) for row in sums.execute_and_collect()]
(written / ".sessions.jsonl").write_text("".join(f"{row}\n" for row in rows))
os.replace(written / ".sessions.jsonl", written / "sessions.jsonl")
