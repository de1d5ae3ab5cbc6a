"""Sessions of users with their length and their number of pages."""

from collections.abc import Iterable

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, TimeWindow

PAGES = [
    ("u1", "home", 0),
    ("u2", "home", 500),
    ("u1", "cart", 3_000),
    ("u2", "help", 4_000),
    ("u1", "home", 12_000),
    ("u2", "home", 30_000),
    ("u1", "buy", 14_500),
]


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[2])


class Session(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    watermarks = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    # One page comes out of order: watermarks only at the end.
    env.get_config().set_auto_watermark_interval(3_600_000)
    pages = env.from_collection(PAGES, Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()]))
    pages.assign_timestamps_and_watermarks(watermarks).key_by(
        lambda page: page[0], key_type=Types.STRING()
    ).window(EventTimeSessionWindows.with_gap(Time.seconds(5))).process(
        Session(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()])
    ).print()
    env.execute()
