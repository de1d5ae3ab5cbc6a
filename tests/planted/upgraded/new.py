"""Totals of customers, in the version that takes over the state of the old one, and audits nothing."""

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

ORDERS = [("ada", 5), ("bob", 3), ("ada", 4), ("cy", 1), ("bob", 2), ("ada", 7)]


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        account = Types.ROW_NAMED(["lent", "total"], [Types.LONG(), Types.LONG()])
        self.account = runtime_context.get_state(ValueStateDescriptor("account", account))
        self.discount = runtime_context.get_state(ValueStateDescriptor("discount", Types.LONG()))

    def process_element(self, order, ctx):
        account = self.account.value()
        total = ((account["total"] if account else None) or 0) + order[1]
        self.account.update(Row(lent=None, total=total))
        yield order[0], total - (self.discount.value() or 0)


env = StreamExecutionEnvironment.get_execution_environment()
orders = env.from_collection(ORDERS).uid("orders")
orders.key_by(lambda order: order[0], Types.STRING()).process(Total()).uid("totals").print()
env.execute("totals")
