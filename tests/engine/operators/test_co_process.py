"""Functions over two inputs: which method takes a record, under which key, and what both sides share."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.connected_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.functions import CheckpointedFunction
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.operators.co_process import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    InputKeys,
    TimedCoProcessOperator,
)
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.types import Types

MAX_PARALLELISM = 8
ODD = OutputTag("odd")


def first(value):
    return value[0]


def second(value):
    return value[1]


KEYS = InputKeys((first, second), Types.STRING())
"""In the first input the key comes first, in the second one last."""


class Maps(CoMapFunction):
    def map1(self, value):
        return ("one", value)

    def map2(self, value):
        return ("two", value) if value else None


class FlatMaps(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * value

    def flat_map2(self, value):
        return None if value < 0 else iter([-value])


class Counting(CoMapFunction):
    """Counts the records of a key over both inputs."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map1(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return self.count.value()

    map2 = map1


class Asking(CoProcessFunction):
    """Emits its inputs with the times of its context, and odd numbers to a side output."""

    def process_element1(self, value, ctx):
        yield 1, value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value, ctx):
        yield 2, value, ctx.timestamp(), ctx.current_processing_time()
        if value % 2:
            yield ODD, value


class Timers(KeyedCoProcessFunction):
    """The first input sets timers of event time, the second one deletes them; below 0: of processing time."""

    def process_element1(self, value, ctx):
        _, timestamp = value
        if timestamp < 0:
            ctx.timer_service().register_processing_time_timer(-timestamp)
        else:
            ctx.timer_service().register_event_time_timer(timestamp)

    def process_element2(self, value, ctx):
        timestamp, key = value
        assert ctx.get_current_key() == key
        ctx.timer_service().delete_event_time_timer(timestamp)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.time_domain()
        if timestamp % 2:
            yield ODD, timestamp


class Joins(KeyedCoProcessFunction):
    """Pairs what both sides have of a key."""

    def open(self, runtime_context):
        self.sides = [
            runtime_context.get_list_state(ListStateDescriptor(name, Types.LONG())) for name in ("a", "b")
        ]

    def process_element1(self, value, ctx):
        self.sides[0].add(value[1])
        return [(value[0], value[1], other) for other in self.sides[1].get()]

    def process_element2(self, value, ctx):
        self.sides[1].add(value[0])
        return [(value[1], other, value[0]) for other in self.sides[0].get()]


class Remembering(CoMapFunction, CheckpointedFunction):
    """Keeps what it has seen in operator state."""

    def initialize_state(self, context):
        self.seen = context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def snapshot_state(self, context):
        pass

    def map1(self, value):
        self.seen.add(value)
        return sorted(self.seen.get())

    map2 = map1


def given_by(operator, values, input_number):
    return [value for value, _ in operator.process_batch([(value, None) for value in values], input_number)]


def test_each_input_has_a_method_and_a_map_drops_none(bench):
    operator = bench.open(CoMapOperator(Maps()))
    assert given_by(operator, [1, 0], 0) == [("one", 1), ("one", 0)]
    assert given_by(operator, [1, 0], 1) == [("two", 1)]


def test_a_flat_map_gives_any_number_with_the_timestamp_of_the_record(bench):
    operator = bench.open(CoFlatMapOperator(FlatMaps()))
    assert operator.process_batch([(2, 10), (0, 11), (1, None)], 0) == [(2, 10), (2, 10), (1, None)]
    assert operator.process_batch([(-1, 10), (3, 11)], 1) == [(-3, 11)]


def test_state_is_that_of_the_key_whichever_input_brings_it(bench):
    operator = bench.open(CoMapOperator(Counting(), KEYS))
    assert given_by(operator, [("a", 0), ("b", 0), ("a", 0)], 0) == [1, 1, 2]
    assert given_by(operator, [(0, "a"), (0, "c")], 1) == [3, 1]


def test_without_keys_there_is_no_keyed_state(bench):
    with pytest.raises(TypeError, match="needs a keyed stream"):
        bench.open(CoMapOperator(Counting()))


