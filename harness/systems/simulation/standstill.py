"""Why a job that uses up its steps does not go on: the tasks of it that wait for each other.

The rules this module lives by:

- A task that has something to read waits for the tasks whose channels from it are full. A task that holds
  channels back waits for the tasks whose barriers are still to come. Nothing else makes tasks of the
  simulation wait for each other.
- Tasks that wait in a circle wait for ever, whatever the schedule, until a checkpoint is given up. The first
  circle that is found is reported; a job without one goes on, or waits for something outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.outputs import is_full
from onceproof.engine.task.task import ALIVE, Task

Wait = tuple[str, str, str]
"""A task, what it waits for, and the task that it waits for."""


def circle_of_waits(tasks: Sequence[Task], capacity: int) -> list[str]:
    """Return why tasks wait for each other, one sentence a task, the first one waiting for the second.

    :param capacity: how many elements a channel holds, barriers aside
    :return: nothing where no tasks wait in a circle
    """
    waits: dict[str, list[Wait]] = {}
    reader_of = {id(queue): task.name for task in tasks for queue in task.queues}
    sender_of = {id(queue): task.name for task in tasks for queue in task.output_queues}
    for task in tasks:
        if task.state in ALIVE:
            waits[task.name] = [*_for_room(task, capacity, reader_of), *_for_barriers(task, sender_of)]
    return [f"{task} {what} {other}" for task, what, other in _circle(waits)]


def _for_room(task: Task, capacity: int, reader_of: dict[int, str]) -> Iterator[Wait]:
    blocked = task.barriers.blocked
    has_input = task.is_source or any(
        queue and not blocked[channel] for channel, queue in enumerate(task.queues)
    )
    if not has_input:
        return
    for queue in task.output_queues:
        if len(queue) >= capacity and is_full(queue, capacity) and id(queue) in reader_of:
            yield task.name, "has no room in its channel to", reader_of[id(queue)]


def _for_barriers(task: Task, sender_of: dict[int, str]) -> Iterator[Wait]:
    handler = task.barriers
    if not any(handler.blocked):
        return
    # Where barriers are only counted, no channel is ever blocked.
    assert isinstance(handler, AlignedBarrierHandler | UnalignedBarrierHandler)
    if isinstance(handler, UnalignedBarrierHandler):
        awaited = handler.undelivered
    else:
        held = handler.holds_channels
        awaited = [channel for channel in range(len(task.queues)) if channel not in held]
    for channel in awaited:
        sender = sender_of.get(id(task.queues[channel]))
        if sender is not None:
            checkpoint = handler.latest_checkpoint_id
            yield task.name, f"holds channels back until checkpoint {checkpoint} has its barrier from", sender


def _circle(waits: dict[str, list[Wait]]) -> list[Wait]:
    """Return the waits of the first circle: a search in depth, whose path closes on itself."""
    done: set[str] = set()
    for first in waits:
        path: list[Wait] = []
        left = [iter(waits[first])]
        on_path = [first]
        while left:
            wait = next(left[-1], None)
            if wait is None:
                left.pop()
                done.add(on_path.pop())
                if path:
                    path.pop()
                continue
            other = wait[2]
            if other in on_path:
                return [*path[on_path.index(other) :], wait]
            if other not in done:
                path.append(wait)
                on_path.append(other)
                left.append(iter(waits.get(other, ())))
    return []
