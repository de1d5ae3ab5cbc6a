"""Function objects on a keyed stream have keyed state: the first programs of the textbooks."""

from __future__ import annotations

import uuid

import pytest

from onceproof.engine import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Configuration,
    FlatMapFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.engine.rich import WORDS, EveryOther, New, Numbered, SumAndCount

PAIR = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
ONE_KEY = [(1, 3.0), (1, 5.0), (1, 7.0), (1, 4.0), (1, 2.0)]
TWO_KEYS = [(1, 3.0), (1, 5.0), (1, 7.0), (2, 4.0), (2, 2.0), (2, 6.0)]
BACKENDS = ["hashmap", "rocksdb"]


def first(pair):
    return pair[0]


def run(function, values, backend):
    """Return what ``key_by(first).flat_map(function)`` emits."""
    configuration = Configuration.from_mapping({"state.backend.type": backend})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection(values, PAIR).key_by(first, Types.LONG()).flat_map(function)
    return list(stream.execute_and_collect())


class CountTo100(FlatMapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def flat_map(self, value):
        count = (self.count.value() or 0) + 1
        if count == 100:
            yield f"state: {count}"
            self.count.clear()
        else:
            self.count.update(count)


class AverageByValue(FlatMapFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", PAIR))

    def flat_map(self, value):
        count, total = self.total.value() or (0, 0.0)
        self.total.update((count + 1, total + value[1]))
        if count:
            yield value[0], (total + value[1]) / (count + 1)


class AverageByList(FlatMapFunction):
    def open(self, runtime_context):
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", PAIR))

    def flat_map(self, value):
        self.values.add(value)
        values = [number for _, number in self.values.get()]
        return [(value[0], sum(values) / len(values))] if len(values) >= 3 else []


class AverageByMap(FlatMapFunction):
    def open(self, runtime_context):
        descriptor = MapStateDescriptor("values", Types.STRING(), Types.DOUBLE())
        self.values = runtime_context.get_map_state(descriptor)

    def flat_map(self, value):
        self.values.put(str(uuid.uuid4()), value[1])
        values = list(self.values.values())
        if len(values) >= 3:
            yield value[0], sum(values) / len(values)


class AverageByReducing(FlatMapFunction):
    def open(self, runtime_context):
        descriptor = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.DOUBLE())
        self.sum = runtime_context.get_reducing_state(descriptor)
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def flat_map(self, value):
        self.sum.add(value[1])
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.sum.get() / self.count.value()


class Concatenation(AggregateFunction):
    def create_accumulator(self):
        return "Contains"

    def add(self, value, accumulator):
        return f"{accumulator}-{value}"

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Contains(FlatMapFunction):
    def open(self, runtime_context):
        descriptor = AggregatingStateDescriptor("text", Concatenation(), Types.STRING())
        self.text = runtime_context.get_aggregating_state(descriptor)

    def flat_map(self, value):
        self.text.add(value[1])
        yield self.text.get()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("function", "values", "rows"),
    [
        (CountTo100(), [(1, 1.0)] * 250, ["state: 100"] * 2),
        (AverageByValue(), ONE_KEY, [(1, 4.0), (1, 5.0), (1, 4.75), (1, 4.2)]),
        (AverageByList(), TWO_KEYS, [(1, 5.0), (2, 4.0)]),
        (AverageByMap(), TWO_KEYS, [(1, 5.0), (2, 4.0)]),
        (AverageByReducing(), TWO_KEYS, [(1, 3.0), (1, 4.0), (1, 5.0), (2, 4.0), (2, 3.0), (2, 4.0)]),
        (
            Contains(),
            TWO_KEYS,
            [
                "Contains-3.0",
                "Contains-3.0-5.0",
                "Contains-3.0-5.0-7.0",
                "Contains-4.0",
                "Contains-4.0-2.0",
                "Contains-4.0-2.0-6.0",
            ],
        ),
    ],
    ids=["count", "value", "list", "map", "reducing", "aggregating"],
)
def test_a_flat_map_function_has_each_kind_of_state(function, values, rows, backend):
    assert run(function, values, backend) == rows


def keyed_words():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env, env.from_collection(WORDS, Types.STRING()).key_by(lambda word: word, Types.STRING())


def test_a_map_function_has_the_state_of_the_key():
    _, words = keyed_words()
    assert words.map(Numbered()).execute_and_collect(limit=6) == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("a", 3),
        ("b", 2),
        ("c", 1),
    ]


def test_a_filter_function_has_the_state_of_the_key():
    _, words = keyed_words()
    assert list(words.filter(New()).execute_and_collect()) == ["a", "b", "c"]


def test_a_reduce_function_has_state_beside_the_reduced_value():
    env = StreamExecutionEnvironment.get_execution_environment()
    pairs = env.from_collection([("a", 1), ("b", 5), ("a", 2), ("b", 5), ("a", 4)])
    rows = list(pairs.key_by(first).reduce(SumAndCount()).execute_and_collect())
    assert rows == [("a", 1), ("b", 5), ("a", 3, 1), ("b", 10, 1), ("a", 7, 2)]


def test_a_sink_function_has_the_state_of_the_key():
    env, words = keyed_words()
    rows = []
    words.add_sink(EveryOther(rows))
    env.execute()
    assert rows == ["a", "b"]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Silence(ProcessFunction):
    """Emits a key when nothing of it came for 10 ms of event time."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp, ctx):
        if timestamp == self.last.value() + 10:
            yield ctx.get_current_key(), timestamp


def test_a_plain_process_function_has_state_and_timers():
    env = StreamExecutionEnvironment.get_execution_environment()
    clicks = env.from_collection([("a", 1), ("b", 2), ("a", 5), ("b", 30)])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    timed = clicks.assign_timestamps_and_watermarks(strategy)
    rows = list(timed.key_by(first, Types.STRING()).process(Silence()).execute_and_collect())
    assert sorted(rows) == [("a", 15), ("b", 40)]


def test_state_without_key_by_names_the_mend():
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection(WORDS, Types.STRING())
    unkeyed = words.key_by(lambda word: word).map(lambda word: word).map(Numbered())
    with pytest.raises(
        JobExecutionFailed, match=r"'count' of .* needs a keyed stream: call key_by directly before"
    ):
        unkeyed.execute_and_collect(limit=1)
