"""Readings are written three at a time; those that wait are in the snapshot, and finish writes the rest."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import CheckpointedFunction, SinkFunction
from pyflink.datastream.state import ListStateDescriptor

READINGS = [21, 22, 20, 19, 23, 25, 24, 22, 21, 20]


class Batches(SinkFunction, CheckpointedFunction):
    def __init__(self):
        self.waiting = []

    def initialize_state(self, context):
        self.state = context.get_list_state(ListStateDescriptor("waiting", Types.DOUBLE()))
        self.waiting = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.waiting)

    def invoke(self, reading, context):
        self.waiting.append(reading)
        if len(self.waiting) >= 3:
            self.write()

    def write(self):
        with open("/tmp/readings.txt", "a") as file:
            file.writelines(f"{reading}\n" for reading in self.waiting)
        self.waiting.clear()

    def finish(self):
        self.write()


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(READINGS).map(lambda celsius: celsius * 9 / 5 + 32).add_sink(Batches()).name("batches")
env.execute("readings")
