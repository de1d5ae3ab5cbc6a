"""Operators on keyed streams run the TTL cleanup for every record."""

from onceproof.engine.durations import Time
from onceproof.engine.functions import KeyedProcessFunction
from onceproof.engine.operators.process import KeyedProcessOperator
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Types

TTL = 100


class Remember(KeyedProcessFunction):
    def open(self, runtime_context):
        self.descriptor = ValueStateDescriptor("seen", Types.LONG())
        config = StateTtlConfig.new_builder(Time.milliseconds(TTL)).cleanup_incrementally(2, True)
        self.descriptor.enable_time_to_live(config.build())
        self.state = runtime_context.get_state(self.descriptor)

    def process_element(self, value, ctx):
        if value != "idle":
            self.state.update(1)


def test_every_record_cleans_up_even_without_state_access(bench):
    operator = bench.open(KeyedProcessOperator(Remember(), lambda value: value, Types.STRING()))
    keys = lambda: operator._backend.keys(operator.function.descriptor)  # noqa: E731
    bench.process(operator, "a", "b", "c")
    bench.now = TTL
    bench.process(operator, "idle")
    assert len(keys()) == 1
    bench.process(operator, "idle")
    assert keys() == []
