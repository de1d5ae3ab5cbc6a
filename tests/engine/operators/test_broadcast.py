"""Broadcast process functions: which side may write state, and equal copies in all subtasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.broadcast_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.functions import CheckpointedFunction
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.broadcast import BroadcastOperator, TimedBroadcastOperator
from onceproof.engine.operators.co_process import InputKeys
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.types import Types

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OTHERS = MapStateDescriptor("others", Types.STRING(), Types.LONG())
COUNT = ValueStateDescriptor("count", Types.LONG())
LIST = ListStateDescriptor("list", Types.LONG())
RULE_TAG = OutputTag("rules")


def first(value):
    return value[0]


KEYS = InputKeys((first, None), Types.STRING())


class Judge(BroadcastProcessFunction):
    """Emits each value with the current rules, and each rule to a side output."""

    def process_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        yield value, dict(rules.items()), ctx.timestamp(), ctx.current_watermark()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)
        yield RULE_TAG, value


class Writing(BroadcastProcessFunction):
    """Writes broadcast state from the side that may only read it."""

    def process_element(self, value, ctx):
        getattr(ctx.get_broadcast_state(RULES), value)()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(OTHERS)


class Counting(KeyedBroadcastProcessFunction):
    """Counts the values of each key; a broadcast ("reset", n) sets all counts, ("peek", _) reads one."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)
        self.list = runtime_context.get_list_state(LIST)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.list.add(self.count.value())
        yield ctx.get_current_key(), self.count.value()

    def process_broadcast_element(self, value, ctx):
        verb, number = value
        if verb == "peek":
            yield self.count.value()
        elif verb == "reset":
            ctx.apply_to_keyed_state(COUNT, Reset(number))
        else:
            found = []
            ctx.apply_to_keyed_state(LIST, lambda key, state: found.append((key, state.get())))
            ctx.apply_to_keyed_state(LIST, lambda key, state: state.clear())
            yield from sorted(found)


class Reset(KeyedStateFunction):
    def __init__(self, number):
        self.number = number

    def process(self, key, state):
        state.update(self.number)


