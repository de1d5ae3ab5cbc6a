"""Readings are written six at a time, and what is left in close: a process that dies closes nothing."""

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import SinkFunction

READINGS = [21, 22, 20, 19, 23, 25, 24, 22, 21, 20]


class Batches(SinkFunction):
    def open(self, runtime_context):
        self.file = open("readings.txt", "a")  # noqa: SIM115
        self.waiting = []

    def invoke(self, reading, context):
        self.waiting.append(reading)
        if len(self.waiting) == 6:
            self.write()

    def write(self):
        for reading in self.waiting:
            self.file.write(f"{reading}\n")
        self.file.flush()
        self.waiting.clear()

    def close(self):
        self.write()
        self.file.close()


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(READINGS).map(lambda celsius: celsius * 9 / 5 + 32).add_sink(Batches()).name("batches")
env.execute("readings")
