"""Windows of a fiscal quarter: a WindowAssigner of the program's own."""

from collections.abc import Collection
from typing import Any

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import EventTimeTrigger, TimeWindow, TimeWindowSerializer, WindowAssigner

QUARTER = 90
INVOICES = [("de", 100, 3), ("fr", 20, 80), ("de", 50, 95), ("de", 7, 89), ("fr", 5, 185), ("de", 11, 200)]


class Quarters(WindowAssigner[tuple, TimeWindow]):
    """The first quarter begins at day 5."""

    def assign_windows(self, element, timestamp: int, context) -> Collection[TimeWindow]:
        start = timestamp - (timestamp - 5) % QUARTER
        return [TimeWindow(start, start + QUARTER)]

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class Day(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[2]


class Total(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(each[1] for each in elements)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(3_600_000)
    env.from_collection(
        INVOICES, Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Day())
    ).key_by(lambda each: each[0], Types.STRING()).window(Quarters()).process(
        Total(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
    ).print()
    env.execute("quarters")