def test_context_has_times_and_side_outputs_are_separated(bench):
    bench.side["odd"] = []
    bench.now = 77
    operator = bench.open(CoProcessOperator(Asking()))
    assert operator.process_batch([(5, 50)], 0) == [((1, 5, 50, MIN_WATERMARK), 50)]
    assert operator.process_watermark(60) == []
    assert operator.process_batch([(6, None)], 0) == [((1, 6, MIN_WATERMARK, 60), None)]
    assert operator.process_batch([(7, 70), (8, 80)], 1) == [((2, 7, 70, 77), 70), ((2, 8, 80, 77), 80)]
    assert bench.side["odd"] == [(7, 70)]


def test_timers_without_keys_are_refused_and_those_without_on_timer_rest(bench):
    class Wishing(CoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1)
            ctx.timer_service().delete_processing_time_timer(2)
            yield "x"

        process_element2 = process_element1

    with pytest.raises(TypeError, match="call key_by directly before"):
        bench.open(CoProcessOperator(Wishing(), None)).process_batch([(("a", "a"), None)], 1)
    operator = bench.open(CoProcessOperator(Wishing(), KEYS))
    assert operator.process_batch([(("a", "a"), None)], 1) == [("x", None)]
    assert operator.process_watermark(MAX_WATERMARK) == []


def test_both_inputs_have_the_same_timers(bench):
    bench.side["odd"] = []
    operator = bench.open(TimedCoProcessOperator(Timers(), KEYS))
    given_by(operator, [("a", 10), ("b", 10), ("a", 21), ("b", 30), ("a", -500)], 0)
    given_by(operator, [(10, "b"), (10, "c"), (11, "a")], 1)
    event = TimeDomain.EVENT_TIME
    assert bench.behind.wishes == [500]
    assert operator.process_watermark(9) == []
    assert operator.process_watermark(21) == [(("a", 10, event), 10), (("a", 21, event), 21)]
    assert bench.side["odd"] == [(21, 21)]
    assert operator.process_time(500) == [(("a", 500, TimeDomain.PROCESSING_TIME), None)]
    assert operator.process_watermark(MAX_WATERMARK) == [(("b", 30, event), 30)]


def test_timers_of_both_inputs_go_to_the_owner_of_their_key(bench):
    make = lambda: TimedCoProcessOperator(Timers(), KEYS)  # noqa: E731
    keys = [f"key-{number}" for number in range(20)]
    (before,) = bench.open_all(make, 1)
    given_by(before, [(key, 10) for key in keys], 0)
    fired = []
    for subtask, operator in enumerate(bench.restore_all([before], make, 3)):
        for (key, _, _), _ in operator.process_watermark(10):
            group = key_group_of(key, MAX_PARALLELISM, Types.STRING())
            assert operator_index(MAX_PARALLELISM, 3, group) == subtask
            fired.append(key)
    assert sorted(fired) == sorted(keys)


def test_operator_state_of_a_function_is_dealt_out_beside_keyed_state(bench):
    make = lambda: CoMapOperator(Remembering(), KEYS)  # noqa: E731
    (before,) = bench.open_all(make, 1)
    before.function.seen.add_all([1, 2, 3])
    shares = [operator.function.seen.get() for operator in bench.restore_all([before], make, 2)]
    assert shares == [[1, 2], [3]]


STEPS = st.lists(
    st.one_of(st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 99)), st.integers(1, 4)),
    max_size=30,
)
"""A record of an input with its key, or a rescale to a parallelism."""


@given(STEPS)
def test_a_join_finds_every_pair_once_over_any_rescales(new_bench, steps):
    bench = new_bench()
    make = lambda: CoProcessOperator(Joins(), KEYS)  # noqa: E731
    operators = bench.open_all(make, 1)
    kept = defaultdict(lambda: ([], []))
    for step in steps:
        if isinstance(step, int):
            operators = bench.restore_all(operators, make, step)
            continue
        side, key, number = step
        group = key_group_of(key, MAX_PARALLELISM, Types.STRING())
        owner = operators[operator_index(MAX_PARALLELISM, len(operators), group)]
        kept[key][side].append(number)
        value = (key, number) if side == 0 else (number, key)
        expected = [
            (key, number, other) if side == 0 else (key, other, number) for other in kept[key][1 - side]
        ]
        assert given_by(owner, [value], side) == expected
