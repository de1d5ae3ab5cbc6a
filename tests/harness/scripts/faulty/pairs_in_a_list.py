"""Values go out in pairs; the first of a pair waits in an attribute."""

from pyflink.datastream import FlatMapFunction, StreamExecutionEnvironment


class Pairs(FlatMapFunction):
    def __init__(self):
        self.waiting = []

    def flat_map(self, value):
        self.waiting.append(value)
        if len(self.waiting) == 2:
            yield tuple(self.waiting)
            self.waiting.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(list(range(20))).flat_map(Pairs()).print()
env.execute("pairs")
