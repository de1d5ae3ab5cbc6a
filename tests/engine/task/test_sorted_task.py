"""A blocking stage as a machine: it collects, declines checkpoints, and releases key by key."""

from __future__ import annotations

from collections import deque

from onceproof.engine.elements import END_OF_DATA, MAX_WATERMARK, CheckpointBarrier, Watermark
from onceproof.engine.graph import JobVertex, OperatorNode
from onceproof.engine.messages import (
    DECLINED_IN_BATCH,
    AcknowledgeCheckpoint,
    AttemptId,
    DeclineCheckpoint,
    TaskId,
)
from onceproof.engine.operators.base import IN_TURN, InputOrder, Operator
from onceproof.engine.protocol_points import no_probe
from onceproof.engine.task.events import POLL, Deliver, Restore, RestoredOperator
from onceproof.engine.task.outputs import SingleOutput
from onceproof.engine.task.sorted_task import SortedTask
from onceproof.engine.task.task import TaskSettings, TaskState
from onceproof.engine.types import Types


class Calls(Operator):
    """Writes down what it is called for."""

    def __init__(self, order):
        self.order = order
        self.calls = []

    def input_order(self):
        return self.order

    def process_batch(self, records, input_index):
        self.calls.append((input_index, *[value for value, _ in records]))
        return records

    def process_watermark(self, timestamp):
        self.calls.append(("watermark", timestamp))
        return []

    def end_key(self):
        self.calls.append("end of key")
        return []


class Stage:
    """A stage with a channel for each input."""

    def __init__(self, *keys, restored=None, limit=100):
        order = InputOrder(keys, Types.STRING())
        self.head = Calls(order)
        node = OperatorNode("0" * 32, None, "op", lambda: self.head)
        vertex = JobVertex(0, "stage", (node,), 1, 8, True, (), (), sort_memory_bytes=1 << 20)
        settings = TaskSettings(AttemptId("1.1"), limit, no_probe, True)
        self.task = SortedTask(TaskId(0, 0), vertex, settings, range(len(keys)), [self.head], order)
        self.sent = deque()
        self.task.connect([SingleOutput([self.sent])])
        self.task.handle(Restore(None, {} if restored is None else {"0" * 32: restored}), 0)

    def feed(self, channel, *elements):
        effects = []
        for element in elements:
            self.task.queues[channel].append(element)
            effects += self.task.handle(Deliver(channel), 0)
            self.task.validate()
        return [each.message for each in effects]

    def poll(self):
        effects = self.task.handle(POLL, 0)
        self.task.validate()
        return [each.message for each in effects]


def first_letter(value):
    return value[0]


def test_nothing_is_processed_before_all_inputs_have_ended():
    stage = Stage(first_letter, first_letter)
    stage.feed(0, [("b1", 3), ("a1", 9)], Watermark(50), END_OF_DATA)
    assert stage.head.calls == []
    assert not stage.task.is_polled
    stage.feed(1, [("a2", 4)], END_OF_DATA)
    assert stage.task.is_polled
    stage.poll()
    assert stage.head.calls == [
        (1, "a2"),
        (0, "a1"),
        "end of key",
        (0, "b1"),
        "end of key",
        ("watermark", MAX_WATERMARK),
    ]
    assert stage.task.state is TaskState.ENDED_DATA


def test_a_portion_ends_in_the_middle_of_a_key():
    stage = Stage(first_letter, limit=2)
    stage.feed(0, [("a1", 1), ("a2", 2), ("a3", 3)], END_OF_DATA)
    stage.poll()
    assert stage.head.calls == [(0, "a1", "a2")]
    stage.poll()
    assert stage.head.calls[1:] == [(0, "a3"), "end of key", ("watermark", MAX_WATERMARK)]


def test_inputs_with_records_of_one_key_and_time_take_turns():
    stage = Stage(first_letter, first_letter)
    for number in (0, 1):
        stage.feed(number, [(f"a{number}", 1), (f"a{number + 2}", 1)], END_OF_DATA)
    stage.poll()
    assert stage.head.calls[:4] == [(0, "a0"), (1, "a1"), (0, "a2"), (1, "a3")]


def test_an_input_without_order_is_processed_as_it_comes():
    stage = Stage(IN_TURN, None)
    stage.feed(0, [("b", 9), ("a", 1)])
    stage.feed(1, [("rule", 1)])
    assert stage.head.calls == [(1, "rule")]
    stage.feed(0, END_OF_DATA)
    stage.feed(1, [("last rule", 1)], END_OF_DATA)
    stage.poll()
    assert stage.head.calls[1:] == [(1, "last rule"), (0, "b"), (0, "a"), ("watermark", MAX_WATERMARK)]


def test_checkpoints_are_declined_until_all_is_released():
    stage = Stage(first_letter, limit=1)
    declined = [DeclineCheckpoint("1.1", TaskId(0, 0), number, DECLINED_IN_BATCH) for number in (1, 2)]
    assert stage.feed(0, [("a", 1), ("b", 2)], CheckpointBarrier(1, 0)) == declined[:1]
    stage.feed(0, END_OF_DATA)
    stage.task.queues[0].append(CheckpointBarrier(2, 0))
    assert not stage.task.takes(0)
    assert stage.poll() == declined[1:]
    stage.poll()
    assert [type(each) for each in stage.feed(0, CheckpointBarrier(3, 0))] == [AcknowledgeCheckpoint]


def test_a_stage_without_records_ends_at_its_first_poll():
    stage = Stage(first_letter)
    stage.feed(0, END_OF_DATA)
    stage.poll()
    assert stage.head.calls == [("watermark", MAX_WATERMARK)]
    assert stage.task.state is TaskState.ENDED_DATA


def test_a_stage_restored_in_the_middle_of_its_input_goes_on_unsorted():
    stage = Stage(first_letter, restored=RestoredOperator({"state": "of an earlier version"}, None))
    stage.feed(0, [("b", 3), ("a", 1)])
    assert stage.head.calls == [(0, "b", "a")]
    assert [type(each) for each in stage.feed(0, CheckpointBarrier(1, 0))] == [AcknowledgeCheckpoint]
