"""Rows are collected in a ListState and handed on in batches of three."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ListStateDescriptor


class Batches(KeyedProcessFunction):
    def __init__(self, size):
        self.size = size
        self.rows = None

    def open(self, runtime_context):
        self.rows = runtime_context.get_list_state(ListStateDescriptor("rows", Types.INT()))

    def process_element(self, value, ctx):
        self.rows.add(value[1])
        rows = list(self.rows)
        if len(rows) >= self.size:
            self.rows.clear()
            yield value[0], rows


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    rows = [(n % 3, n) for n in range(18)]
    env.from_collection(rows, Types.TUPLE([Types.INT(), Types.INT()])).key_by(
        lambda row: row[0], Types.INT()
    ).process(Batches(3), Types.TUPLE([Types.INT(), Types.LIST(Types.INT())])).print()
    env.execute("batches")
