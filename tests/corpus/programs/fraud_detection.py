"""A small payment followed by a large one within a minute is reported (Flink's walkthrough)."""

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

SMALL, LARGE, ONE_MINUTE = 1.0, 500.0, 60_000
PAYMENTS = [
    (1, 0.5, 1_000),
    (2, 0.9, 2_000),
    (1, 600.0, 3_000),
    (2, 20.0, 4_000),
    (3, 0.1, 5_000),
    (2, 700.0, 6_000),
    (3, 900.0, 70_000),
    (1, 800.0, 71_000),
]


class PaymentTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class FraudDetector(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.flag = runtime_context.get_state(ValueStateDescriptor("flag", Types.BOOLEAN()))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer-state", Types.LONG()))

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        if self.flag.value() is not None:
            if value[1] > LARGE and value[2] < self.timer.value():
                yield f"alert for account {value[0]}: {value[1]}"
            self.clean_up(ctx)
        if value[1] < SMALL:
            self.flag.update(True)
            timer = ctx.timestamp() + ONE_MINUTE
            ctx.timer_service().register_event_time_timer(timer)
            self.timer.update(timer)

    def on_timer(self, timestamp, ctx: KeyedProcessFunction.OnTimerContext):
        self.timer.clear()
        self.flag.clear()

    def clean_up(self, ctx):
        ctx.timer_service().delete_event_time_timer(self.timer.value())
        self.timer.clear()
        self.flag.clear()


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    payments = env.from_collection(PAYMENTS, Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.LONG()]))
    payments.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(PaymentTime())
    ).key_by(lambda payment: payment[0]).process(FraudDetector(), Types.STRING()).name(
        "fraud-detector"
    ).print()
    env.execute("Fraud Detection")
