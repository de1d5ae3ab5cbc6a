"""What is only late is an error: an operator that waits beyond its time, and event time that stays behind."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import SimpleNamespace

import pytest

from onceproof.engine import operators
from onceproof.engine.elements import ACTIVE, END_OF_DATA, IDLE, Watermark
from onceproof.engine.functions import ReduceFunction
from onceproof.engine.operators.base import Operator
from onceproof.engine.operators.bundle import ReducingOperator
from onceproof.engine.operators.event_time import TimestampsAndWatermarksOperator
from onceproof.engine.task.events import WALL_CLOCK_ADVANCED, StartTaskTimer, TimerDue
from onceproof.engine.task.input_time import InputTime
from onceproof.engine.task.task import TaskState
from onceproof.engine.watermarks.strategy import WatermarkStrategy


def waiting(bench, *due_ms, **how):
    """Return a running task of operators that wait for these times, None for no time."""
    recorders = []
    for place, each in enumerate(due_ms):
        recorder = bench.recorder(f"op-{place}")
        recorder.uses_time = True
        recorder.due_ms = each
        recorder.next_due_ms = lambda wall_clock, recorder=recorder: recorder.due_ms
        recorders.append(recorder)
    return bench.task(*recorders, channels=[0], **how)


def ask(task, due_ms):
    """Let the first operator ask for a call at a time; its task asks the driver at the next event."""
    task.operators[0].context.downstream.wake_at_steady(due_ms)


# The times of operators.


def test_task_that_is_woken_when_the_first_operator_is_due_is_sound(bench):
    task = waiting(bench, 50, 40, None)
    ask(task, 40)
    assert bench.feed(task, 0, [("x", 1)]) == [StartTaskTimer(40)]
    task.validate()


def test_operator_that_asks_for_no_call_is_seen(bench):
    task = waiting(bench, None, 40)
    with pytest.raises(AssertionError, match=r"^Recorder of work-1 waits until 40, and .* for no time$"):
        bench.feed(task, 0, [("x", 1)])


def test_operator_that_is_due_before_the_call_that_others_have_asked_for_is_seen(bench):
    task = waiting(bench, 50, 40)
    ask(task, 50)
    with pytest.raises(AssertionError, match="waits until 40, and the task has asked for 50 only"):
        bench.feed(task, 0, [("x", 1)])


def test_operator_that_is_called_and_goes_on_waiting_is_seen(bench):
    task = waiting(bench, 40)
    ask(task, 40)
    bench.feed(task, 0, [("x", 1)])
    ask(task, 40)
    assert list(task.handle(TimerDue(40), 41)) == [StartTaskTimer(40)]
    with pytest.raises(AssertionError, match="still waits for 40 after it was called at 41"):
        task.validate()


def test_operator_that_waits_for_its_next_time_after_a_call_is_sound(bench):
    task = waiting(bench, 40)
    ask(task, 40)
    bench.feed(task, 0, [("x", 1)])
    task.operators[0].due_ms = 60
    ask(task, 60)
    assert list(task.handle(TimerDue(40), 41)) == [StartTaskTimer(60)]
    task.validate()


def test_record_that_comes_behind_its_time_waits_for_the_next_call_without_error(bench):
    task = waiting(bench, 40)
    ask(task, 40)
    bench.feed(task, 0, [("x", 1)])
    task.operators[0].due_ms = None
    assert list(task.handle(TimerDue(40), 41)) == []
    task.validate()
    task.operators[0].due_ms = 30
    ask(task, 30)
    assert bench.feed(task, 0, [("late", 1)]) == [StartTaskTimer(30)]


def test_nothing_is_due_once_the_data_are_over(bench):
    task = waiting(bench, None)
    bench.feed(task, 0, END_OF_DATA)
    assert task.state is TaskState.ENDED_DATA
    task.operators[0].due_ms = 40
    task.validate()


def test_timer_is_due_by_the_wall_clock_that_was_set_forward(bench):
    task = waiting(bench, None)
    head = task.operators[0]
    del head.next_due_ms
    head.timers = SimpleNamespace(processing=SimpleNamespace(next_timestamp=lambda: 1050))
    head.context.downstream.wake_at(1050)
    assert bench.feed(task, 0, [("x", 1)]) == [StartTaskTimer(1050)]
    task.settings.wall_clock.ahead_ms = 1000
    with pytest.raises(AssertionError, match="waits until 50, and the task has asked for 1050 only"):
        task.validate()
    head.context.downstream.wake_at(1050)
    assert list(task.handle(WALL_CLOCK_ADVANCED, 3)) == [StartTaskTimer(50)]
    task.validate()


class Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def bundling(bench):
    return bench.task(ReducingOperator(Sum(), 10, lambda value: value, 20), channels=[0])


def test_bundle_with_a_latency_is_due_when_that_is_over(bench):
    task = bundling(bench)
    assert bench.feed(task, 0, [(3, None)]) == [StartTaskTimer(20)]
    assert bench.take_calls() == []
    assert list(task.handle(TimerDue(20), 20)) == []
    task.validate()
    assert bench.take_calls() == [("send", (3, 3))]


def test_bundle_that_asks_for_no_call_is_seen(bench):
    task = bundling(bench)
    task.operators[0]._wake_at = lambda due_ms: None
    with pytest.raises(AssertionError, match="ReducingOperator of work-1 waits until 20"):
        bench.feed(task, 0, [(3, None)])


def test_watermark_generator_that_asks_for_no_further_call_is_seen(bench):
    generator = TimestampsAndWatermarksOperator(WatermarkStrategy.for_monotonous_timestamps())
    task = bench.task(generator, channels=[0])
    bench.feed(task, 0, [(3, 3)])
    generator._interval.due_ms = 7
    with pytest.raises(AssertionError, match="TimestampsAndWatermarksOperator of work-1 waits until 7"):
        task.validate()


def test_each_operator_of_the_engine_that_uses_time_says_when_it_is_due():
    for module in pkgutil.iter_modules(operators.__path__, f"{operators.__name__}."):
        importlib.import_module(module.name)
    kinds, found = [Operator], {}
    while kinds:
        kind = kinds.pop()
        kinds += [each for each in kind.__subclasses__() if each.__module__.startswith("onceproof.engine")]
        waits_for_timers = any(
            "timers" in inspect.get_annotations(each) for each in kind.__mro__ if each is not Operator
        )
        says = kind.next_due_ms is not Operator.next_due_ms
        if kind.uses_time:
            found[kind.__name__] = says or waits_for_timers
    assert len(found) >= 7
    assert all(found.values()), found


# Event time.


class Sink:
    """The chain behind the inputs."""

    def __init__(self):
        self.watermarks = []

    def watermark(self, timestamp):
        self.watermarks.append(timestamp)

    def status(self, is_idle):
        pass


def test_event_time_of_two_inputs_follows_from_their_channels():
    time = InputTime([0, 0, 1], (), Sink())
    for channel, element in [
        (0, Watermark(9)),
        (1, Watermark(4)),
        (2, Watermark(6)),
        (1, IDLE),
        (2, IDLE),
        (0, IDLE),
        (1, ACTIVE),
        (1, Watermark(12)),
        (2, ACTIVE),
    ]:
        time.take(channel, element)
        assert time.has_changed
        time.validate(())
        assert not time.has_changed


def test_watermark_that_does_not_reach_the_operators_is_seen():
    time = InputTime([0], (), Sink())
    time.take(0, Watermark(3))
    time.validate(())
    time._valves[0].watermark(0, 5)
    with pytest.raises(AssertionError, match="event time 3 though the inputs have reached 5"):
        time.validate(())


def test_idle_input_that_holds_the_other_back_is_seen():
    time = InputTime([0, 1], (), Sink())
    time.take(0, Watermark(8))
    time.take(1, Watermark(3))
    time.validate(())
    time._valves[1].status(0, True)
    with pytest.raises(AssertionError, match="event time 3 though the inputs have reached 8"):
        time.validate(())


def test_task_checks_event_time_only_where_a_watermark_or_a_status_has_come(bench, monkeypatch):
    task = bench.task(bench.recorder("op"), channels=[0, 0])
    checked = []

    def check(time, ended_channels):
        time.has_changed = False
        checked.append(time)

    monkeypatch.setattr(InputTime, "validate", check)
    bench.feed(task, 0, [("x", 1)], Watermark(3), [("y", 1)], IDLE)
    assert len(checked) == 2


def test_channel_that_ended_before_the_first_watermark_holds_nothing_back():
    time = InputTime([0, 0, 0], [1], Sink())
    time.validate([1])
    with pytest.raises(AssertionError, match="channel 2 has ended, and holds event time at"):
        time.validate([1, 2])
    time.validate([0, 1, 2])
