"""Limits of accounts are broadcast; transactions wait in state until the limit of their currency is known."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedBroadcastProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor

limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())
waiting = ListStateDescriptor("waiting", Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()]))


class Check(KeyedBroadcastProcessFunction):
    def __init__(self):
        self.waiting = None

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(waiting)

    def process_element(self, value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext):
        limit = ctx.get_broadcast_state(limits).get(value[1])
        if limit is None:
            self.waiting.add(value)
        elif value[2] > limit:
            yield f"{value[0]} over {limit} {value[1]}: {value[2]}"

    def process_broadcast_element(self, value, ctx: KeyedBroadcastProcessFunction.Context):
        currency, limit = value
        ctx.get_broadcast_state(limits).put(currency, limit)
        found = []

        def check(_key, state):
            kept = []
            for each in state.get():
                if each[1] != currency:
                    kept.append(each)
                elif each[2] > limit:
                    found.append(f"{each[0]} over {limit} {currency}: {each[2]}")
            state.update(kept)

        ctx.apply_to_keyed_state(waiting, check)
        yield from found


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    transactions = env.from_collection(
        [
            ("a", "EUR", 50),
            ("b", "EUR", 500),
            ("a", "USD", 90),
            ("b", "USD", 10),
            ("c", "EUR", 101),
            ("a", "USD", 81),
        ],
        Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()]),
    )
    rules = env.from_collection([("EUR", 100), ("USD", 80)], Types.TUPLE([Types.STRING(), Types.INT()]))
    transactions.key_by(lambda each: each[0], Types.STRING()).connect(rules.broadcast(limits)).process(
        Check(), Types.STRING()
    ).print()
    env.execute("broadcast rules")
