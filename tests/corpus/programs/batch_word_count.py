"""The word count of the documentation in BATCH mode: one result for each word."""

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

LINES = ["a rose is a rose", "is a rose", "a thorn", "is not a rose", "a stem", "no thorn"]


def split(line):
    yield from line.split()


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(1)
    stream = env.from_collection(LINES)
    stream = (
        stream.flat_map(split)
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0])
        .reduce(lambda x, y: (x[0], x[1] + y[1]))
    )
    stream.print()
    env.execute()
