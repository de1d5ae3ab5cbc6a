"""Counters and a distribution of a user's own, beside the rows."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import MapFunction, RuntimeContext


class Measured(MapFunction):
    def __init__(self):
        self.counter = None
        self.distribution = None
        self.longest = 0

    def open(self, runtime_context: RuntimeContext):
        group = runtime_context.get_metrics_group().add_group("texts")
        self.counter = group.counter("seen")
        self.distribution = group.distribution("length")
        group.gauge("longest", lambda: self.longest)

    def map(self, value: str):
        self.counter.inc()
        self.distribution.update(len(value))
        self.longest = max(self.longest, len(value))
        return f"{value} {len(value)}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    texts = ["one", "three", "eleven", "two", "seventeen", "six"]
    env.from_collection(texts, Types.STRING()).map(Measured(), Types.STRING()).name("measured").uid(
        "measured"
    ).print()
    env.execute("measured")
