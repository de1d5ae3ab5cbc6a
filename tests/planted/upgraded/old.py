"""Totals of customers, in the version whose state the bugs of upgrades strike."""

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

ORDERS = [("ada", 5), ("bob", 3), ("ada", 4), ("cy", 1), ("bob", 2), ("ada", 7)]


class Audit(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, order, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        yield order


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        account = Types.ROW_NAMED(["total"], [Types.LONG()])
        self.account = runtime_context.get_state(ValueStateDescriptor("account", account))
        self.points = runtime_context.get_state(ValueStateDescriptor("points", Types.LONG()))

    def process_element(self, order, ctx):
        account = self.account.value()
        total = (account["total"] if account else 0) + order[1]
        self.account.update(Row(total=total))
        self.points.update((self.points.value() or 0) + 1)
        yield order[0], total


env = StreamExecutionEnvironment.get_execution_environment()
orders = env.from_collection(ORDERS).uid("orders")
audited = orders.key_by(lambda order: order[0], Types.STRING()).process(Audit()).uid("audit")
audited.key_by(lambda order: order[0], Types.STRING()).process(Total()).uid("totals").print()
env.execute("totals")
