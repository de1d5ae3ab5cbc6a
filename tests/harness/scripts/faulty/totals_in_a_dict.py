"""Running totals of customers, kept in a dict of the function."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment

ORDERS = [("ada", 5), ("bob", 3), ("ada", 4), ("cy", 1), ("bob", 2), ("ada", 7)]


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.totals = {}

    def process_element(self, order, ctx):
        customer, amount = order
        self.totals[customer] = self.totals.get(customer, 0) + amount
        yield customer, self.totals[customer]


env = StreamExecutionEnvironment.get_execution_environment()
totals = env.from_collection(ORDERS).key_by(lambda order: order[0], Types.STRING()).process(Total())
totals.print()
env.execute("totals")
