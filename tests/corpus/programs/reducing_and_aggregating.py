"""The highest and the mean value of each key, in a ReducingState and an AggregatingState."""

from pyflink.common import Types
from pyflink.datastream import AggregateFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import MapFunction, RuntimeContext
from pyflink.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class Statistics(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.highest = runtime_context.get_reducing_state(
            ReducingStateDescriptor("highest", max, Types.INT())
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.INT(), Types.INT()]))
        )

    def map(self, value):
        self.highest.add(value[1])
        self.mean.add(value[1])
        return f"{value[0]}: highest {self.highest.get()}, mean {self.mean.get():.1f}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(
        [("x", 4), ("y", 10), ("x", 8), ("x", 3), ("y", 5), ("x", 1)],
        Types.TUPLE([Types.STRING(), Types.INT()]),
    ).key_by(lambda each: each[0]).map(Statistics(), Types.STRING()).print()
    env.execute("statistics")
