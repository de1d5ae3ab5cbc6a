"""A buffer is emitted and then cleared, as many programs do: each emitted list keeps its content."""

from pyflink.common import Types
from pyflink.datastream import FlatMapFunction, StreamExecutionEnvironment


class Buffer(FlatMapFunction):
    def __init__(self):
        self.rows = []

    def flat_map(self, value):
        self.rows.append(value)
        self.rows.append(value + 1)
        yield self.rows
        self.rows.clear()


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_collection(list(range(8)), Types.INT()).flat_map(Buffer(), Types.LIST(Types.INT())).key_by(
        lambda rows: rows[0] % 4, Types.INT()
    ).map(lambda rows: f"{rows[0]}-{rows[-1]} {len(rows)}", Types.STRING()).print()
    env.execute("pairs")
