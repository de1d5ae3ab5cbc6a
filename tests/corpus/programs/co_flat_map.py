"""Two streams of different types become one with a CoMapFunction and a CoFlatMapFunction."""

from pyflink.common import Types
from pyflink.datastream import CoFlatMapFunction, CoMapFunction, StreamExecutionEnvironment


class Texts(CoMapFunction):
    def map1(self, value):
        return f"number {value}"

    def map2(self, value):
        return f"word {value}"


class Letters(CoFlatMapFunction):
    def flat_map1(self, value):
        yield from [f"digit {digit}" for digit in str(value)]

    def flat_map2(self, value):
        for letter in value:
            if letter not in "aeiou":
                yield f"letter {letter}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([12, 345, 6], Types.INT())
    words = env.from_collection(["tea", "oak", "io", "pie"], Types.STRING())
    connected = numbers.connect(words)
    connected.map(Texts(), Types.STRING()).print()
    connected.flat_map(Letters(), Types.STRING()).print()
    env.execute("two types")


if __name__ == "__main__":
    main()
