"""A retry is left out while its order is remembered, which is for five milliseconds only."""

from pyflink.common import Time, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor

ORDERS = [("o1", 5), ("o2", 3), ("o1", 5), ("o3", 1), ("o2", 3), ("o1", 5), ("o4", 7), ("o3", 1)]


class Dedup(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(5)).build())
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, order, ctx):
        if not self.seen.value():
            self.seen.update(True)
            yield order


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(ORDERS).key_by(lambda order: order[0], Types.STRING()).process(Dedup()).print()
env.execute("orders")
