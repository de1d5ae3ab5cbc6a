"""Orders and customers meet in the state of a KeyedCoProcessFunction, whichever comes first."""

from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

ORDERS = [(1, "book"), (2, "pen"), (1, "lamp"), (3, "desk"), (2, "ink"), (1, "cup")]
CUSTOMERS = [(1, "Ada"), (2, "Bob"), (3, "Cy")]


class Enrich(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.customer = runtime_context.get_state(ValueStateDescriptor("customer", Types.STRING()))
        self.orders = runtime_context.get_list_state(ListStateDescriptor("orders", Types.STRING()))

    def process_element1(self, value, ctx: "KeyedCoProcessFunction.Context"):
        name = self.customer.value()
        if name is None:
            self.orders.add(value[1])
        else:
            yield f"{name} ordered {value[1]}"

    def process_element2(self, value, ctx: "KeyedCoProcessFunction.Context"):
        self.customer.update(value[1])
        for order in self.orders.get():
            yield f"{value[1]} ordered {order}"
        self.orders.clear()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    pair = Types.TUPLE([Types.INT(), Types.STRING()])
    orders = env.from_collection(ORDERS, type_info=pair)
    customers = env.from_collection(CUSTOMERS, type_info=pair)
    orders.connect(customers).key_by(lambda o: o[0], lambda c: c[0], Types.INT()).process(
        Enrich(), output_type=Types.STRING()
    ).print()
    env.execute("enriched orders")


if __name__ == "__main__":
    main()
