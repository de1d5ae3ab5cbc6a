"""A program for Flink 1.13 with every setting of its time, and the time of events as the characteristic."""

from pyflink.common import RestartStrategies, Types
from pyflink.common.time import Duration
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment, TimeCharacteristic
from pyflink.datastream.checkpoint_config import CheckpointingMode, ExternalizedCheckpointCleanup
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.state_backend import MemoryStateBackend


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(60_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


def configured():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.set_max_parallelism(8)
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    env.get_config().set_auto_watermark_interval(100)
    env.set_state_backend(MemoryStateBackend())
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10))
    env.enable_checkpointing(10_000, CheckpointingMode.EXACTLY_ONCE)
    config = env.get_checkpoint_config()
    config.set_checkpoint_timeout(60_000)
    config.set_min_pause_between_checkpoints(0)
    config.set_max_concurrent_checkpoints(1)
    config.set_alignment_timeout(Duration.of_seconds(1))
    config.set_prefer_checkpoint_for_recovery(False)
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    return env


if __name__ == "__main__":
    env = configured()
    calls = [("x", 1), ("y", 2), ("x", 3), ("x", 4), ("z", 5), ("y", 6)]
    env.from_collection(calls, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    ).key_by(lambda call: call[0], key_type=Types.STRING()).process(
        Count(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()])
    ).print()
    env.execute("calls")
