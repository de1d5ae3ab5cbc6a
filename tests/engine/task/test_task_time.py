"""Event time through a task, and the times at which its operators want to be called."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.source import ForwardingReader
from onceproof.engine.durations import Duration
from onceproof.engine.elements import (
    ACTIVE,
    END_OF_DATA,
    IDLE,
    MAX_WATERMARK,
    CheckpointBarrier,
    Watermark,
)
from onceproof.engine.graph import FORWARD, JobEdge, JobVertex, OperatorNode
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.event_time import TimestampedSourceOperator, TimestampsAndWatermarksOperator
from onceproof.engine.task.events import POLL, WALL_CLOCK_ADVANCED, StartTaskTimer, TimerDue
from onceproof.engine.task.task import TaskState
from onceproof.engine.watermarks.generators import WatermarkGenerator
from onceproof.engine.watermarks.strategy import WatermarkStrategy


class Punctual(WatermarkGenerator):
    """Every value is a watermark."""

    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(Watermark(event))

    def on_periodic_emit(self, output):
        pass


PUNCTUAL = WatermarkStrategy.for_generator(lambda context: Punctual())


def timed(recorder):
    recorder.uses_time = True
    return recorder


# Watermarks and barriers in channels.


def test_watermark_passes_the_chain_behind_what_it_brings_about(bench):
    head, tail = bench.recorder("head"), bench.recorder("tail")
    head.on_time = lambda time: ["fired"]
    task = bench.task(head, tail, channels=[0], outputs=2)
    bench.feed(task, 0, [("a", 1)], Watermark(5), [("b", 7)])
    assert bench.calls == [
        ("process", "head", 0, "a"),
        ("process", "tail", 0, "a"),
        ("send", "a"),
        ("send", "a"),
        ("watermark", "head", 5),
        ("process", "tail", 0, "fired"),
        ("send", "fired"),
        ("send", "fired"),
        ("watermark", "tail", 5),
        ("send", Watermark(5)),
        ("send", Watermark(5)),
        ("process", "head", 0, "b"),
        ("process", "tail", 0, "b"),
        ("send", "b"),
        ("send", "b"),
    ]


def test_watermark_waits_for_the_slowest_channel_and_for_neither_idle_nor_ended_ones(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0, 0])
    bench.feed(task, 0, Watermark(10))
    bench.feed(task, 1, Watermark(4))
    assert bench.take_calls() == []
    bench.feed(task, 2, IDLE)
    assert bench.take_calls() == [("watermark", "op", 4), ("send", Watermark(4))]
    bench.feed(task, 1, END_OF_DATA)
    assert bench.take_calls() == [("watermark", "op", 10), ("send", Watermark(10))]
    bench.feed(task, 0, IDLE)
    bench.feed(task, 2, ACTIVE, Watermark(20))
    assert bench.take_calls()[-1] == ("send", Watermark(MAX_WATERMARK))


def test_channel_that_ended_before_the_first_watermark_is_remembered(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, END_OF_DATA)
    bench.feed(task, 1, Watermark(3))
    assert bench.calls == [("watermark", "op", 3), ("send", Watermark(3))]


def test_idleness_passes_the_chain_once_all_channels_are_idle(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, IDLE)
    assert bench.take_calls() == []
    bench.feed(task, 1, IDLE)
    assert bench.take_calls() == [("send", IDLE)]
    bench.feed(task, 0, ACTIVE)
    assert bench.take_calls() == [("send", ACTIVE)]


def test_each_input_of_two_has_its_own_channels_and_the_least_of_both_counts(bench):
    task = bench.task(bench.recorder("op"), channels=[0, 0, 1])
    bench.feed(task, 2, Watermark(9))
    bench.feed(task, 0, Watermark(3))
    assert bench.take_calls() == []
    bench.feed(task, 1, Watermark(5))
    assert bench.take_calls() == [("watermark", "op", 3), ("send", Watermark(3))]
    bench.feed(task, 2, [("r", 1)], IDLE)
    assert bench.take_calls() == [("process", "op", 1, "r"), ("send", "r")]
    bench.feed(task, 0, END_OF_DATA)
    bench.feed(task, 1, Watermark(11))
    assert bench.take_calls() == [
        ("watermark", "op", 5),
        ("send", Watermark(5)),
        ("watermark", "op", 11),
        ("send", Watermark(11)),
    ]


def test_watermark_behind_a_barrier_waits_with_its_channel(bench):
    task = bench.task(bench.recorder("op", stateful=False), channels=[0, 0])
    bench.feed(task, 1, Watermark(8))
    bench.feed(task, 0, CheckpointBarrier(1, 0), Watermark(5))
    assert bench.take_calls() == []
    bench.feed(task, 1, CheckpointBarrier(1, 0))
    assert bench.take_calls() == [
        ("prepare", "op", 1),
        ("send", CheckpointBarrier(1, 0)),
        ("snapshot", "op", 1),
        ("watermark", "op", 5),
        ("send", Watermark(5)),
    ]


def test_operator_that_makes_its_own_watermarks_lets_none_through_but_the_last(bench):
    regenerating = TimestampsAndWatermarksOperator(WatermarkStrategy.no_watermarks())
    task = bench.task(regenerating, bench.recorder("op"), channels=[0, 0])
    bench.feed(task, 0, IDLE, ACTIVE, Watermark(3))
    bench.feed(task, 1, Watermark(5))
    assert bench.take_calls() == []
    bench.feed(task, 0, Watermark(MAX_WATERMARK))
    bench.feed(task, 1, Watermark(MAX_WATERMARK))
    assert bench.take_calls() == [("watermark", "op", MAX_WATERMARK), ("send", Watermark(MAX_WATERMARK))]


def test_a_watermark_given_mid_stream_stands_between_its_records(bench):
    task = bench.task(TimestampsAndWatermarksOperator(PUNCTUAL), bench.recorder("op"), channels=[0])
    bench.feed(task, 0, [(4, None), (3, None), (6, None)])
    assert bench.calls == [
        ("process", "op", 0, 4),
        ("send", 4),
        ("watermark", "op", 4),
        ("send", Watermark(4)),
        ("process", "op", 0, 3),
        ("send", 3),
        ("process", "op", 0, 6),
        ("send", 6),
        ("watermark", "op", 6),
        ("send", Watermark(6)),
    ]


# Times that operators ask for.


def test_task_asks_its_driver_for_the_earliest_time_only(bench):
    task = bench.task(timed(bench.recorder("a")), timed(bench.recorder("b")), channels=[0])
    first, second = [operator.context.downstream for operator in task.operators]
    first.wake_at(50)
    second.wake_at(30)
    assert bench.feed(task, 0, [("x", 1)]) == [StartTaskTimer(30)]
    second.wake_at(40)
    assert bench.feed(task, 0, [("x", 1)]) == [], "at 30 all operators are called"
    first.wake_at(20)
    assert bench.feed(task, 0, [("x", 1)]) == [StartTaskTimer(20)]
    bench.take_calls()
    assert task.handle(TimerDue(20), 21) == ()
    assert bench.take_calls() == [("time", "a", 21), ("time", "b", 21)]
    first.wake_at(25)
    assert list(task.handle(TimerDue(30), 31)) == [StartTaskTimer(25)]
    task.validate()


def test_what_a_time_brings_about_passes_the_rest_of_the_chain(bench):
    head, tail = timed(bench.recorder("head")), bench.recorder("tail")
    task = bench.task(bench.source(), head, tail)
    head.context.downstream.wake_at(10)
    head.on_time = lambda time: ["tick"]
    assert list(task.handle(POLL, 0)) == [StartTaskTimer(10)]
    bench.take_calls()
    task.handle(TimerDue(10), 12)
    assert bench.calls == [
        ("time", "head", 12),
        ("process", "tail", 0, "tick"),
        ("send", "tick"),
        ("time", "tail", 12),
    ]


def test_nothing_fires_once_the_data_are_over(bench):
    head = timed(bench.recorder("head"))
    task = bench.task(head, channels=[0])
    head.context.downstream.wake_at(10)
    assert bench.feed(task, 0, [("a", 1)]) == [StartTaskTimer(10)]
    head.context.downstream.wake_at(5)
    assert bench.feed(task, 0, END_OF_DATA) == []
    assert task.state is TaskState.ENDED_DATA
    bench.take_calls()
    assert task.handle(TimerDue(10), 12) == ()
    assert bench.calls == []


# Sources with a strategy.


def source_task(bench, strategy, splits, interval_ms=10, **how):
    source = CollectionSource(splits)
    task = bench.task(TimestampedSourceOperator(source, strategy), bench.recorder("op"), running=False, **how)
    task.vertex = JobVertex(0, "work", task.vertex.operators, 1, 8, True, (), (), interval_ms)
    task.id = task.id._replace(subtask=0)
    return task


def test_source_gives_a_watermark_at_each_interval_and_asks_for_the_next(bench):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2))
    records = [(letter, 10 * place) for place, letter in enumerate("abcd", start=1)]
    task = source_task(bench, strategy, {"letters": records})
    assert list(bench.restore(task, now=100))[-1] == StartTaskTimer(110)
    bench.take_calls()
    for now in (101, 102):
        assert list(task.handle(POLL, now)) == []
    assert list(task.handle(TimerDue(110), 115)) == [StartTaskTimer(125)]
    assert bench.take_calls()[-3:] == [
        ("watermark", "op", 17),
        ("send", Watermark(17)),
        ("time", "op", 115),
    ]
    assert list(task.handle(TimerDue(125), 125)) == [StartTaskTimer(135)]
    assert bench.take_calls() == [("time", "op", 125)], "nothing new"


class EndsWhenRead(ForwardingReader):
    """Finds out that it is at its end only by reading there, like a reader of a file."""

    found_end = False

    def read(self, limit):
        records = self._reader.read(limit)
        self.found_end = not records
        return records

    @property
    def exhausted(self):
        return self.found_end


def test_split_that_is_restored_at_its_end_holds_no_watermark_back(bench):
    class Restored(CollectionSource):
        def open_split(self, split, position):
            return EndsWhenRead(super().open_split(split, position))

    task = source_task(bench, PUNCTUAL, {"ended": [], "other": [(4, None), (9, None)]}, interval_ms=0)
    task.operators[0].source = Restored({"ended": [], "other": [(4, None), (9, None)]})
    bench.restore(task, now=0)
    bench.take_calls()
    for _ in range(3):
        task.handle(POLL, 1)
    sent = [call[-1] for call in bench.take_calls() if call[0] == "send"]
    assert sent[:4] == [4, Watermark(4), 9, Watermark(9)]


def test_interval_of_nought_leaves_it_to_the_records(bench):
    task = source_task(bench, PUNCTUAL, {"numbers": [(4, None), (9, None)]}, interval_ms=0)
    assert len(list(bench.restore(task, now=0))) == 1
    bench.take_calls()
    for _ in range(2):
        assert list(task.handle(POLL, 1)) == []
    assert [call[-1] for call in bench.take_calls() if call[0] == "send"] == [
        4,
        Watermark(4),
        9,
        Watermark(9),
    ]
    assert task.state is TaskState.RUNNING, "a poll whose records all went ahead of watermarks is not the end"
    task.handle(POLL, 2)
    assert bench.take_calls()[0] == ("watermark", "op", MAX_WATERMARK)
    assert task.state is TaskState.ENDED_DATA


def test_split_that_is_read_out_holds_the_others_back_no_longer(bench):
    splits = {"a": [("a", 5)], "b": [("b", 50), ("c", 60), ("d", 70)]}
    task = source_task(bench, WatermarkStrategy.for_monotonous_timestamps(), splits)
    bench.restore(task, now=0)
    for _ in range(2):
        task.handle(POLL, 1)
    task.handle(TimerDue(10), 10)
    assert ("send", Watermark(49)) in bench.take_calls()


# Side outputs.


class Splitting(Operator):
    """Odd numbers go to the side output."""

    def open(self, context):
        self.side_outputs = context.side_outputs

    def process_batch(self, records, input_index):
        odd = [record for record in records if record[0] % 2]
        for emit in self.side_outputs.get("odd", ()):
            emit(odd)
        return [record for record in records if not record[0] % 2]


@pytest.mark.parametrize("tags", [(None, "odd"), ("odd", None), ("odd", "odd", None)])
def test_side_outputs_get_what_is_given_under_their_tag_and_all_watermarks(bench, tags):
    task = bench.task(Splitting(), channels=[0], outputs=len(tags), running=False)
    edges = tuple(JobEdge(0, 1, FORWARD, 0, place, tag) for place, tag in enumerate(tags))
    node = OperatorNode("0" * 32, None, "splitting", Operator)
    task.vertex = JobVertex(0, "work", (node,), 2, 8, True, (), edges)
    task.connect(task.outputs)
    bench.restore(task)
    bench.feed(task, 0, [(1, 1), (2, 2), (3, 3)], Watermark(3))
    for tag, queue in zip(tags, bench.sent, strict=True):
        values = [(1, 1), (3, 3)] if tag else [(2, 2)]
        assert list(queue) == [values, Watermark(3)]


# The wall clock beside the driver's.


def test_wishes_in_processing_time_become_times_of_the_drivers_clock(bench):
    task = bench.task(timed(bench.recorder("a")), channels=[0])
    wall_clock = task.settings.wall_clock
    wall_clock.ahead_ms = 1000
    [operator] = task.operators
    assert operator.context.clock() == 1000
    operator.context.downstream.wake_at(1050)
    assert bench.feed(task, 0, [("x", 1)]) == [StartTaskTimer(50)]
    bench.take_calls()
    wall_clock.ahead_ms = 400
    task.handle(TimerDue(50), 50)
    assert bench.take_calls() == [("time", "a", 450)], "set back: too early, the operator asks again"
    wall_clock.ahead_ms = 5000
    task.handle(WALL_CLOCK_ADVANCED, 60)
    assert bench.take_calls() == [("time", "a", 5060)]


def test_task_without_timers_ignores_a_clock_that_was_set_forward(bench):
    task = bench.task(bench.recorder("a"), channels=[0])
    assert task.handle(WALL_CLOCK_ADVANCED, 60) == ()


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
def test_watermarks_keep_their_interval_when_the_clock_jumps(bench, ahead_ms):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2))
    task = source_task(bench, strategy, {"letters": [("a", 10), ("b", 20)]})
    assert list(bench.restore(task, now=100))[-1] == StartTaskTimer(110)
    task.settings.wall_clock.ahead_ms = ahead_ms
    assert list(task.handle(TimerDue(110), 111)) == [StartTaskTimer(121)]
