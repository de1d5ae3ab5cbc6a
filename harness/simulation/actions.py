"""What can happen next in the simulated world.

A slot is a standing possibility of one attempt: poll this source, read that channel. It is made once and
asked at every step whether it is ready. An action is a thing under way, and always possible: a message, a
write, a timer that is due, a task that waits to be restored. Labels name both in a way that survives a change
of the schedule before them, for preemptions and stories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from engine.task.events import POLL, Deliver
from engine.task.outputs import Queue
from engine.task.task import Task, TaskState
from harness.scenario import ACTION_CLASSES

CLASS_INDEX = {name: index for index, name in enumerate(ACTION_CLASSES)}
_POLL = CLASS_INDEX["poll"]
_DELIVER = CLASS_INDEX["deliver"]
_DELIVERIES = tuple(Deliver(channel) for channel in range(64))
_RUNNING = TaskState.RUNNING
_ALWAYS_SOMETHING = (None,)
_NOT_BLOCKED = [False]
_CREATED = TaskState.CREATED


class Slot:
    """One input of one task: a channel, or its source, whose ``queue`` stands for what it has yet to read."""

    __slots__ = (
        "blocked",
        "capacity",
        "channel",
        "class_index",
        "event",
        "label",
        "outputs",
        "queue",
        "task",
    )

    def __init__(self, task: Task, channel: int | None, capacity: int) -> None:
        self.task = task
        self.queue: Queue | tuple[None] = _ALWAYS_SOMETHING
        self.class_index = _POLL
        self.event: Any = POLL
        self.label = f"poll {task.name}"
        self.channel = 0
        if channel is not None:
            self.queue = task.queues[channel]
            self.class_index = _DELIVER
            self.event = _DELIVERIES[channel] if channel < len(_DELIVERIES) else Deliver(channel)
            self.label = f"deliver {task.name}/{channel}"
            self.channel = channel
        self.blocked = task.barriers.blocked or _NOT_BLOCKED
        self.outputs = task.output_queues
        self.capacity = capacity

    def is_ready(self) -> bool:
        """Whether the task runs, has something to read here, and room for what follows from it."""
        if not self.queue or self.blocked[self.channel]:
            return False
        state = self.task.state
        if state is _CREATED or (state is not _RUNNING and self.class_index == _POLL):
            return False
        capacity = self.capacity
        for output in self.outputs:  # noqa: SIM110 (a generator would double the cost of the commonest question)
            if len(output) >= capacity:
                return False
        return True


class Action(Struct):
    """Something under way: ``perform(argument)`` when its turn comes; ``step`` is that of its beginning."""

    class_index: int
    label: str
    perform: Callable[[Any], None]
    argument: Any
    step: int


def slots_of(tasks: list[Task], capacity: int) -> list[Slot]:
    """The slots of all tasks, in topological order."""
    slots = []
    for task in tasks:
        if task.is_source:
            slots.append(Slot(task, None, capacity))
        else:
            slots.extend(Slot(task, channel, capacity) for channel in range(len(task.queues)))
    return slots
