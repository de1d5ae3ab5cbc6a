"""Map, filter, flat-map and process: inputs, outputs and their timestamps."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.functions import FilterFunction, FlatMapFunction, MapFunction, ProcessFunction
from onceproof.engine.operators.process import ProcessOperator
from onceproof.engine.operators.stateless import FilterOperator, FlatMapOperator, MapOperator


class Double(MapFunction):
    def map(self, value):
        return value * 2


class Odd(FilterFunction):
    def filter(self, value):
        return value % 2


class Repeat(FlatMapFunction):
    def flat_map(self, value):
        for _ in range(value):
            yield value


class Nothing(FlatMapFunction):
    def flat_map(self, value):
        return None


class WithTimestamp(ProcessFunction):
    def process_element(self, value, ctx):
        if value is None:
            return None
        return [(value, ctx.timestamp(), ctx.current_processing_time())]


RECORDS = [(1, 10), (2, None), (3, 30)]


def test_map_replaces_each_value_and_keeps_its_timestamp(bench):
    operator = bench.open(MapOperator(Double()))
    assert bench.process(operator, *RECORDS, timestamps=True) == [(2, 10), (4, None), (6, 30)]


def test_filter_keeps_records_as_they_are(bench):
    operator = bench.open(FilterOperator(Odd()))
    kept = bench.process(operator, *RECORDS, timestamps=True)
    assert kept == [(1, 10), (3, 30)]
    assert kept[0] is RECORDS[0]


def test_flat_map_gives_any_number_in_order_with_the_timestamp_of_the_input(bench):
    operator = bench.open(FlatMapOperator(Repeat()))
    assert bench.process(operator, (0, 5), *RECORDS, timestamps=True) == [
        (1, 10),
        (2, None),
        (2, None),
        (3, 30),
        (3, 30),
        (3, 30),
    ]


def test_flat_map_that_returns_none_is_refused(bench):
    with pytest.raises(TypeError, match="flat_map returned None: return a list"):
        bench.process(bench.open(FlatMapOperator(Nothing())), 1, 2)


def test_process_sees_timestamp_and_time(bench):
    bench.now = 99
    operator = bench.open(ProcessOperator(WithTimestamp()))
    assert bench.process(operator, (1, 10), (None, 20), (3, None), timestamps=True) == [
        ((1, 10, 99), 10),
        ((3, MIN_WATERMARK, 99), None),
    ]


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        (MapOperator, Double),
        (FilterOperator, Odd),
        (FlatMapOperator, Repeat),
        (ProcessOperator, WithTimestamp),
    ],
)
def test_a_function_is_opened_with_its_context_and_closed(bench, operator, function):
    calls = []

    class Watched(function):
        def open(self, runtime_context):
            assert self.get_runtime_context() is runtime_context
            calls.append(("open", runtime_context.get_index_of_this_subtask()))

        def close(self):
            calls.append("close")

    made = bench.open(operator(Watched()), subtask=1, parallelism=2)
    made.close()
    assert calls == [("open", 1), "close"]


def test_operators_without_state_contribute_nothing_to_a_snapshot(bench):
    for operator in (MapOperator(Double()), FilterOperator(Odd()), ProcessOperator(WithTimestamp())):
        bench.open(operator)
        assert operator.snapshot(1, 0) is None
        assert operator.prepare_snapshot(1) == []
        assert operator.finish() == []


def test_exception_of_a_function_propagates(bench):
    operator = bench.open(FilterOperator(Odd()))
    with pytest.raises(TypeError):
        bench.process(operator, "no number")
