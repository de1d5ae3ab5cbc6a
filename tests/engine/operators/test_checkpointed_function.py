"""A function of any kind that keeps operator state, managed and raw: fresh, restored and rescaled."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceproof.engine.functions import (
    CheckpointedFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    SinkFunction,
)
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.operators.process import KeyedProcessOperator
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from onceproof.engine.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types

MAX_PARALLELISM = 8
"""That of the bench."""

BUFFER = ListStateDescriptor("buffer", Types.STRING())
SEEN = ListStateDescriptor("seen", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Buffering(CheckpointedFunction):
    """Keeps its values in a list of each kind and as raw partitions; ``=`` sets a rule."""

    def initialize_state(self, context):
        self.was_restored = (context.is_restored(), context.get_restored_checkpoint_id())
        self.buffer = context.get_list_state(BUFFER)
        self.seen = context.get_union_list_state(SEEN)
        self.rules = context.get_broadcast_state(RULES)
        self.raw = [each.get_stream().read().decode() for each in context.get_raw_operator_state_inputs()]
        self.values = self.buffer.get()

    def snapshot_state(self, context):
        self.buffer.update(self.values)
        output = context.get_raw_operator_state_output()
        for value in self.raw:
            output.start_new_partition()
            output.write(value.encode())

    def take(self, value):
        if value.startswith("="):
            self.rules.put(value, len(value))
        else:
            self.values.append(value)
            self.raw.append(value)
            self.seen.add(value)
        return value


class BufferingMap(Buffering, MapFunction):
    def map(self, value):
        return self.take(value)


class BufferingFilter(Buffering, FilterFunction):
    def filter(self, value):
        return bool(self.take(value))


class BufferingFlatMap(Buffering, FlatMapFunction):
    def flat_map(self, value):
        yield self.take(value)


class BufferingSink(Buffering, SinkFunction):
    def invoke(self, value, context):
        self.take(value)


class BufferingProcess(Buffering, KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield self.take(value)


MAKE = {
    "map": lambda: MapOperator(BufferingMap()),
    "filter": lambda: FilterOperator(BufferingFilter()),
    "flat map": lambda: FlatMapOperator(BufferingFlatMap()),
    "sink": lambda: SinkOperator(BufferingSink()),
    "keyed process": lambda: KeyedProcessOperator(BufferingProcess(), lambda value: value, Types.STRING()),
}


@pytest.mark.parametrize("kind", list(MAKE))
def test_functions_of_every_kind_restore_their_state(bench, kind):
    (before,) = bench.open_all(MAKE[kind], 1)
    assert before.function.was_restored == (False, None)
    bench.process(before, "a", "b", "=c")
    (after,) = bench.restore_all([before], MAKE[kind], 1)
    function = after.function
    assert function.was_restored == (True, 7)
    assert function.values == function.raw == function.seen.get() == ["a", "b"]
    assert function.rules.items() == [("=c", 2)]


def test_function_without_state_knows_that_the_job_was_restored(bench):
    operator = bench.open(MAKE["map"](), restored=4)
    assert operator.function.was_restored == (True, 4)
    assert operator.function.values == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.text("ab", min_size=1, max_size=3), max_size=12),
    first=st.integers(1, 4),
    then=st.lists(st.integers(1, 4), max_size=3),
)
def test_operator_state_that_was_rescaled_on_the_way_is_complete(bench, values, first, then):
    """After any rescales and back, lists lose and duplicate nothing, and maps are equal everywhere."""
    operators = bench.open_all(MAKE["map"], first)
    for place, value in enumerate(values):
        bench.process(operators[place % first], value)
    for operator in operators:
        bench.process(operator, "=rule")
    everything = sorted(values)
    for parallelism in (*then, first):
        operators_before = operators
        operators = bench.restore_all(operators, MAKE["map"], parallelism)
        functions = [operator.function for operator in operators]
        assert sorted(value for function in functions for value in function.values) == everything
        assert sorted(value for function in functions for value in function.raw) == everything
        if parallelism != len(operators_before):
            sizes = [len(function.values) for function in functions]
            assert max(sizes) - min(sizes) <= 1
        for function in functions:
            assert function.rules.items() == [("=rule", 5)]
            assert sorted(function.seen.get()) == everything
            # As every user of a union list must: keep what is one's own, or it doubles with each restore.
            function.seen.update(function.values)


class RawPerKey(KeyedProcessFunction, CheckpointedFunction):
    """Counts keys in a dict of its own, and saves it as raw keyed state."""

    def initialize_state(self, context):
        self.managed = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG()))
        self.counts = {}
        for group in context.get_raw_keyed_state_inputs():
            lines = group.get_stream().read().decode().splitlines()
            self.counts.update({key: int(count) for key, count in (line.split() for line in lines)})

    def snapshot_state(self, context):
        output = context.get_raw_keyed_operator_state_output()
        by_group = {}
        for key, count in self.counts.items():
            group = key_group_of(key, MAX_PARALLELISM, Types.STRING())
            by_group.setdefault(group, []).append(f"{key} {count}\n")
        for group in output.get_key_group_list():
            if group in by_group:
                output.start_new_key_group(group)
                output.write("".join(by_group[group]).encode())

    def process_element(self, value, ctx):
        self.counts[value] = self.counts.get(value, 0) + 1
        self.managed.update((self.managed.value() or 0) + 1)
        yield value, self.counts[value], self.managed.value()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds=st.lists(
        st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=8), st.integers(1, 4)),
        min_size=1,
        max_size=4,
    )
)
def test_raw_keyed_state_goes_with_its_key_group(bench, rounds):
    """Over any rescales, raw state counts the same as managed state."""
    make = lambda: KeyedProcessOperator(RawPerKey(), lambda value: value, Types.STRING())  # noqa: E731
    operators = bench.open_all(make, 1)
    expected = {}
    for values, parallelism in rounds:
        for value in values:
            group = key_group_of(value, MAX_PARALLELISM, Types.STRING())
            owner = operators[operator_index(MAX_PARALLELISM, len(operators), group)]
            expected[value] = expected.get(value, 0) + 1
            assert bench.process(owner, value) == [(value, expected[value], expected[value])]
        operators = bench.restore_all(operators, make, parallelism)
        held = [pair for operator in operators for pair in operator.function.counts.items()]
        assert sorted(held) == sorted(expected.items())


class NotWrittenAgain(BufferingMap):
    def snapshot_state(self, context):
        """Writes no raw state."""


def test_raw_state_that_is_not_written_again_is_gone(bench):
    (first,) = bench.open_all(MAKE["map"], 1)
    bench.process(first, "a")
    (second,) = bench.restore_all([first], lambda: MapOperator(NotWrittenAgain()), 1)
    assert second.function.raw == ["a"]
    (third,) = bench.restore_all([second], MAKE["map"], 1)
    assert third.function.raw == []


class WantsKeys(BufferingMap):
    def snapshot_state(self, context):
        context.get_raw_keyed_operator_state_output()


def test_keyed_state_on_a_stream_without_keys_is_refused(bench):
    operator = bench.open(MapOperator(WantsKeys()))
    with pytest.raises(TypeError, match="raw keyed state needs a keyed stream: call key_by directly before"):
        operator.snapshot(1, 1)


class AsksForKeyedState(BufferingMap):
    def initialize_state(self, context):
        context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG()))


def test_managed_keyed_state_on_a_stream_without_keys_is_refused(bench):
    with pytest.raises(TypeError, match="'count' of 'work' needs a keyed stream"):
        bench.open(MapOperator(AsksForKeyedState()))


class WithoutRaw(BufferingMap):
    def initialize_state(self, context):
        super().initialize_state(context)
        self.raw = []


def test_raw_state_does_not_affect_other_operator_state(bench):
    shares = []
    for make in (MAKE["map"], lambda: MapOperator(WithoutRaw())):
        (operator,) = bench.open_all(make, 1)
        bench.process(operator, "a", "b", "c", "d")
        if make is not MAKE["map"]:
            operator.function.raw.clear()
        shares.append([each.function.values for each in bench.restore_all([operator], make, 3)])
    assert shares[0] == shares[1]
    assert sorted(map(len, shares[0])) == [1, 1, 2]
