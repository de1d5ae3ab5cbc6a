"""Strategies, generators, and what comes of them for the records of a subtask."""

import pytest

from onceproof.engine.durations import Duration, Time
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from onceproof.engine.watermarks.generators import (
    BoundedOutOfOrdernessWatermarks,
    WatermarkGenerator,
    WatermarksWithIdleness,
)
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.watermarks.strategy import (
    TimestampAssigner,
    WatermarkGeneratorContext,
    WatermarkStrategy,
)


class Written:
    """A stream that is a list of what went down it."""

    def __init__(self):
        self.elements = []

    def emit(self, records):
        self.elements.extend(value for value, _ in records)

    def watermark(self, timestamp):
        self.elements.append(timestamp)

    def status(self, is_idle):
        self.elements.append("idle" if is_idle else "active")

    def take(self):
        elements, self.elements = self.elements, []
        return elements


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class Added(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + 1


class Punctuated(WatermarkGenerator):
    """A value that begins with w is a watermark; "idle" says that nothing comes."""

    def on_event(self, event, event_timestamp, output):
        if event.startswith("w"):
            output.emit_watermark(Watermark(int(event[1:])))
        elif event == "idle":
            output.mark_idle()
        elif event == "active":
            output.mark_active()

    def on_periodic_emit(self, output):
        pass


@pytest.fixture
def stream():
    return Written()


@pytest.fixture
def clock():
    return Clock()


def test_watermark_stays_behind_the_newest_record_by_the_bound(stream, clock):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10))
    stamping = TimestampsAndWatermarks(strategy, [0], clock, stream)
    stamping.on_periodic_emit()
    assert stream.take() == [], "no watermark before the first record"
    assert stamping.stamp(0, [("a", 30), ("b", 25)]) == [("a", 30), ("b", 25)]
    assert stream.take() == [], "none between two intervals"
    stamping.on_periodic_emit()
    assert stream.take() == [19]
    stamping.stamp(0, [("c", 29)])
    stamping.on_periodic_emit()
    assert stream.take() == [], "an older record does not take it back, and the same one is not repeated"


def test_monotonous_watermark_lets_equal_timestamps_follow(stream, clock):
    stamping = TimestampsAndWatermarks(WatermarkStrategy.for_monotonous_timestamps(), [0], clock, stream)
    stamping.stamp(0, [("a", 5)])
    stamping.on_periodic_emit()
    assert stream.take() == [4]


def test_records_without_a_timestamp_tell_nothing(stream, clock):
    stamping = TimestampsAndWatermarks(WatermarkStrategy.for_monotonous_timestamps(), [0], clock, stream)
    stamping.stamp(0, [("a", None)])
    stamping.on_periodic_emit()
    assert stream.take() == []
    stamping.stamp(0, [("a", None), ("b", 8), ("c", None)])
    stamping.on_periodic_emit()
    assert stream.take() == [7]


def test_assigner_takes_the_timestamp_out_of_the_value(stream, clock):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
    stamping = TimestampsAndWatermarks(strategy, [0], clock, stream)
    assert stamping.stamp(0, [((7, "a"), None), ((3, "b"), 99)]) == [((7, "a"), 7), ((3, "b"), 3)]


def test_assigner_gets_the_timestamp_of_the_record(stream, clock):
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Added())
    stamping = TimestampsAndWatermarks(strategy, [0], clock, stream)
    assert stamping.stamp(0, [("a", 7), ("b", None)]) == [("a", 8), ("b", MIN_WATERMARK + 1)]
    stamping.on_periodic_emit()
    assert stream.take() == []


def test_slowest_split_holds_the_watermark_back_until_it_is_over(stream, clock):
    stamping = TimestampsAndWatermarks(
        WatermarkStrategy.for_monotonous_timestamps(), [0, 1, 2], clock, stream
    )
    stamping.stamp(0, [("a", 100)])
    stamping.stamp(1, [("b", 11)])
    stamping.on_periodic_emit()
    assert stream.take() == [], "split 2 has not begun"
    stamping.remove(2)
    stamping.on_periodic_emit()
    assert stream.take() == [10]
    stamping.remove(1)
    stamping.on_periodic_emit()
    assert stream.take() == [99]
    stamping.remove(0)
    stamping.remove(0)
    stamping.on_periodic_emit()
    assert stream.take() == []


