"""A job that is accepted at parallelism 1 is accepted with equal rows at 2 and 3, and refused keys by all."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings

from onceproof.engine import (
    AggregateFunction,
    Configuration,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    ProcessWindowFunction,
    Row,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    TimestampAssigner,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.engine.drawn_keys import KEYS_AND_TYPES, shown


class Count(KeyedProcessFunction):
    """Emits each key with its running count."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield shown(ctx.get_current_key()), count


def rows_of(keys: list[Any], key_type: Any, parallelism: int, mode: str = "STREAMING") -> Counter[Any] | None:
    """Return the rows of a counting job, or None if it refuses a key."""
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_mapping({"execution.runtime-mode": mode})
    )
    environment.set_parallelism(parallelism)
    places = environment.from_collection(list(range(len(keys))), Types.LONG())
    counted = places.key_by(lambda place: keys[place], key_type).process(Count())
    try:
        with counted.execute_and_collect() as rows:
            return Counter(rows)
    except JobExecutionFailed as error:
        if "InvalidKey" not in str(error):
            raise
        return None


@settings(max_examples=40, deadline=None)
@given(KEYS_AND_TYPES)
def test_rows_of_a_keyed_job_are_the_same_at_each_parallelism(keys_and_type):
    keys, key_type = keys_and_type
    alone = rows_of(keys, key_type, 1)
    assert rows_of(keys, key_type, 2) == alone
    assert rows_of(keys, key_type, 3) == alone
    assert rows_of(keys, key_type, 2, "BATCH") == alone
    if alone is not None:
        numbers = Counter(map(shown, keys))
        assert alone == Counter((key, place + 1) for key, most in numbers.items() for place in range(most))


@pytest.mark.parametrize("key", [[1], {1: 2}, bytearray(b"a"), object()], ids=lambda key: type(key).__name__)
@pytest.mark.parametrize("parallelism", [1, 200])
def test_key_of_no_declared_type_is_refused_at_the_first_record(key, parallelism):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    numbers = environment.from_collection([1])
    counted = numbers.key_by(lambda value: key).process(Count()).name("count").set_parallelism(parallelism)
    with pytest.raises(
        JobExecutionFailed, match=f"count.*of type {type(key).__name__} cannot be a key: .*give"
    ):
        counted.execute_and_collect(limit=1)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("key_type", "key", "words"),
    [
        (Types.LONG(), 1 << 63, "is no LONG: .*declare Types.BIG_INT"),
        (Types.INT(), -(1 << 31) - 1, "is no INT: .*declare Types.LONG"),
        (Types.CHAR(), "ab", "is no CHAR"),
        (Types.LONG(), True, "is no LONG"),
        (Types.BOOLEAN(), 1, "is no BOOLEAN"),
    ],
    ids=repr,
)
def test_key_beyond_its_declared_type_is_refused_at_the_first_record(key_type, key, words, parallelism):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(parallelism)
    fitting = {"BOOLEAN": True, "CHAR": "a"}.get(key_type.name, 1)
    # The key that fits comes first, and equals the one that does not in two of the cases.
    numbers = environment.from_collection([fitting, key])
    counted = numbers.key_by(lambda value: value, key_type).process(Count()).name("count")
    with pytest.raises(JobExecutionFailed, match=f"count.*{key!r} .*{words}"):
        counted.execute_and_collect(limit=3)


