"""How many clicks each user has made by the end of the day; which timers count is kept in an attribute."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

CLICKS = [("ann", 1_000), ("bob", 2_000), ("ann", 14_000), ("bob", 29_000), ("cid", 31_000), ("ann", 60_000)]
END_OF_DAY = 86_400_000


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Day(KeyedProcessFunction):
    def open(self, runtime_context):
        self.clicks = runtime_context.get_state(ValueStateDescriptor("clicks", Types.LONG()))
        self.timers = {}

    def process_element(self, click, ctx):
        self.clicks.update((self.clicks.value() or 0) + 1)
        self.timers[click[0]] = END_OF_DAY
        ctx.timer_service().register_event_time_timer(END_OF_DAY)

    def on_timer(self, timestamp, ctx):
        if self.timers.get(ctx.get_current_key()) == timestamp:
            yield f"{ctx.get_current_key()}: {self.clicks.value()}"


env = StreamExecutionEnvironment.get_execution_environment()
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(strategy)
clicks.key_by(lambda click: click[0], Types.STRING()).process(Day(), Types.STRING()).print()
env.execute("day")
