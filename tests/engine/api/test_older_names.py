"""Names of Flink's Java API and of its older versions: aggregations of windows, keys by position."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    CountTrigger,
    InvalidJob,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Time,
    TimeCharacteristic,
    TimestampAssigner,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from onceproof.engine.runtime import collecting

TRIPLE = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
VALUES = [("a", 5, 1), ("a", 2, 2), ("b", 7, 3), ("a", 2, 4), ("b", 9, 15)]


class Third(TimestampAssigner):
    """The third field is the time."""

    def extract_timestamp(self, value, record_timestamp):
        return value[2]


def stream(values=VALUES, kind=TRIPLE):
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection(values, kind)


def timed():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Third())
    return stream().assign_timestamps_and_watermarks(strategy)


TENS = TumblingEventTimeWindows.of(Time.milliseconds(10))
OF_WINDOWS = {
    "sum": [("a", 9, 1), ("b", 7, 3), ("b", 9, 15)],
    "min": [("a", 2, 1), ("b", 7, 3), ("b", 9, 15)],
    "max": [("a", 5, 1), ("b", 7, 3), ("b", 9, 15)],
    "min_by": [("a", 2, 2), ("b", 7, 3), ("b", 9, 15)],
    "max_by": [("a", 5, 1), ("b", 7, 3), ("b", 9, 15)],
}


@pytest.mark.parametrize("name", OF_WINDOWS)
def test_aggregation_of_a_field_for_each_window(name):
    windowed = timed().key_by(lambda value: value[0], Types.STRING()).window(TENS)
    aggregated = getattr(windowed, name)(1)
    assert aggregated.get_type() is TRIPLE
    assert sorted(aggregated.execute_and_collect()) == OF_WINDOWS[name]


def test_aggregation_over_all_keys_of_a_window():
    assert list(timed().window_all(TENS).sum(1).execute_and_collect()) == [("a", 16, 1), ("b", 9, 15)]
    assert list(timed().window_all(TENS).max_by(1).execute_and_collect()) == [("b", 7, 3), ("b", 9, 15)]


def event_time():
    """Return the timed stream, in an environment in which ``time_window`` means event time."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Third())
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.warns(DeprecationWarning, match="set_stream_time_characteristic is deprecated"):
        env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    return env.from_collection(VALUES, TRIPLE).assign_timestamps_and_watermarks(strategy)


def test_time_windows_of_event_time_by_their_older_name():
    keyed = event_time().key_by(lambda value: value[0], Types.STRING())
    with pytest.warns(DeprecationWarning, match=r"deprecated: call window with TumblingEventTimeWindows$"):
        tumbling = keyed.time_window(Time.milliseconds(10))
    assert sorted(tumbling.sum(1).execute_and_collect()) == OF_WINDOWS["sum"]
    keyed = event_time().key_by(lambda value: value[0])
    with pytest.warns(DeprecationWarning, match="SlidingEventTimeWindows$"):
        sliding = keyed.time_window(Time.milliseconds(10), Time.milliseconds(5))
    expected = timed().key_by(lambda value: value[0])
    expected = expected.window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)))
    assert sorted(sliding.sum(1).execute_and_collect()) == sorted(expected.sum(1).execute_and_collect())


class IsOfEventTime(ProcessWindowFunction):
    """Emits whether a window is one of the timestamps in VALUES, whose times are all below 100."""

    def process(self, key, context, elements):
        yield context.window().start < 100


SIZE = Time.milliseconds(10)


