"""Declared types of sources, functions and side outputs: what a job does with the values that they emit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from onceproof.engine import (
    CollectionSource,
    Configuration,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    Row,
    StreamExecutionEnvironment,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from onceproof.engine.runtime.job_result import JobExecutionFailed

ROW = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = OutputTag("late", ROW)


@dataclass
class Reading:
    sensor: str
    celsius: float


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def collected(stream):
    return list(stream.execute_and_collect())


def refused(stream):
    """Return the one line with which the job of a stream fails."""
    with pytest.raises(JobExecutionFailed) as failed:
        collected(stream)
    message = str(failed.value)
    assert "\n" not in message
    return message.partition("failed: ")[2]


def test_rows_of_a_typed_source_are_read_by_name_and_by_index(env):
    rows = env.from_collection([("a", 1), ["b", 2], {"word": "c", "count": 3}, Row("d", 4)], ROW)
    assert collected(rows.map(lambda row: (row.word, row["count"], row[0]))) == [
        ("a", 1, "a"),
        ("b", 2, "b"),
        ("c", 3, "c"),
        ("d", 4, "d"),
    ]


@pytest.mark.parametrize("chaining", [True, False])
def test_each_function_with_a_declared_type_emits_values_of_it(chaining):
    configuration = Configuration.from_mapping({"pipeline.operator-chaining.enabled": str(chaining).lower()})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    words = env.from_collection(["a b", "b"], Types.STRING())
    rows = (
        words.flat_map(lambda line: [(word, 1) for word in line.split()], ROW)
        .key_by(lambda row: row.word)
        .reduce(lambda first, second: (first.word, first.count + second.count))
        .map(lambda row: {"count": row.count, "word": row.word}, ROW)
        .filter(lambda row: row.count > 0)
        .map(lambda row: [float(row.count), row.word], Types.TUPLE([Types.DOUBLE(), Types.STRING()]))
    )
    assert sorted(collected(rows)) == [(1.0, "a"), (1.0, "b"), (2.0, "b")]


def test_without_a_declared_type_every_value_passes_as_it_is(env):
    things = [1, "a", None, {1}, Reading("s", 1.0)]
    passed = collected(env.from_collection(things).map(lambda value: value))
    assert (passed, list(map(type, passed))) == (things, list(map(type, things)))


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1, "2"], Types.LONG(), "operator 'numbers' declares LONG: '2' (str) is no LONG"),
        (
            [("a", 1), ("b", "2")],
            PAIR,
            "operator 'numbers' declares TUPLE([STRING, LONG]): '2' (str) is no LONG (field 1 of ('b', '2'))",
        ),
        (
            [("a", [(1, 2), (3, None)])],
            Types.TUPLE([Types.STRING(), Types.LIST(Types.TUPLE([Types.INT(), Types.INT()]))]),
            "operator 'numbers' declares TUPLE([STRING, LIST(TUPLE([INT, INT]))]): None (NoneType) is no INT"
            " (field 1, element 1, field 1 of ('a', [(1, 2), (3, None)]))",
        ),
        (
            [{"word": 1}],
            ROW,
            "operator 'numbers' declares ROW(word: STRING, count: LONG): 1 (int) is no STRING"
            " (field 'word' of {'word': 1})",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(env, values, kind, message):
    mend = ": emit values of this type, or declare the type of these"
    assert refused(env.from_collection(values, kind).name("numbers")) == message + mend


def test_a_long_record_is_cut_in_the_message(env):
    message = refused(env.from_collection([("a" * 1000, "b")], PAIR))
    assert len(message) < 350
    assert "is no LONG" in message


def test_a_wrong_value_of_a_function_names_the_function_in_its_chain(env):
    numbers = env.from_collection([1, 2], Types.LONG())
    wrong = numbers.map(str, Types.LONG()).name("text").map(lambda value: value).name("next")
    assert refused(wrong).startswith("operator 'text' declares LONG: '1' (str) is no LONG")


def test_a_wrong_value_is_not_tried_again(env):
    calls = []

    def wrong(value):
        calls.append(value)
        return "x"

    env.get_configuration().set_string("restart-strategy.type", "fixed-delay")
    env.get_configuration().set_string("restart-strategy.fixed-delay.attempts", "3")
    env.get_configuration().set_string("restart-strategy.fixed-delay.delay", "0 ms")
    assert "'x' (str) is no LONG" in refused(env.from_collection([1]).map(wrong, Types.LONG()))
    assert calls == [1]


def test_a_timestamp_assigner_gets_values_of_the_declared_type(env):
    class OfCount(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value.count

    class Stamp(ProcessFunction):
        def process_element(self, value, ctx):
            yield value.word, ctx.timestamp()

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfCount())
    source = CollectionSource.of_values([("a", 5), ("b", 7)])
    stamped = env.from_source(source, strategy, "words", ROW).process(Stamp())
    assert sorted(collected(stamped)) == [("a", 5), ("b", 7)]


def test_values_that_timers_emit_have_the_declared_type(env):
    class AtTheEnd(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(10)

        def on_timer(self, timestamp: int, ctx) -> Iterator[tuple[str, int]]:
            yield [ctx.get_current_key(), 1]

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Zero())
    words = env.from_source(CollectionSource.of_values(["a", "b"]), strategy, "words", Types.STRING())
    counted = words.key_by(lambda word: word).process(AtTheEnd(), PAIR).map(type)
    assert collected(counted) == [tuple, tuple]


class _Zero(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


def test_a_side_output_has_the_type_of_its_tag(env):
    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield LATE, (value, len(value))
            yield value

    main = env.from_collection(["a", "bc"], Types.STRING()).process(Split(), Types.STRING())
    assert collected(main.get_side_output(LATE).map(lambda row: row.count)) == [1, 2]


def test_a_wrong_value_of_a_side_output_names_the_tag(env):
    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield LATE, value

    side = env.from_collection(["a"]).process(Split()).get_side_output(LATE)
    assert refused(side).startswith("side output 'late' declares ROW(word: STRING, count: LONG): 'a' (str)")


def test_objects_of_a_dataclass_are_values_of_their_type(env):
    readings = env.from_collection([Reading("s", 20.0), Reading("t", 21.5)], Types.DATACLASS(Reading))
    assert collected(readings) == [Reading("s", 20.0), Reading("t", 21.5)]
    rows = env.from_collection([Reading("s", 20.0)]).map(
        lambda reading: reading,
        Types.ROW_NAMED(["celsius", "sensor"], [Types.DOUBLE(), Types.STRING()]),
    )
    assert collected(rows) == [Row(celsius=20.0, sensor="s")]
    wrong = env.from_collection([Reading("s", "warm")], Types.DATACLASS(Reading))
    assert "'warm' (str) is no DOUBLE (field 'celsius' of Reading(" in refused(wrong)