class Total(KeyedProcessFunction):
    """Adds numbers in a state of LONG."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("total", Types.LONG())
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        self.total = runtime_context.get_state(descriptor)

    def process_element(self, value: int, ctx: Any) -> Any:
        self.total.update((self.total.value() or 0) + value)
        yield self.total.value()


@pytest.mark.parametrize(
    "ttl", [None, StateTtlConfig.new_builder(Time.hours(1)).build()], ids=["plain", "ttl"]
)
@pytest.mark.parametrize("number", [1 << 62, -(1 << 62) - 1])
def test_state_of_long_beyond_64_bits_is_refused_when_it_is_written(ttl, number):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    numbers = environment.from_collection([number, number])
    totals = numbers.key_by(lambda value: 0).process(Total(ttl)).name("total")
    with pytest.raises(
        JobExecutionFailed, match=f"operator 'total', state 'total': {2 * number} .*is no LONG"
    ):
        totals.execute_and_collect(limit=3)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_key_is_refused_where_no_operator_looks_at_it(parallelism):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(parallelism)
    numbers = environment.from_collection([1, 2], Types.LONG())
    doubled = numbers.key_by(lambda value: {value}).map(lambda value: 2 * value).name("double")
    with pytest.raises(JobExecutionFailed, match=r"on the way to double.*of type set cannot be a key"):
        doubled.execute_and_collect(limit=1)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_key_that_equals_an_earlier_one_is_refused_where_no_operator_looks_at_it(parallelism):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(parallelism)
    numbers = environment.from_collection([1, 1, True])
    doubled = numbers.key_by(lambda value: value, Types.LONG()).map(lambda value: value).name("double")
    with pytest.raises(JobExecutionFailed, match=r"on the way to double.*True \(bool\) is no LONG"):
        doubled.execute_and_collect(limit=4)


@pytest.mark.parametrize(
    ("key_type", "words"),
    [
        (Types.LIST(Types.STRING()), "LIST.STRING. cannot be a key type: choose"),
        (Types.MAP(Types.STRING(), Types.LONG()), "MAP.* cannot be a key type"),
        (Types.TUPLE([Types.LONG(), Types.LIST(Types.STRING())]), "LIST.* cannot be a key type"),
        (Types.ROW([Types.MAP(Types.STRING(), Types.LONG())]), "MAP.* cannot be a key type"),
    ],
    ids=repr,
)
def test_declared_type_that_is_no_key_type_is_refused_when_the_job_is_built(key_type, words):
    environment = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(TypeError, match=words):
        environment.from_collection([1]).key_by(lambda value: value, key_type)


UNLIKE = [1, 1.0, True, 0.0, -0.0, float("nan"), None, Row("a", None), date(2026, 1, 1), ("a", 1.0)]


class AtEnd(KeyedProcessFunction):
    """Emits the number of a key's records from a timer."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield shown(ctx.get_current_key()), self.count.value()


class InWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield shown(key), len(list(elements))


class Both(KeyedCoProcessFunction):
    """Counts the records of both inputs together."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: int, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == 2:
            yield shown(ctx.get_current_key()), count

    process_element2 = process_element1


class Size(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class AtZero(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return 0


def key_of(place: int) -> Any:
    return UNLIKE[place % len(UNLIKE)]


def twice_each(environment: StreamExecutionEnvironment) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AtZero())
    places = environment.from_collection(list(range(2 * len(UNLIKE))), Types.LONG())
    return places.assign_timestamps_and_watermarks(strategy)


def once_each(environment: StreamExecutionEnvironment) -> KeyedStream:
    return environment.from_collection(list(range(len(UNLIKE))), Types.LONG()).key_by(key_of)


PIPELINES = {
    "timers": lambda env: twice_each(env).key_by(key_of).process(AtEnd()),
    "windows": lambda env: (
        twice_each(env)
        .key_by(key_of)
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .process(InWindow())
    ),
    "two inputs": lambda env: once_each(env).connect(once_each(env)).process(Both()),
    "reduce": lambda env: (
        twice_each(env)
        .map(
            lambda place: (shown(key_of(place)), place, 1), Types.TUPLE([Types.STRING(), *[Types.LONG()] * 2])
        )
        .key_by(lambda row: key_of(row[1]))
        .sum(2)
        .filter(lambda row: row[2] == 2)
        .map(lambda row: (row[0], row[2]))
    ),
    "bundles": lambda env: (
        twice_each(env).key_by(key_of).bundle(100).aggregate(Size()).map(lambda row: (shown(row[0]), row[1]))
    ),
}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_each_operator_tells_equal_keys_apart_and_sees_them_as_they_are(pipeline, parallelism):
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(parallelism)
    with PIPELINES[pipeline](environment).execute_and_collect() as rows:
        assert Counter(map(tuple, rows)) == Counter((shown(key), 2) for key in UNLIKE)
