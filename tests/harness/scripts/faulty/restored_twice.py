"""Parcels that wait for a van are taken from the state by initialize_state, and once more by open."""

from pyflink.common import Types
from pyflink.datastream import FlatMapFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import CheckpointedFunction
from pyflink.datastream.state import ListStateDescriptor

VAN = 3


class Vans(FlatMapFunction, CheckpointedFunction):
    def __init__(self):
        self.parcels = []

    def initialize_state(self, context):
        self.state = context.get_list_state(ListStateDescriptor("parcels", Types.STRING()))
        self.parcels = list(self.state.get())

    def open(self, runtime_context):
        self.parcels.extend(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.parcels)

    def flat_map(self, parcel):
        self.parcels.append(parcel)
        while len(self.parcels) >= VAN:
            yield ",".join(self.parcels[:VAN])
            self.parcels = self.parcels[VAN:]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    parcels = env.from_collection([f"p{number}" for number in range(21)], Types.STRING())
    parcels.flat_map(Vans()).set_parallelism(1).print()
    env.execute("vans")


if __name__ == "__main__":
    main()