class Alarms(KeyedBroadcastProcessFunction):
    """Registers a timer for each value, which emits the rules at the time it fires."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp, ctx):
        rules = dict(ctx.get_broadcast_state(RULES).items())
        yield ctx.get_current_key(), timestamp, rules, ctx.time_domain()


class WithOwnState(Judge, CheckpointedFunction):
    """Has operator state of its own, and finds the broadcast state there when it is initialised."""

    def initialize_state(self, context):
        self.seen = context.get_list_state(ListStateDescriptor("seen", Types.STRING()))
        self.found = dict(context.get_broadcast_state(RULES).items())

    def snapshot_state(self, context):
        self.seen.update(["snapshot"])


def given_by(operator, values, input_number):
    return [value for value, _ in operator.process_batch([(value, None) for value in values], input_number)]


def test_the_stream_reads_what_the_broadcast_side_wrote(bench):
    bench.side["rules"] = []
    operator = bench.open(BroadcastOperator(Judge(), [RULES]))
    assert operator.process_batch([("x", 1)], 0) == [(("x", {}, 1, MIN_WATERMARK), 1)]
    assert operator.process_batch([(("a", 1), 2), (("b", 2), 3)], 1) == []
    assert bench.side["rules"] == [(("a", 1), 2), (("b", 2), 3)]
    operator.process_watermark(9)
    assert operator.process_batch([("y", None)], 0) == [(("y", {"a": 1, "b": 2}, MIN_WATERMARK, 9), None)]


def test_the_stream_cannot_write(bench):
    operator = bench.open(BroadcastOperator(Writing(), [RULES]))
    with pytest.raises(StateError, match="'rules' can only be read on this side"):
        given_by(operator, ["clear"], 0)
    for method in ("put", "put_all", "remove"):
        with pytest.raises(AttributeError, match=method):
            given_by(operator, [method], 0)


def test_a_state_that_was_not_named_to_broadcast_is_refused_by_name(bench):
    operator = bench.open(BroadcastOperator(Writing(), [RULES]))
    with pytest.raises(StateError, match=r"no broadcast state 'others' here, but 'rules': name its desc"):
        given_by(operator, [1], 1)


def test_on_the_broadcast_side_no_key_is_current(bench):
    operator = bench.open(BroadcastOperator(Counting(), [RULES], KEYS))
    assert given_by(operator, [("a", 0), ("a", 0)], 0) == [("a", 1), ("a", 2)]
    with pytest.raises(StateError, match="no current key"):
        given_by(operator, [("peek", 0)], 1)
    given_by(operator, [("reset", 5)], 1)
    with pytest.raises(StateError, match="no current key"):
        given_by(operator, [("peek", 0)], 1)


def open_on_backend(operator, kind, folder):
    context = OperatorContext(
        task_name="work",
        subtask=0,
        parallelism=1,
        max_parallelism=8,
        key_groups=(0, 7),
        attempt="1.1",
        clock=lambda: 0,
        steady_clock=lambda: 0,
        probe=lambda point, checkpoint_id: None,
        state_backend=StateBackendSettings(kind, str(folder))
        if kind != "hashmap"
        else StateBackendSettings(),
    )
    operator.open(context)
    return operator


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_a_broadcast_record_can_change_the_state_of_all_keys(kind, tmp_path):
    operator = open_on_backend(BroadcastOperator(Counting(), [RULES], KEYS), kind, tmp_path)
    try:
        given_by(operator, [("a", 0), ("b", 0), ("a", 0)], 0)
        assert given_by(operator, [("take", 0)], 1) == [("a", [1, 2]), ("b", [1])]
        assert given_by(operator, [("take", 0)], 1) == []
        given_by(operator, [("reset", 40)], 1)
        assert given_by(operator, [("b", 0), ("c", 0), ("a", 0)], 0) == [("b", 41), ("c", 1), ("a", 41)]
    finally:
        operator.close()


def test_state_that_no_record_has_asked_for_since_a_restore_is_found(bench):
    make = lambda: BroadcastOperator(Counting(), [RULES], KEYS)  # noqa: E731
    (before,) = bench.open_all(make, 1)
    given_by(before, [("a", 0), ("b", 0)], 0)
    (after,) = bench.restore_all([before], make, 1)
    assert given_by(after, [("take", 0)], 1) == [("a", [1]), ("b", [1])]


def test_timers_read_the_state_of_the_moment_they_fire(bench):
    operator = bench.open(TimedBroadcastOperator(Alarms(), [RULES], KEYS))
    given_by(operator, [("x", 10), ("y", 20)], 0)
    assert operator.process_watermark(10) == [(("x", 10, {}, TimeDomain.EVENT_TIME), 10)]
    given_by(operator, [("a", 1)], 1)
    assert operator.process_watermark(20) == [(("y", 20, {"a": 1}, TimeDomain.EVENT_TIME), 20)]


def test_a_function_may_have_operator_state_beside_it(bench):
    make = lambda: BroadcastOperator(WithOwnState(), [RULES])  # noqa: E731
    (before,) = bench.open_all(make, 1)
    given_by(before, [("a", 1)], 1)
    after = bench.restore_all([before], make, 2)
    assert [operator.function.found for operator in after] == [{"a": 1}, {"a": 1}]
    assert [operator.function.seen.get() for operator in after] == [["snapshot"], []]


CHANGES = st.lists(
    st.one_of(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), st.integers(1, 4)), max_size=20
)
"""A rule for all subtasks, or a rescale to a parallelism."""


@given(CHANGES)
def test_every_subtask_has_all_of_the_state_after_any_rescales(new_bench, changes):
    bench = new_bench()
    make = lambda: BroadcastOperator(Judge(), [RULES])  # noqa: E731
    operators = bench.open_all(make, 2)
    rules = {}
    for change in changes:
        if isinstance(change, int):
            operators = bench.restore_all(operators, make, change)
        else:
            rules[change[0]] = change[1]
            for operator in operators:
                given_by(operator, [change], 1)
        for operator in operators:
            assert given_by(operator, ["x"], 0) == [("x", rules, MIN_WATERMARK, MIN_WATERMARK)]
