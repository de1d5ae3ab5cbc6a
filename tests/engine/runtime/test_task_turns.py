"""The turns of tasks whose outputs have no room: they take the barriers that overtake, and nothing else."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest

from onceproof.engine.configuration.alignment import AlignmentKind as Alignment
from onceproof.engine.configuration.alignment import CheckpointOptions
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.runtime.task_turns import Pace, Schedule, Turn
from onceproof.engine.task.events import Deliver
from onceproof.engine.task.task import TaskState
from onceproof.engine.task.task_counters import BACKPRESSURED, TaskCounters

RECORDS = [("a", None)]


def barrier(alignment):
    return CheckpointBarrier(1, 0, options=CheckpointOptions(alignment))


class Stage:
    """A schedule with one task: two inputs, and an output that holds a buffer where one has room."""

    def __init__(self, *queues, blocked=(False, False), is_slow=False):
        self.handled = []
        self.task = SimpleNamespace(
            counters=TaskCounters(),
            queues=[deque(queue) for queue in queues],
            barriers=SimpleNamespace(blocked=list(blocked)),
            is_source=False,
            state=TaskState.RUNNING,
            takes=lambda channel: True,
        )
        settings = SimpleNamespace(channel_buffers=1, buffer_records=10, buffer_timeout_ms=100)
        self.schedule = Schedule(settings, Clocks(), self.handle)
        self.schedule._turns = []
        reader = SimpleNamespace(is_slow=is_slow, backlog=1)
        self.turn = Turn(self.task, Pace(10, 2, 100), [(deque([RECORDS]), reader)])
        self.turn.may_overtake = True

    def handle(self, task, event):
        self.handled.append(event)

    def take(self):
        return self.schedule.take(self.turn, 0)


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_task_without_room_takes_a_barrier_that_overtakes(is_slow):
    stage = Stage([RECORDS], [barrier(Alignment.UNALIGNED), RECORDS], is_slow=is_slow)
    assert stage.take()
    assert stage.handled == [Deliver(1)]
    assert stage.task.counters.standing == BACKPRESSURED


@pytest.mark.parametrize("alignment", [Alignment.ALIGNED, Alignment.FORCED_ALIGNED])
def test_a_task_without_room_leaves_records_and_aligned_barriers(alignment):
    stage = Stage([RECORDS], [barrier(alignment)])
    assert not stage.take()
    assert stage.handled == []


def test_a_task_without_room_leaves_what_is_behind_a_blocked_channel():
    stage = Stage([], [barrier(Alignment.UNALIGNED)], blocked=(False, True))
    assert not stage.take()
    assert stage.handled == []
