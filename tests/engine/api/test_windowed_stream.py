"""Windowed streams in a job: from the API calls to the emitted rows."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    AllWindowFunction,
    CollectionSource,
    CountEvictor,
    CountTrigger,
    Duration,
    EventTimeSessionWindows,
    EventTimeTrigger,
    InvalidJob,
    NeverTrigger,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Time,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    Watermark,
    WatermarkGenerator,
    WatermarkStrategy,
    WindowFunction,
)
from tests.engine.counting import Count

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
IN_ORDER = WatermarkStrategy.for_monotonous_timestamps()


class Spans(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, sum(number for _, number in elements)


class AllSpans(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, len(list(elements))


class EachRecord(WatermarkGenerator):
    """Emits a watermark at every timestamp."""

    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output):
        pass


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, list(inputs))]


class ApplyAll(AllWindowFunction):
    def apply(self, window, inputs):
        return [list(inputs)]


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def pairs(env, strategy=IN_ORDER, **splits):
    """Return a stream of (key, number) from splits of (key, number, timestamp)."""
    source = CollectionSource(
        {name: [((key, number), at) for key, number, at in records] for name, records in splits.items()}
    )
    return env.from_source(source, strategy, "pairs", PAIR)


def first(value):
    return value[0]


def keyed(env, **splits):
    return pairs(env, **splits).key_by(first, Types.STRING())


RECORDS = [("a", 1, 1), ("b", 2, 4), ("a", 4, 9), ("a", 8, 12), ("b", 16, 25)]


def rows(stream):
    return sorted(stream.execute_and_collect())


def test_tumbling_windows_of_two_splits(env):
    windowed = keyed(env, x=RECORDS, y=[("a", 32, 2), ("b", 64, 21)]).window(
        TumblingEventTimeWindows.of(Time.milliseconds(10))
    )
    added = windowed.reduce(lambda one, other: (one[0], one[1] + other[1]), Spans())
    assert rows(added) == [("a", 0, 10, 37), ("a", 10, 20, 8), ("b", 0, 10, 2), ("b", 20, 30, 80)]


def test_sliding_windows(env):
    windowed = keyed(env, x=RECORDS).window(
        SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    )
    assert rows(windowed.process(Spans())) == [
        ("a", -5, 5, 1),
        ("a", 0, 10, 5),
        ("a", 5, 15, 12),
        ("a", 10, 20, 8),
        ("b", -5, 5, 2),
        ("b", 0, 10, 2),
        ("b", 20, 30, 16),
        ("b", 25, 35, 16),
    ]


def test_sessions_with_late_records_in_a_side_output(env):
    env.get_config().set_auto_watermark_interval(0)
    tag = OutputTag("late", PAIR)
    strategy = WatermarkStrategy.for_generator(lambda context: EachRecord())
    stream = pairs(env, strategy, x=[*RECORDS, ("a", 128, 3)]).key_by(first, Types.STRING())
    windowed = stream.window(EventTimeSessionWindows.with_gap(Time.milliseconds(4)))
    summed = windowed.side_output_late_data(tag).process(Spans())
    late = summed.get_side_output(tag).map(lambda pair: ("late", *pair))
    found = summed.map(lambda row: ("session", *row)).union(late)
    assert rows(found) == [
        ("late", "a", 128),
        ("session", "a", 1, 5, 1),
        ("session", "a", 9, 16, 12),
        ("session", "b", 4, 8, 2),
        ("session", "b", 25, 29, 16),
    ]


def test_windows_over_all_records_run_in_one_subtask(env):
    windowed = pairs(env, x=RECORDS).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    counted = windowed.process(AllSpans())
    assert rows(counted) == [(0, 3), (10, 1), (20, 1)]
    windowed = pairs(env, x=RECORDS).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    counted = windowed.aggregate(Count(), ApplyAll())
    (vertex,) = [
        vertex for vertex in env.get_job_graph().vertices if vertex.name == "TumblingEventTimeWindows"
    ]
    assert vertex.parallelism == 1
    assert rows(counted) == [[1], [1], [3]]


def test_count_windows(env):
    stream = keyed(env, x=[("a", number, None) for number in range(1, 8)])
    assert rows(stream.count_window(3).aggregate(Count(), Apply())) == [("a", [3]), ("a", [3])]
    stream = keyed(env, x=[("a", number, None) for number in range(1, 8)])
    numbers = [
        [number for _, number in held]
        for _, held in stream.count_window(3, 2).apply(Apply()).execute_and_collect()
    ]
    assert numbers == [[1, 2, 3], [3, 4, 5], [5, 6, 7]]


def test_windows_follow_watermarks_assigned_mid_stream(env):
    stream = pairs(env, None, x=RECORDS).map(lambda pair: pair, PAIR)
    stream = stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    )
    windowed = stream.key_by(first, Types.STRING()).window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    assert rows(windowed.process(Spans())) == [("a", 0, 20, 13), ("b", 0, 20, 2), ("b", 20, 40, 16)]


def test_operator_is_named_after_its_windows_and_keeps_the_types(env):
    windowed = keyed(env, x=RECORDS).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    assert windowed.get_input_type() is PAIR
    assert windowed.get_execution_environment() is env
    reduced = windowed.reduce(lambda one, other: other)
    assert reduced.get_name() == "TumblingEventTimeWindows"
    assert reduced.get_type() is PAIR
    assert windowed.reduce(lambda one, other: other, Spans()).get_type() is None


WRONG = {
    "window takes a WindowAssigner": lambda stream: stream.window(Time.seconds(5)),
    "trigger takes a Trigger": lambda stream: tens(stream).trigger("count"),
    "evictor takes an Evictor": lambda stream: tens(stream).evictor(5),
    "allowed lateness is -1": lambda stream: tens(stream).allowed_lateness(-1),
    "nothing is late for TumblingProcessingTimeWindows": lambda stream: stream.window(
        TumblingProcessingTimeWindows.of(Time.seconds(5))
    ).allowed_lateness(5),
    "side_output_late_data takes an OutputTag": lambda stream: tens(stream).side_output_late_data("late"),
    "reduce takes a function": lambda stream: tens(stream).reduce(5),
    "aggregate takes an AggregateFunction": lambda stream: tens(stream).aggregate(max),
    "apply of WindowedStream takes a WindowFunction": lambda stream: tens(stream).apply(Spans()),
    "process of WindowedStream takes a ProcessWindowFunction": lambda stream: tens(stream).process(Apply()),
    "process of AllWindowedStream takes a ProcessAllWindowFunction": lambda stream: stream.window_all(
        TumblingEventTimeWindows.of(Time.seconds(1))
    ).process(Spans()),
    "the window function of reduce must be a WindowFunction or ProcessWindowFunction": lambda stream: tens(
        stream
    ).reduce(max, AllSpans()),
    "EventTimeSessionWindows merges windows, which NeverTrigger cannot": lambda stream: (
        stream.window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
        .trigger(NeverTrigger())
        .process(Spans())
    ),
    "a count window needs a size of at least 1 record": lambda stream: stream.count_window(-1),
    "a count window needs a slide of at least 1 record": lambda stream: stream.count_window(2, -1),
}


def tens(stream):
    return stream.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


@pytest.mark.parametrize("words", WRONG)
def test_invalid_window_description_is_refused_while_the_job_is_built(env, words):
    with pytest.raises(ValueError, match=words):
        WRONG[words](keyed(env, x=RECORDS))


def test_window_settings_reach_the_operator(env):
    tag = OutputTag("late")
    windowed = tens(keyed(env, x=RECORDS)).trigger(EventTimeTrigger.create()).evictor(CountEvictor.of(2))
    windowed.allowed_lateness(7).side_output_late_data(tag).process(Spans())
    settings = env.get_job_graph().vertices[-1].operators[0].create().settings
    assert settings.allowed_lateness_ms == 7
    assert settings.late_tag == "late"
    assert isinstance(settings.trigger, EventTimeTrigger)
    assert isinstance(settings.evictor, CountEvictor)
    assert settings.key_type is Types.STRING()
    assert not isinstance(settings.trigger, CountTrigger)


def test_window_without_an_assigner_is_an_invalid_job(env):
    with pytest.raises(InvalidJob):
        keyed(env, x=RECORDS).window(None)
