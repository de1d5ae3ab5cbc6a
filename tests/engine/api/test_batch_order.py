"""BATCH mode: broadcast inputs come first, and keyed operators get one key after another, sorted by time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from onceproof.engine import (
    BroadcastProcessFunction,
    Configuration,
    ConfigurationError,
    ContinuousEventTimeTrigger,
    Encoder,
    FileSink,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Time,
    TimestampAssigner,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
MIN, MAX = -(2**63), 2**63 - 1


class SecondField(TimestampAssigner):
    """The timestamp is the second field."""

    def extract_timestamp(self, value, record_timestamp):
        return value[1]


TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


def environment(parallelism=1, **options):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env.set_parallelism(parallelism)


def pairs(env, records):
    return env.from_collection(records, PAIR).assign_timestamps_and_watermarks(TIMED)


def by_name(value):
    return value[0]


class Tell(KeyedProcessFunction):
    """Emits each record with the watermark and the number of records of its key so far."""

    def open(self, runtime_context):
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        seen = (self._seen.value() or 0) + 1
        self._seen.update(seen)
        yield (*value, seen, ctx.timer_service().current_watermark())


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("memory", ["128 mb", "1 b"])
def test_records_of_a_key_come_together_in_the_order_of_their_time(parallelism, memory):
    env = environment(parallelism, **{"execution.sorted-inputs.memory": memory})
    records = [(name, (time * 7) % 50) for time in range(50) for name in "abc"]
    emitted = list(pairs(env, records).key_by(by_name, Types.STRING()).process(Tell()).execute_and_collect())
    for name in "abc":
        assert [each for each in emitted if each[0] == name] == [
            (name, time, time + 1, MIN) for time in range(50)
        ]
    names = [each[0] for each in emitted]
    if parallelism == 1:
        assert sum(one != other for one, other in pairwise(names)) == 2


def test_records_without_a_timestamp_keep_their_order():
    env = environment()
    records = [("b", 9), ("a", 5), ("b", 1), ("a", 2)]
    keyed = env.from_collection(records, PAIR).key_by(by_name, Types.STRING())
    assert [each[:2] for each in keyed.process(Tell()).execute_and_collect()] == [
        ("a", 5),
        ("a", 2),
        ("b", 9),
        ("b", 1),
    ]


class Timers(KeyedProcessFunction):
    """Registers timers from records and from timers."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10)
        ctx.timer_service().register_processing_time_timer(2**62)
        yield "record", value, ctx.timer_service().current_watermark()

    def on_timer(self, timestamp, ctx):
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        yield "timer", timestamp, ctx.timer_service().current_watermark()


def test_timers_fire_at_the_end_of_their_key_and_register_none():
    env = environment()
    stream = env.from_collection([1, 2, 1], Types.LONG()).key_by(lambda value: value, Types.LONG())
    fired = [("timer", 10, MAX), ("timer", 2**62, MAX)]
    assert list(stream.process(Timers()).execute_and_collect()) == [
        ("record", 1, MIN),
        ("record", 1, MIN),
        *fired,
        ("record", 2, MIN),
        *fired,
    ]


RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class Rules(BroadcastProcessFunction):
    """Counts the rules that an element sees."""

    def process_element(self, value, ctx):
        yield value, len(list(ctx.get_broadcast_state(RULES).items()))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value, value)


class KeyedRules(KeyedBroadcastProcessFunction):
    """The same on a keyed stream."""

    def process_element(self, value, ctx):
        yield value, len(list(ctx.get_broadcast_state(RULES).items()))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value, value)


@pytest.mark.parametrize("is_keyed", [False, True])
def test_each_element_sees_all_rules(is_keyed):
    env = environment()
    rules = env.from_collection(range(3000), Types.LONG()).broadcast(RULES)
    elements = env.from_collection([7, 8, 3], Types.LONG())
    if is_keyed:
        elements = elements.key_by(lambda value: value, Types.LONG())
    seen = list(elements.connect(rules).process(KeyedRules() if is_keyed else Rules()).execute_and_collect())
    assert sorted(seen) == [(3, 3000), (7, 3000), (8, 3000)]
    if not is_keyed:
        assert [value for value, _ in seen] == [7, 8, 3]


class Sides(KeyedCoProcessFunction):
    """Names the input of each record."""

    def process_element1(self, value, ctx):
        yield "first", *value

    def process_element2(self, value, ctx):
        yield "second", *value


def test_two_keyed_inputs_are_merged_by_time():
    env = environment()
    first = pairs(env, [("a", 5), ("b", 1), ("a", 1)]).key_by(by_name, Types.STRING())
    second = pairs(env, [("b", 7), ("a", 4), ("a", 9)]).key_by(by_name, Types.STRING())
    assert list(first.connect(second).process(Sides()).execute_and_collect()) == [
        ("first", "a", 1),
        ("second", "a", 4),
        ("first", "a", 5),
        ("second", "a", 9),
        ("first", "b", 1),
        ("second", "b", 7),
    ]


def test_nothing_is_late_and_a_continuous_trigger_fires_once_before_the_end():
    env = environment()
    late = OutputTag("late", PAIR)
    windows = (
        pairs(env, [("a", 95), ("a", 3), ("a", 12)])
        .key_by(by_name, Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(10)))
        .side_output_late_data(late)
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )
    assert list(windows.execute_and_collect()) == [("a", 110), ("a", 110)]


def test_a_stateless_function_behind_key_by_gets_sorted_records():
    env = environment()
    keyed = pairs(env, [("b", 9), ("a", 5), ("b", 1)]).key_by(by_name, Types.STRING())
    assert list(keyed.map(lambda value: value[1], Types.LONG()).execute_and_collect()) == [5, 1, 9]


class FailsOnce(ProcessFunction):
    """Raises at the first record of the first attempt."""

    def __init__(self, mark):
        self._mark = mark

    def process_element(self, value, ctx):
        if not self._mark.exists():
            self._mark.write_text("failed")
            raise OSError("the first attempt fails")
        yield value


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stage_begins_again_at_its_inputs_when_a_task_fails(tmp_path, workers):
    options = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.interval": "20 ms",
        "execution.local.workers": workers,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = environment(2, **options)
    records = [(name, time) for time in range(400, 0, -1) for name in "abcd"]
    counted = pairs(env, records).key_by(by_name, Types.STRING()).process(Tell())
    failing = counted.process(FailsOnce(tmp_path / "mark")).map(str, Types.STRING())
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    failing.sink_to(sink)
    env.execute("fails once")
    assert (tmp_path / "mark").exists()
    lines = [line for part in (tmp_path / "out").rglob("part-*") for line in part.read_text().splitlines()]
    expected = [str((name, time, time, MIN)) for name in "abcd" for time in range(1, 401)]
    assert sorted(lines) == sorted(expected)


def test_no_checkpoint_completes_in_the_middle_of_the_input(tmp_path):
    env = environment(
        **{
            "execution.checkpointing.dir": str(tmp_path),
            "execution.checkpointing.interval-records": 10,
        }
    )
    pairs(env, [("a", time) for time in range(3000)]).key_by(by_name, Types.STRING()).process(Tell()).print()
    result = env.execute("once")
    assert result.checkpoints == 1


def test_memory_of_sorted_inputs_must_be_an_amount():
    with pytest.raises(ConfigurationError, match=r"execution.sorted-inputs.memory"):
        environment(**{"execution.sorted-inputs.memory": "much"})
