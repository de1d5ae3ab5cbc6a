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
_CREATED = TaskState.CREATED


class Slot:
    """One input of one task: a channel, or its source where ``queue`` is None."""

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
        self.queue: Queue | None = None
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
        self.blocked = task.barriers.blocked
        self.outputs = task.output_queues
        self.capacity = capacity

    def is_ready(self) -> bool:
        """Whether the task runs, has something to read here, and room for what follows from it."""
        queue = self.queue
        if queue is None:
            if self.task.state is not _RUNNING:
                return False
        elif not queue or self.blocked[self.channel] or self.task.state is _CREATED:
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