@pytest.mark.parametrize("lengths", [(SIZE,), (SIZE, SIZE)], ids=["tumbling", "sliding"])
@pytest.mark.parametrize(
    ("characteristic", "is_event_time"),
    [
        (None, False),
        (TimeCharacteristic.ProcessingTime, False),
        (TimeCharacteristic.IngestionTime, True),
        (TimeCharacteristic.EventTime, True),
    ],
)
def test_time_of_a_time_window_follows_the_characteristic(characteristic, is_event_time, lengths):
    env = StreamExecutionEnvironment.get_execution_environment()
    if characteristic is not None:
        with pytest.warns(DeprecationWarning, match="or TumblingProcessingTimeWindows"):
            assert env.set_stream_time_characteristic(characteristic) is env
        assert env.get_stream_time_characteristic() is characteristic
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Third())
    values = env.from_collection(VALUES, TRIPLE).assign_timestamps_and_watermarks(strategy)
    kind = "Event" if is_event_time else "Processing"
    with pytest.warns(DeprecationWarning, match=f"{kind}TimeWindows$"):
        windows = values.key_by(lambda value: value[0], Types.STRING()).time_window(*lengths)
    # Windows of the clock fire at the end of the input only if their time has come.
    seen = set(
        windows.trigger(CountTrigger.of(1)).process(IsOfEventTime(), Types.BOOLEAN()).execute_and_collect()
    )
    assert seen == {is_event_time}


def test_the_characteristic_of_the_clock_turns_periodic_watermarks_off():
    env = StreamExecutionEnvironment.get_execution_environment()
    for characteristic, interval in (
        (TimeCharacteristic.ProcessingTime, 0),
        (TimeCharacteristic.EventTime, 200),
    ):
        with pytest.warns(DeprecationWarning, match="is deprecated"):
            env.set_stream_time_characteristic(characteristic)
        assert env.get_config().get_auto_watermark_interval() == interval
    with (
        pytest.warns(DeprecationWarning, match="is deprecated"),
        pytest.raises(InvalidJob, match="takes a TimeCharacteristic, not 'EventTime'"),
    ):
        env.set_stream_time_characteristic("EventTime")


def test_key_by_position_and_by_name_of_a_field():
    with pytest.warns(DeprecationWarning, match=r"key_by\(0\) is deprecated: give a function"):
        keyed = stream().key_by(0)
    assert list(keyed.sum(1).execute_and_collect())[-1] == ("b", 16, 3)
    rows = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
    with pytest.warns(DeprecationWarning, match=r"key_by\('word'\)"):
        keyed = stream([("a", 1), ("b", 2), ("a", 3)], rows).key_by("word")
    assert [row["count"] for row in keyed.sum("count").execute_and_collect()] == [1, 2, 4]


def test_project_keeps_fields_in_the_given_order():
    projected = stream().project(2, 0)
    assert projected.get_type().name == Types.TUPLE([Types.LONG(), Types.STRING()]).name
    assert list(projected.execute_and_collect())[:2] == [(1, "a"), (2, "a")]


@pytest.mark.parametrize(
    ("words", "build"),
    [
        ("this one has no declared type", lambda: stream(kind=None).project(0)),
        ("this one has the type STRING", lambda: stream(["a"], Types.STRING()).project(0)),
        ("project has no field 3: the tuples have fields 0 to 2", lambda: stream().project(3)),
        ("project has no field True", lambda: stream().project(True)),
        ("project keeps no field", lambda: stream().project()),
    ],
)
def test_wrong_projection_is_refused(words, build):
    with pytest.raises(InvalidJob, match=words):
        build()


def test_collecting_sink_runs_in_one_subtask(monkeypatch):
    graphs = []
    start = collecting.start_collecting
    monkeypatch.setattr(collecting, "start_collecting", lambda graph: (graphs.append(graph), start(graph))[1])
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(4)
    assert sorted(env.from_collection(range(9)).rebalance().map(abs).execute_and_collect()) == list(range(9))
    (graph,) = graphs
    assert {each.name: each.parallelism for each in graph.vertices} == {
        "Collection Source": 1,
        "Map": 4,
        "Data stream collect sink": 1,
    }


def test_default_savepoint_directory_is_an_option():
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.get_default_savepoint_directory() is None
    assert env.set_default_savepoint_directory("points").get_default_savepoint_directory() == "points"
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
