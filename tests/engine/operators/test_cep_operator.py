"""Patterns on streams: times, order, late events, matches that run out of time, and restored state."""

from __future__ import annotations

from threading import Lock

import pytest

from onceproof.engine import OutputTag, StreamExecutionEnvironment, Types
from onceproof.engine.cep import (
    CEP,
    IterativeCondition,
    MalformedPatternException,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    WithinType,
)
from onceproof.engine.cep.pattern_operator import CepOperator, PatternSettings
from onceproof.engine.durations import Duration
from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.graph import InvalidJob

LATE = OutputTag("late")
OUT_OF_TIME = OutputTag("out of time")
EVENT = Types.TUPLE([Types.STRING(), Types.STRING()])


def of(letter):
    return lambda event: event[1].startswith(letter)


def a_then_b(within_ms=10):
    pattern = Pattern.begin("a").where(of("a")).followed_by("b").where(of("b"))
    return pattern.within(Duration.of_millis(within_ms))


def text(match):
    return " ".join(event[1] for events in match.values() for event in events)


class Emit(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        yield text(match), ctx.timestamp()

    def process_timed_out_match(self, match, ctx):
        yield OUT_OF_TIME, (text(match), ctx.timestamp())


class EmitPlainly(Emit):
    def process_timed_out_match(self, match, ctx):
        yield text(match)


def operator(pattern=None, function=Emit, **settings):
    settings = PatternSettings(pattern or a_then_b(), event_type=EVENT, **settings)
    return CepOperator(function(), settings, lambda event: event[0], Types.STRING())


def feed(subtask, *events, key="k"):
    """Process "a1@5": an event and its time."""
    split = [event.split("@") for event in events]
    return subtask.process_batch([((key, name), int(time)) for name, time in split], 0)


def test_events_wait_for_the_watermark_and_match_by_time(bench):
    subtask = bench.open(operator())
    assert feed(subtask, "b1@4", "a1@3", "a2@5", "b2@9") == []
    assert subtask.process_watermark(4) == [(("a1 b1", 4), 4)]
    assert subtask.process_watermark(8) == []
    assert subtask.process_watermark(9) == [(("a2 b2", 9), 9)]


def test_keys_do_not_meet(bench):
    subtask = bench.open(operator())
    feed(subtask, "a1@3", key="one")
    feed(subtask, "b1@4", key="other")
    assert subtask.process_watermark(MAX_WATERMARK) == []


def test_comparator_orders_events_of_a_time(bench):
    events = "b1@4", "a1@4"
    assert feed(subtask := bench.open(operator()), *events) == []
    assert subtask.process_watermark(5) == []
    by_name = operator(comparator=lambda one, other: (one > other) - (one < other))
    assert feed(subtask := bench.open(by_name), *events) == []
    assert subtask.process_watermark(5) == [(("a1 b1", 4), 4)]


def test_late_event_goes_to_the_side_output_or_is_counted(bench):
    bench.side[LATE.tag_id] = []
    subtask = bench.open(operator(late_tag=LATE))
    subtask.process_watermark(5)
    assert feed(subtask, "a1@5", "a2@6") == []
    assert bench.side == {"late": [(("k", "a1"), 5)]}
    assert (subtask.late_records, subtask.late_records_dropped) == (1, 0)
    subtask = bench.open(operator())
    subtask.process_watermark(5)
    feed(subtask, "a1@5")
    assert subtask.late_records_dropped == 1


def test_match_that_runs_out_of_time_goes_to_the_side_output(bench):
    bench.side[OUT_OF_TIME.tag_id] = []
    subtask = bench.open(operator())
    feed(subtask, "a1@0", "b1@10")
    assert subtask.process_watermark(9) == []
    assert bench.side == {OUT_OF_TIME.tag_id: []}
    assert subtask.process_watermark(30) == []
    assert bench.side == {OUT_OF_TIME.tag_id: [(("a1", 10), 10)]}
    assert len(subtask.timers.event) == 0


def test_time_between_two_events_may_be_limited_alone(bench):
    pattern = a_then_b().followed_by("c").where(of("c"))
    pattern.within(Duration.of_millis(3), WithinType.PREVIOUS_AND_CURRENT)
    subtask = bench.open(operator(pattern))
    feed(subtask, "a1@1", "b1@6", "c1@8", "c2@9")
    assert subtask.process_watermark(20) == [(("a1 b1 c1", 8), 8)]
    feed(subtask, "a1@21", "b1@26", "c2@29")
    assert subtask.process_watermark(40) == []


def test_value_for_no_side_output_is_refused_where_a_match_runs_out_of_time(bench):
    subtask = bench.open(operator(function=EmitPlainly))
    feed(subtask, "a1@0")
    with pytest.raises(TypeError, match="yield a tag and a value"):
        subtask.process_watermark(10)


def test_in_processing_time_events_match_as_they_come(bench):
    bench.side[OUT_OF_TIME.tag_id] = []
    subtask = bench.open(operator(is_event_time=False))
    bench.now = 100
    assert bench.process(subtask, ("k", "a1")) == []
    bench.now = 105
    assert subtask.process_batch([(("k", "b1"), None)], 0) == [(("a1 b1", 105), None)]
    bench.process(subtask, ("k", "a2"))
    bench.now = 115
    assert subtask.process_time(115) == []
    assert bench.side == {OUT_OF_TIME.tag_id: [(("a2", 115), None)]}


def test_in_event_time_an_event_needs_a_timestamp(bench):
    with pytest.raises(TypeError, match="watermark strategy"):
        bench.process(bench.open(operator()), ("k", "a1"))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_matches_under_way_are_restored_at_another_parallelism(bench, parallelism):
    pattern = a_then_b(100).followed_by("c").where(of("c"))
    subtask = bench.open(operator(pattern))
    keys = [f"key-{number}" for number in range(20)]
    for key in keys:
        feed(subtask, "a1@1", "b1@2", "c9@9", key=key)
    assert subtask.process_watermark(5) == []
    restored = bench.restore_all([subtask], lambda: operator(pattern), parallelism)
    results = [each.process_watermark(MAX_WATERMARK) for each in restored]
    assert [result for each in results for result in each] == [(("a1 b1 c9", 9), 9)] * len(keys)
    assert parallelism == 1 or len([each for each in results if each]) > 1


class Rising(IterativeCondition):
    def filter(self, value, ctx):
        before = ctx.get_events_for_pattern("up")
        return not before or value > before[-1]


class Locked(Rising):
    def __init__(self):
        self.lock = Lock()


def collected(stream):
    with stream.execute_and_collect() as values:
        return list(values)


def numbers(*values):
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection(values, Types.LONG())


def test_iterative_condition_sees_the_match_so_far():
    pattern = Pattern.begin("up").where(Rising()).times(3).consecutive()
    found = CEP.pattern(numbers(3, 1, 4, 5, 2), pattern).in_processing_time()
    assert collected(found.select(lambda match: match["up"])) == [[1, 4, 5]]


def test_stream_without_keys_is_matched_as_a_whole():
    pattern = Pattern.begin("odd").where(lambda number: number % 2).next("even").subtype(int)
    found = CEP.pattern(numbers(1, 2, 4, 3, 6), pattern.where(lambda number: not number % 2))
    found = found.in_processing_time().flat_select(lambda match: [*match["odd"], *match["even"]])
    assert collected(found) == [1, 2, 3, 6]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda stream: CEP.pattern(stream, "a"), InvalidJob, "takes a Pattern"),
        (lambda stream: CEP.pattern([1], Pattern.begin("a")), InvalidJob, "takes a DataStream"),
        (
            lambda stream: CEP.pattern(stream, Pattern.begin("a")).select(str, timed_out_tag=LATE),
            InvalidJob,
            "need both",
        ),
        (
            lambda stream: CEP.pattern(stream, Pattern.begin("a")).select(5),
            InvalidJob,
            "select takes a function",
        ),
        (
            lambda stream: CEP.pattern(stream, Pattern.begin("a")).flat_select(5),
            InvalidJob,
            "flat_select takes",
        ),
        (lambda stream: CEP.pattern(stream, Pattern.begin("a")).process(str), InvalidJob, "PatternProcess"),
        (lambda stream: CEP.pattern(stream, Pattern.begin("a").where(Locked())), InvalidJob, "be copied"),
        (lambda stream: Pattern.begin("a").where(5), TypeError, "a condition is"),
        (lambda stream: Pattern.begin("a").within(10), TypeError, "give a Duration"),
        (
            lambda stream: CEP.pattern(stream, Pattern.begin("a").next("a")),
            MalformedPatternException,
            "Duplicate pattern name: a",
        ),
        (
            lambda stream: CEP.pattern(stream, Pattern.begin(Pattern.begin("a").optional()).one_or_more()),
            MalformedPatternException,
            "may be empty",
        ),
        (
            lambda stream: Pattern.begin(Pattern.begin("a")).where(of("a")),
            MalformedPatternException,
            "GroupPattern does not support where",
        ),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said_before_the_job_runs(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(numbers(1))
