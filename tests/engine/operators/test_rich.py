"""Operators of function objects on a keyed stream: lifetimes, the current key, restore at any parallelism."""

from __future__ import annotations

import pytest

from onceproof.engine.durations import Time
from onceproof.engine.functions import (
    FlatMapFunction,
)
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.operators.rich import (
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedSinkOperator,
)
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Types
from tests.engine.rich import WORDS, EveryOther, New, Numbered


def test_state_with_a_lifetime_expires_for_a_flat_map(bench):
    class Once(FlatMapFunction):
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
            self.seen = runtime_context.get_state(descriptor)

        def flat_map(self, value):
            if not self.seen.value():
                self.seen.update(True)
                yield value

    operator = bench.open(KeyedFlatMapOperator(Once(), lambda value: value, Types.STRING()))
    assert bench.process(operator, "a", "a", "b") == ["a", "b"]
    bench.now = 99
    assert bench.process(operator, "a") == []
    bench.now = 100
    assert bench.process(operator, "a", "a", "b") == ["a", "b"]


def test_the_key_holds_until_the_last_result_of_a_generator(bench):
    class Around(FlatMapFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def flat_map(self, value):
            yield "before", value
            self.count.update((self.count.value() or 0) + 1)
            yield value, self.count.value()

    operator = bench.open(KeyedFlatMapOperator(Around(), lambda value: value, Types.STRING()))
    assert bench.process(operator, "a", "b", "a") == [
        ("before", "a"),
        ("a", 1),
        ("before", "b"),
        ("b", 1),
        ("before", "a"),
        ("a", 2),
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: KeyedMapOperator(Numbered(), lambda word: word, Types.STRING()),
        lambda: KeyedFilterOperator(New(), lambda word: word, Types.STRING()),
        lambda: KeyedSinkOperator(EveryOther([]), lambda word: word, Types.STRING()),
    ],
    ids=["map", "filter", "sink"],
)
def test_state_of_a_function_is_restored_at_another_parallelism(bench, make):
    """Two subtasks go on from one, each with the keys that it owns; together they answer as one would."""
    alone = bench.open(make())
    bench.process(alone, *WORDS)
    parts = bench.restore_all([alone], make, 2)
    whole = bench.restore_all([alone], make, 1)[0]

    answers = []
    for word in WORDS:
        owner = operator_index(8, 2, key_group_of(word, 8, Types.STRING()))
        answers.extend(bench.process(parts[owner], word))
    assert answers == bench.process(whole, *WORDS)
    if isinstance(whole, KeyedSinkOperator):
        written = [row for part in parts for row in part.function.rows]
        assert sorted(written) == sorted(whole.function.rows)


def test_a_sink_that_takes_whole_buffers_has_no_current_key(bench):
    class Whole(EveryOther):
        def invoke_batch(self, values):
            self.held.value()
            return True

    operator = bench.open(KeyedSinkOperator(Whole([]), lambda word: word, Types.STRING()))
    with pytest.raises(StateError, match="no current key"):
        bench.process(operator, "a", "b")
