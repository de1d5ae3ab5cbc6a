"""Users of whom nothing is heard for ten seconds, found with event-time timers."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor

CLICKS = [
    ("ann", 1_000),
    ("bob", 2_000),
    ("ann", 4_000),
    ("bob", 9_000),
    ("ann", 20_000),
    ("cid", 21_000),
    ("bob", 22_000),
]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Inactivity(KeyedProcessFunction):
    def __init__(self):
        self.clicks = None

    def open(self, runtime_context: RuntimeContext):
        self.clicks = runtime_context.get_list_state(ListStateDescriptor("clicks", Types.LONG()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.clicks.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000)

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        if not any(timestamp - 10_000 < click <= timestamp for click in self.clicks):
            yield f"{ctx.get_current_key()} left at {timestamp}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    env.from_collection(
        CLICKS, type_info=Types.TUPLE([Types.STRING(), Types.LONG()])
    ).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField())).key_by(
        lambda click: click[0], key_type=Types.STRING()
    ).process(Inactivity(), output_type=Types.STRING()).print()
    env.execute("inactive users")
