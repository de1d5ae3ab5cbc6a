"""Users who are silent for ten seconds; which timers count is kept in an attribute."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment

CLICKS = [("ann", 1_000), ("bob", 2_000), ("ann", 14_000), ("bob", 29_000), ("cid", 31_000), ("ann", 60_000)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Silence(KeyedProcessFunction):
    def open(self, runtime_context):
        self.timers = {}

    def process_element(self, click, ctx):
        self.timers[click[0]] = click[1] + 10_000
        ctx.timer_service().register_event_time_timer(click[1] + 10_000)

    def on_timer(self, timestamp, ctx):
        if self.timers.get(ctx.get_current_key()) == timestamp:
            yield f"{ctx.get_current_key()} is silent at {timestamp}"


env = StreamExecutionEnvironment.get_execution_environment()
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(strategy)
clicks.key_by(lambda click: click[0], Types.STRING()).process(Silence(), Types.STRING()).print()
env.execute("silence")
