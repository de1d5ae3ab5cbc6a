"""Totals of each customer, and a bill for each order some time later."""

from pyflink.common import Encoder, Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.datastream.state import ValueStateDescriptor

ORDERS = [
    ("ada", "pen", 5, 1_000),
    ("bob", "ink", 3, 2_000),
    ("ada", "ink", 4, 3_000),
    ("cy", "pen", 1, 14_000),
    ("bob", "pen", 2, 15_000),
    ("ada", "nib", 7, 31_000),
]
BILLED_AFTER_MS = 10_000


class OrderTime(TimestampAssigner):
    def extract_timestamp(self, order, record_timestamp):
        return order[3]


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        account = Types.ROW_NAMED(["total"], [Types.LONG()])
        self.account = runtime_context.get_state(ValueStateDescriptor("account", account))
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element(self, order, ctx):
        account = self.account.value()
        total = (account["total"] if account else 0) + order[2]
        self.account.update(Row(total=total))
        self.latest.update(order[3])
        ctx.timer_service().register_event_time_timer(order[3] + BILLED_AFTER_MS)
        yield f"{ctx.get_current_key()} {total}"

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} is to be billed at {timestamp}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OrderTime())
orders = env.from_collection(ORDERS).uid("orders").assign_timestamps_and_watermarks(in_order).uid("times")
totals = orders.key_by(lambda order: order[0], Types.STRING()).process(Total(), Types.STRING()).uid("totals")
totals.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()).uid("files")
env.execute("totals")
