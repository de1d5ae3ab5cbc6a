"""The operator with the state gets a uid with a random part: a restarted program finds no state."""

import uuid

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

BETS = [("red", 5), ("black", 3), ("red", 4), ("red", 1), ("black", 2), ("red", 7), ("black", 9)]
RUN = uuid.uuid4().hex[:8]


class Stake(KeyedProcessFunction):
    def open(self, runtime_context):
        self.stake = runtime_context.get_state(ValueStateDescriptor("stake", Types.LONG()))

    def process_element(self, bet, ctx):
        self.stake.update((self.stake.value() or 0) + bet[1])
        yield bet[0], self.stake.value()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    stakes = env.from_collection(BETS).key_by(lambda bet: bet[0], Types.STRING()).process(Stake())
    stakes.uid(f"stakes-{RUN}").print()
    env.execute("bets")


if __name__ == "__main__":
    main()
