"""The runtime mode: results after each record, or one for each key at the end of bounded input."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    DataGeneratorSource,
    Duration,
    InvalidJob,
    ProcessFunction,
    ReduceFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)

PAIRS = [("a", 1), ("b", 2), ("a", 3), ("b", 4), ("c", 9)]
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Least(ReduceFunction):
    """Keeps the lesser pair."""

    def reduce(self, value1, value2):
        return min(value1, value2)


class Seconds(TimestampAssigner):
    """The number of a pair is its second."""

    def extract_timestamp(self, value, record_timestamp):
        return 1000 * value[1]


class Watermarks(ProcessFunction):
    """Emits the timestamp of each record with the watermark before it."""

    def process_element(self, value, ctx):
        yield ctx.timestamp(), ctx.timer_service().current_watermark()


def environment(mode, **options):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode)
    return env.set_parallelism(options.get("parallelism", 1))


def results(mode, reduce, **options):
    stream = environment(mode, **options).from_collection(PAIRS, PAIR).key_by(lambda pair: pair[0])
    return list(reduce(stream).execute_and_collect())


def test_streaming_emits_after_each_record():
    emitted = results(RuntimeExecutionMode.STREAMING, lambda stream: stream.sum(1))
    assert emitted == [("a", 1), ("b", 2), ("a", 4), ("b", 6), ("c", 9)]


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.AUTOMATIC])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_bounded_input_has_one_result_for_each_key(mode, parallelism):
    emitted = results(mode, lambda stream: stream.sum(1), parallelism=parallelism)
    assert sorted(emitted) == [("a", 4), ("b", 6), ("c", 9)]


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        (lambda stream: stream.max(1), [("a", 3), ("b", 4), ("c", 9)]),
        (lambda stream: stream.min_by(1), [("a", 1), ("b", 2), ("c", 9)]),
        (lambda stream: stream.reduce(lambda one, other: (one[0], one[1] * other[1])), None),
        (lambda stream: stream.reduce(Least()), [("a", 1), ("b", 2), ("c", 9)]),
    ],
)
def test_each_rolling_reduce_emits_its_last_result(reduce, expected):
    emitted = sorted(results(RuntimeExecutionMode.BATCH, reduce))
    assert emitted == (expected or [("a", 3), ("b", 8), ("c", 9)])


def test_results_of_batch_have_the_last_timestamp_of_all():
    stream = environment(RuntimeExecutionMode.BATCH).from_collection(PAIRS, PAIR)
    emitted = stream.key_by(lambda pair: pair[0]).sum(1).process(Watermarks()).execute_and_collect()
    assert {timestamp for timestamp, _ in emitted} == {2**63 - 1}


def test_event_time_stands_still_until_the_end_of_batch():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
    strategy = strategy.with_timestamp_assigner(Seconds())
    env = environment(RuntimeExecutionMode.BATCH)
    env.get_config().set_auto_watermark_interval(1)
    stream = env.from_collection(PAIRS * 2000, PAIR).assign_timestamps_and_watermarks(strategy)
    emitted = list(stream.process(Watermarks()).execute_and_collect())
    assert emitted[:2] == [(1000, -(2**63)), (2000, -(2**63))]
    assert {watermark for _, watermark in emitted} == {-(2**63)}


def test_batch_of_a_source_without_end_is_refused_by_its_name():
    env = environment(RuntimeExecutionMode.BATCH)
    env.from_source(DataGeneratorSource(str), source_name="clicks").print()
    with pytest.raises(InvalidJob, match=r"source 'clicks'.* has no end"):
        env.execute()


def test_automatic_mode_streams_from_a_source_without_end():
    env = environment(RuntimeExecutionMode.AUTOMATIC)
    stream = env.from_source(DataGeneratorSource(str)).key_by(len)
    stream.reduce(lambda one, other: other).print()
    operators = [each.create() for vertex in env.get_job_graph().vertices for each in vertex.operators]
    assert "KeyedReduceOperator" in [type(each).__name__ for each in operators]


def test_runtime_mode_is_an_option_as_well():
    env = environment(RuntimeExecutionMode.STREAMING)
    env.get_configuration().set_string("execution.runtime-mode", "BATCH")
    stream = env.from_collection(PAIRS, PAIR).key_by(lambda pair: pair[0]).sum(1)
    assert sorted(stream.execute_and_collect()) == [("a", 4), ("b", 6), ("c", 9)]


def test_other_values_than_a_mode_are_refused():
    with pytest.raises(InvalidJob, match="takes a RuntimeExecutionMode, not 'BATCH'"):
        environment("BATCH")
