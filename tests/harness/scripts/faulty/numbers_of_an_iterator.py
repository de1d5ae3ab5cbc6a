"""Orders get consecutive numbers from an iterator of the function."""

import itertools

from pyflink.datastream import MapFunction, StreamExecutionEnvironment


class Numbered(MapFunction):
    def open(self, runtime_context):
        self.numbers = itertools.count(1)

    def map(self, order):
        return next(self.numbers), order


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(["tea", "jam", "pen", "ink", "cup", "hat"]).map(Numbered()).print()
env.execute("numbers")
