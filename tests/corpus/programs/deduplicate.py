"""Events with an id that was seen within an hour are dropped; the state expires."""

from pyflink.common import Time, Types
from pyflink.datastream import FlatMapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor

EVENTS = [
    ("e1", "login"),
    ("e2", "click"),
    ("e1", "login"),
    ("e3", "click"),
    ("e2", "click"),
    ("e4", "logout"),
    ("e1", "login"),
]


class Deduplicate(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext):
        ttl_config = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .cleanup_full_snapshot()
            .build()
        )
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        descriptor.enable_time_to_live(ttl_config)
        self.seen = runtime_context.get_state(descriptor)

    def flat_map(self, value):
        if not self.seen.value():
            self.seen.update(True)
            yield value


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    row = Types.TUPLE([Types.STRING(), Types.STRING()])
    env.from_collection(EVENTS, row).key_by(lambda event: event[0]).flat_map(Deduplicate(), row).print()
    env.execute("deduplicate")


if __name__ == "__main__":
    main()
