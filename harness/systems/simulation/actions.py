"""What can happen next in the simulated world.

A slot is a standing possibility of one attempt: poll this source, read that channel. It is made once and
asked at every step whether it is ready. An action is a thing under way, and always possible: a message, a
write, a timer that is due, a task that waits to be restored. Labels name both in a way that survives a change
of the schedule before them, for preemptions and stories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.checkpoint.events import CheckpointExpired, IntervalElapsed
from onceproof.engine.job.events import RestartDue
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TaskFailed,
    TaskFinished,
    TaskRunning,
    TriggerCheckpoint,
)
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.protocol_points import ACKNOWLEDGED, NOTIFIED, TRIGGERED
from onceproof.engine.task.events import POLL, Deliver, TaskEvent
from onceproof.engine.task.outputs import Queue, is_full, next_overtakes
from onceproof.engine.task.sorted_task import SortedTask
from onceproof.engine.task.task import Task, TaskState
from onceproof.harness.model.history import EXPIRY_WAIT, INTERVAL_WAIT, RESTART_WAIT
from onceproof.harness.model.scenario import ACTION_CLASSES

CLASS_INDEX = {name: index for index, name in enumerate(ACTION_CLASSES)}
_POLL = CLASS_INDEX["poll"]
_DELIVER = CLASS_INDEX["deliver"]
SLOT_CLASSES = (_POLL, _DELIVER)
"""The classes of all slots; every other class is one of actions."""
_DELIVERIES = tuple(Deliver(channel) for channel in range(64))
_NOT_BLOCKED = [False]
_CREATED = TaskState.CREATED

TRAVEL: Final[dict[Any, tuple[int, str, str]]] = {
    TriggerCheckpoint: (CLASS_INDEX["message_trigger"], "trigger", TRIGGERED),
    AcknowledgeCheckpoint: (CLASS_INDEX["message_acknowledge"], "acknowledge", ACKNOWLEDGED),
    NotifyCheckpointComplete: (CLASS_INDEX["message_notify"], "notify", NOTIFIED),
    NotifyCheckpointAborted: (CLASS_INDEX["message_control"], "abort", "abort_notified"),
    DeclineCheckpoint: (CLASS_INDEX["message_control"], "decline", "declined"),
}
"""Class, label and point of the messages of a checkpoint, all of which a fault can strike."""

NAMES: Final[dict[Any, str]] = {kind: kind.__name__ for kind in (TaskRunning, TaskFinished, TaskFailed)}
"""Of the messages that belong to no checkpoint."""

WAITS: Final[dict[Any, str]] = {
    RestartDue: RESTART_WAIT,
    IntervalElapsed: INTERVAL_WAIT,
    CheckpointExpired: EXPIRY_WAIT,
}
"""The timers of the job master whose length is judged."""


class Slot(Struct, eq=False):
    """One input of one task: a channel, or its source, whose ``queue`` stands for what it has yet to read."""

    class_index: int
    label: str
    task: Task
    event: TaskEvent
    queue: Queue | list[None]
    channel: int
    blocked: list[bool]
    outputs: list[Queue]
    capacity: int

    def is_ready(self) -> bool:
        """Whether the task may read here, if ``queue`` holds something, and has room for what follows.

        A barrier that overtakes needs no room.
        """
        if self.blocked[self.channel] or self.task.state is _CREATED:
            return False
        capacity = self.capacity
        for output in self.outputs:
            if len(output) >= capacity and is_full(output, capacity):
                return not self.task.is_source and next_overtakes(self.queue)  # type: ignore[arg-type]
        return True


class HeldSlot(Slot, eq=False):
    """A channel of a task that takes no records now and then."""

    def is_ready(self) -> bool:
        """Whether the task takes what is next, and has room for what follows."""
        return self.task.takes(self.channel) and super().is_ready()


class WaitingSlot(Slot, eq=False, kw_only=True):
    """A source that has nothing now and then, and waits."""

    source: SourceOperator

    def is_ready(self) -> bool:
        """Whether the source has something, as far as it knows, and the task has room for it."""
        return not self.source.waits and super().is_ready()


class Action(Struct, eq=False):
    """Something under way: ``perform(argument)`` when its turn comes; ``step`` is that of its beginning."""

    class_index: int
    label: str
    perform: Callable[[Any], None]
    argument: Any
    step: int


def slots_of(task: Task, capacity: int, *, is_endless: bool = False) -> list[Slot]:
    """The slots of a task; of a source that may wait if the input is endless."""
    outputs = task.output_queues
    polled = (_POLL, f"poll {task.name}", task, POLL, task.unread, 0, _NOT_BLOCKED, outputs, capacity)
    if task.is_source:
        head = task.operators[0]
        if is_endless and isinstance(head, SourceOperator):
            return [WaitingSlot(*polled, source=head)]
        return [Slot(*polled)]
    name = task.name
    blocked = task.barriers.blocked
    kind = HeldSlot if task.may_hold_input else Slot
    slots: list[Slot] = []
    for channel, queue in enumerate(task.queues):
        event = _DELIVERIES[channel] if channel < len(_DELIVERIES) else Deliver(channel)
        label = f"deliver {name}/{channel}"
        slots.append(kind(_DELIVER, label, task, event, queue, channel, blocked, outputs, capacity))
    if isinstance(task, SortedTask):
        # Once its inputs have ended, it is polled for what it has collected.
        slots.append(Slot(*polled))
    return slots
