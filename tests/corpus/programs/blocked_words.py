"""A list of blocked words is broadcast to a stream without keys."""

from pyflink.common import Types
from pyflink.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

BLOCKED = MapStateDescriptor("blocked", Types.STRING(), Types.BOOLEAN())


class Censor(BroadcastProcessFunction):
    """Passes words on that are not on the list; none of those here ever is."""

    def process_element(self, value, ctx: BroadcastProcessFunction.ReadOnlyContext):
        if not ctx.get_broadcast_state(BLOCKED).contains(value):
            yield value

    def process_broadcast_element(self, value, ctx: BroadcastProcessFunction.Context):
        ctx.get_broadcast_state(BLOCKED).put(value, True)
        yield f"blocked: {value}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    words = env.from_collection(["a", "fine", "day", "and", "a", "night"], Types.STRING())
    blocked = env.from_collection(["rude", "word"], Types.STRING())
    words.connect(blocked.broadcast(BLOCKED)).process(Censor(), Types.STRING()).print()
    env.execute("censor")
