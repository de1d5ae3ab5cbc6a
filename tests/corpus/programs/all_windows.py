"""One window over all keys: how many sensors reported in each minute."""

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessAllWindowFunction
from pyflink.datastream.window import TimeWindow, TumblingEventTimeWindows

REPORTS = [
    ("s1", 10_000),
    ("s2", 20_000),
    ("s1", 59_999),
    ("s3", 60_000),
    ("s2", 61_000),
    ("s1", 121_000),
    ("s1", 122_000),
]


class ReportTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Distinct(ProcessAllWindowFunction[tuple, str, TimeWindow]):
    def process(self, context, elements):
        sensors = {sensor for sensor, _ in elements}
        yield f"minute {context.window().start // 60_000}: {len(sensors)}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    reports = env.from_collection(REPORTS, Types.TUPLE([Types.STRING(), Types.LONG()]))
    reports.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ReportTime())
    ).window_all(TumblingEventTimeWindows.of(Time.minutes(1))).process(Distinct(), Types.STRING()).print()
    env.execute("sensors by minute")
