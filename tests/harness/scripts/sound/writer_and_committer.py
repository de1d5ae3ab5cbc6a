"""Totals of customers are written and committed by a sink of two parts; what was committed is not twice."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors import Committer, CommittingSinkWriter, SupportsCommitter
from pyflink.datastream.state import ValueStateDescriptor

ORDERS = [("ada", 5), ("bob", 3), ("ada", 4), ("cy", 1), ("bob", 2), ("ada", 7)]
TABLE = {}


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, order, ctx):
        self.total.update((self.total.value() or 0) + order[1])
        yield order[0], self.total.value()


class Writer(CommittingSinkWriter):
    def __init__(self, prefix):
        self.prefix, self.number, self.rows = prefix, 0, []

    def write(self, element, context):
        self.rows.append(element)

    def flush(self, end_of_input):
        pass

    def prepare_commit(self):
        self.number += 1
        rows, self.rows = self.rows, []
        return [(f"{self.prefix}-{self.number}", rows)] if rows else []

    def close(self):
        pass


class InsertOnce(Committer):
    def commit(self, committables):
        for request in committables:
            name, rows = request.get_committable()
            TABLE[name] = [tuple(row) for row in rows]

    def close(self):
        pass


class Table(SupportsCommitter):
    def create_writer(self, context):
        info = context.get_task_info()
        return Writer(f"{info.get_attempt_id()}-{info.get_index_of_this_subtask()}")

    def create_committer(self, context):
        return InsertOnce()


env = StreamExecutionEnvironment.get_execution_environment()
totals = env.from_collection(ORDERS).key_by(lambda order: order[0], Types.STRING()).process(Total())
totals.sink_to(Table()).name("table")
env.execute("totals")
