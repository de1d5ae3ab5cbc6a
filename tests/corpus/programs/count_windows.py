"""Sums of three values of a key each, with the time-honoured count_window."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import WindowFunction
from pyflink.datastream.window import CountWindow


class Sum(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key, window, inputs):
        result = 0
        for each in inputs:
            result += each[0]
        return [(key, result)]


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    data = [(1, "hi"), (2, "hi"), (3, "yo"), (4, "hi"), (5, "yo"), (6, "yo"), (7, "hi"), (8, "hi")]
    data_stream = env.from_collection(data, type_info=Types.TUPLE([Types.INT(), Types.STRING()]))
    data_stream.key_by(lambda x: x[1], key_type=Types.STRING()).count_window(3).apply(
        Sum(), Types.TUPLE([Types.STRING(), Types.INT()])
    ).print()
    env.execute("time_window_example")
