"""Bounded readings in BATCH mode: each key is read in the order of time, and reports once at its end."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor

READINGS = [("a", 30), ("b", 10), ("a", 10), ("b", 40), ("a", 20), ("c", 5), ("b", 20)]


class Time(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class InOrder(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(1_000)

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()}: {' '.join(str(each) for each in self.seen.get())}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    env.from_collection(
        READINGS, Types.TUPLE([Types.STRING(), Types.INT()])
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    ).key_by(lambda each: each[0], Types.STRING()).process(InOrder(), Types.STRING()).print()
    env.execute("in order")
