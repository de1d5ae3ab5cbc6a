"""Keyed process functions, reduce and sum: state by key, isolated snapshots, restore at any parallelism."""

from __future__ import annotations

import pytest

from onceproof.engine.api.aggregations import FieldAggregation, add
from onceproof.engine.functions import KeyedProcessFunction, ReduceFunction
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.operators.process import KeyedProcessOperator
from onceproof.engine.operators.reduce import STATE_NAME, KeyedReduceOperator
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types

MAX_PARALLELISM = 8
WORDS = [f"word {number % 11}" for number in range(100)]


class Count(KeyedProcessFunction):
    """Emits a running count, and all values of the context."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


class Join(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def counting():
    return KeyedProcessOperator(Count(), lambda word: word, Types.STRING())


def joining():
    return KeyedReduceOperator(Join(), lambda value: value[:1], Types.STRING(), Types.STRING())


def summing():
    return KeyedReduceOperator(FieldAggregation(1, add), lambda value: value[0], None, None)


def owner(key, parallelism, key_type):
    return operator_index(MAX_PARALLELISM, parallelism, key_group_of(key, MAX_PARALLELISM, key_type))


# Process.


def test_state_is_that_of_the_key_of_the_record(bench):
    operator = bench.open(counting())
    assert bench.process(operator, "a", "b", "a", "a") == [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


def test_a_generator_is_read_out_before_the_key_changes(bench):
    class Late(Count):
        def process_element(self, value, ctx):
            yield "before", ctx.get_current_key()
            yield "after", ctx.get_current_key()

    operator = bench.open(KeyedProcessOperator(Late(), lambda word: word, None))
    assert bench.process(operator, "a", "b") == [
        ("before", "a"),
        ("after", "a"),
        ("before", "b"),
        ("after", "b"),
    ]


def test_results_take_the_timestamp_of_their_input_and_none_is_no_result(bench):
    class Sometimes(Count):
        def process_element(self, value, ctx):
            return [ctx.timestamp(), ctx.timestamp()] if value == "a" else None

    operator = bench.open(KeyedProcessOperator(Sometimes(), lambda word: word, None))
    assert bench.process(operator, ("a", 5), ("b", 6), timestamps=True) == [(5, 5), (5, 5)]


# Reduce and sum.


def test_reduce_emits_the_reduced_value_after_every_record_and_the_first_as_it_is(bench):
    operator = bench.open(joining())
    assert bench.process(operator, "ax", "b", "ay", "az") == ["ax", "b", "axay", "axayaz"]


def test_reduced_values_take_the_timestamp_of_the_last_record(bench):
    operator = bench.open(joining())
    assert bench.process(operator, ("a", 1), ("ab", 7), timestamps=True) == [("a", 1), ("aab", 7)]


def test_sum_adds_one_field_and_keeps_the_others_of_the_first_record(bench):
    operator = bench.open(summing())
    assert bench.process(operator, ("a", 1, "first"), ("a", 5, "second")) == [
        ("a", 1, "first"),
        ("a", 6, "first"),
    ]


@pytest.mark.parametrize("first", [0, None, ""])
def test_a_reduced_value_may_be_nothing_much(bench, first):
    class First(ReduceFunction):
        def reduce(self, value1, value2):
            return value1

    operator = bench.open(KeyedReduceOperator(First(), lambda value: "key", None, None))
    assert bench.process(operator, first, 5, 6) == [first, first, first]


def test_the_state_of_reduce_has_flinks_name(bench):
    operator = bench.open(joining())
    bench.process(operator, "a")
    (table,) = operator.snapshot(1, 0).keyed.tables
    assert table.name == STATE_NAME == "_op_state"
    assert table.entries == {"a": "a"}


# Snapshots.


@pytest.mark.parametrize("make", [counting, joining])
def test_snapshot_does_not_see_later_changes(bench, make):
    operator = bench.open(make())
    bench.process(operator, "a")
    snapshot = operator.snapshot(1, 0)
    before = [dict(table.entries) for table in snapshot.keyed.tables]
    bench.process(operator, "a", "b")
    assert [table.entries for table in snapshot.keyed.tables] == before


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 1), (2, 3), (4, 2)])
def test_counting_continues_after_a_restore_at_another_parallelism(bench, before, after):
    operators = bench.open_all(counting, before)
    for word in WORDS:
        bench.process(operators[owner(word, before, Types.STRING())], word)
    restored = bench.restore_all(operators, counting, after)
    for word in sorted(set(WORDS)):
        (row,) = bench.process(restored[owner(word, after, Types.STRING())], word)
        assert row == (word, WORDS.count(word) + 1)


@pytest.mark.parametrize("reduces", [False, True])
def test_keys_are_grouped_by_their_declared_type(bench, reduces):
    """A negative number has another key group as an int than as a long."""

    def make():
        if reduces:
            return KeyedReduceOperator(Join(), lambda number: number, Types.INT(), Types.LONG())
        return KeyedProcessOperator(Count(), lambda number: number, Types.INT())

    numbers = range(-30, 0)
    operators = bench.open_all(make, 1)
    bench.process(operators[0], *numbers)
    restored = bench.restore_all(operators, make, 3)
    for number in numbers:
        (result,) = bench.process(restored[owner(number, 3, Types.INT())], number)
        assert result == (2 * number if reduces else (number, 2))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 2)])
def test_summing_continues_after_a_restore_at_another_parallelism(bench, before, after):
    operators = bench.open_all(summing, before)
    for word in WORDS:
        bench.process(operators[owner(word, before, None)], (word, 2))
    restored = bench.restore_all(operators, summing, after)
    for word in sorted(set(WORDS)):
        (row,) = bench.process(restored[owner(word, after, None)], (word, 1))
        assert row == (word, 2 * WORDS.count(word) + 1)


def test_state_that_the_job_no_longer_registers_is_kept(bench):
    class Forgetful(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return None

    def forgetting():
        return KeyedProcessOperator(Forgetful(), lambda word: word, Types.STRING())

    operators = bench.open_all(counting, 1)
    bench.process(operators[0], "a", "a")
    forgotten = bench.restore_all(operators, forgetting, 2)
    restored = bench.restore_all(forgotten, counting, 1)
    assert bench.process(restored[0], "a") == [("a", 3)]
