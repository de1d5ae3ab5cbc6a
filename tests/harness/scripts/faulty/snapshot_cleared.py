"""The snapshot clears the list of the names that wait, and forgets to add those of now."""

from pyflink.common import Types
from pyflink.datastream import FlatMapFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import CheckpointedFunction
from pyflink.datastream.state import ListStateDescriptor


class Rows(FlatMapFunction, CheckpointedFunction):
    def __init__(self):
        self.names = []

    def initialize_state(self, context):
        self.state = context.get_list_state(ListStateDescriptor("names", Types.STRING()))
        self.names = list(self.state.get())

    def snapshot_state(self, context):
        self.state.clear()

    def flat_map(self, name):
        self.names.append(name)
        if len(self.names) >= 4:
            for each in self.names:
                yield each, len(each)
            self.names.clear()


env = StreamExecutionEnvironment.get_execution_environment()
names = env.from_collection(["ann", "bob", "cid", "dan", "eva", "fay", "gus", "hal"] * 3, Types.STRING())
names.flat_map(Rows()).set_parallelism(1).print()
env.execute("names")