def test_idle_split_holds_nothing_back(stream, clock):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(50))
    stamping = TimestampsAndWatermarks(strategy, [0, 1], clock, stream)
    for clock.now in range(0, 70, 10):
        stamping.stamp(0, [("a", 100 + clock.now)])
        stamping.on_periodic_emit()
    assert stream.take() == [159], "split 1 was quiet for 60 ms from the first look on"
    for clock.now in range(70, 140, 10):
        stamping.on_periodic_emit()
    assert stream.take() == ["idle"]
    stamping.stamp(1, [("b", 200)])
    stamping.on_periodic_emit()
    assert stream.take() == ["active", 199]


def test_watermark_of_a_generator_comes_right_behind_its_record(stream, clock):
    strategy = WatermarkStrategy.for_generator(lambda context: Punctuated())
    stamping = TimestampsAndWatermarks(strategy, [0], clock, stream)
    values = ["a", "w5", "b", "idle", "c", "w3", "w9", "d"]
    rest = stamping.stamp(0, [(value, 1) for value in values])
    assert stream.take() == ["a", "w5", 5, "b", "idle", "idle", "c", "w3", "active", "w9", 9]
    assert rest == [("d", 1)]
    assert stamping.stamp(0, [("e", 1)]) == [("e", 1)]


def test_stream_that_counts_as_idle_while_a_part_is_active_is_an_error(stream, clock):
    strategy = WatermarkStrategy.for_generator(lambda context: Punctuated())
    stamping = TimestampsAndWatermarks(strategy, [0, 1], clock, stream)
    for part, values in ((0, ["w5", "idle"]), (1, ["w7", "idle"]), (0, ["w5"])):
        stamping.stamp(part, [(value, 1) for value in values])
        stamping.validate()
    assert stream.take()[-1] == "active"
    stamping._output.mark_idle()
    with pytest.raises(AssertionError, match="counts as idle, at 7, though one of its parts is active"):
        stamping.validate()


def test_last_active_part_may_end_before_the_stream_is_idle(stream, clock):
    strategy = WatermarkStrategy.for_generator(lambda context: Punctuated())
    stamping = TimestampsAndWatermarks(strategy, [0, 1], clock, stream)
    stamping.stamp(0, [("idle", 1)])
    stamping.remove(1)
    stamping.validate()
    stamping.on_periodic_emit()
    stamping.validate()
    assert stream.take()[-1] == "idle"


def test_end_of_data_is_passed_on_once(stream, clock):
    stamping = TimestampsAndWatermarks(WatermarkStrategy.no_watermarks(), [0], clock, stream)
    stamping.emit_final_watermark(MAX_WATERMARK)
    stamping.emit_final_watermark(MAX_WATERMARK)
    assert stream.take() == [MAX_WATERMARK]


def test_strategies_are_values(stream, clock):
    plain = WatermarkStrategy.for_monotonous_timestamps()
    other = plain.with_idleness(Duration.of_seconds(1)).with_timestamp_assigner(FirstField())
    assert isinstance(other.create_timestamp_assigner(), FirstField)
    assert plain.create_timestamp_assigner() is None
    context = WatermarkGeneratorContext(clock)
    assert isinstance(other.create_watermark_generator(context), WatermarksWithIdleness)
    assert isinstance(plain.create_watermark_generator(context), BoundedOutOfOrdernessWatermarks)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(5), "give a Duration"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1)), "not be negative"),
        (lambda: WatermarkStrategy.no_watermarks().with_idleness(Time.seconds(0)), "must be positive"),
        (lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(len), "TimestampAssigner"),
        (lambda: WatermarkStrategy.for_generator(Punctuated()), "function that makes"),
    ],
)
def test_wrong_strategies_are_refused(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()
