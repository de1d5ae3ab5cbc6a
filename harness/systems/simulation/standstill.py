"""Why a job that uses up its steps does not go on: the tasks of it that wait for each other.

The rules this module lives by:

- A task that has something to read waits for the tasks whose channels from it are full. A task that holds
  channels back waits for the tasks whose barriers are still to come. Nothing else makes tasks of the
  simulation wait for each other.
- Tasks that wait in a circle wait for ever, whatever the schedule, until a checkpoint is given up. The first
  circle that is found is reported; a job without one goes on, or waits for something outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.outputs import is_full
from onceproof.engine.task.task import ALIVE, Task


def circle_of_waits(tasks: Sequence[Task], capacity: int) -> list[str]:
    """Return why tasks wait for each other, one sentence a task, the first one waiting for the second.

    Args:
        capacity: how many elements a channel holds, barriers aside.

    Returns:
        Nothing where no tasks wait in a circle.
    """
    reader_of = {id(queue): task.name for task in tasks for queue in task.queues}
    sender_of = {id(queue): task.name for task in tasks for queue in task.output_queues}
    waits: dict[str, dict[str, str]] = {}
    """By task, the tasks that it waits for, and for what."""
    for task in tasks:
        if task.state in ALIVE:
            waits[task.name] = {**_for_barriers(task, sender_of), **_for_room(task, capacity, reader_of)}
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as found:
        # Each task of the circle is waited for by the next one; the first is the last as well.
        circle = found.args[1][::-1]
        return [f"{task} {waits[task][other]} {other}" for task, other in pairwise(circle)]
    return []


def _for_room(task: Task, capacity: int, reader_of: dict[int, str]) -> dict[str, str]:
    blocked = task.barriers.blocked
    has_input = task.is_source or any(
        queue and not blocked[channel] for channel, queue in enumerate(task.queues)
    )
    if not has_input:
        return {}
    return {
        reader_of[id(queue)]: "has no room in its channel to"
        for queue in task.output_queues
        if len(queue) >= capacity and is_full(queue, capacity) and id(queue) in reader_of
    }


def _for_barriers(task: Task, sender_of: dict[int, str]) -> dict[str, str]:
    handler = task.barriers
    if not any(handler.blocked):
        return {}
    # Where barriers are only counted, no channel is ever blocked.
    assert isinstance(handler, AlignedBarrierHandler | UnalignedBarrierHandler)
    if isinstance(handler, UnalignedBarrierHandler):
        awaited = handler.undelivered
    else:
        held = handler.holds_channels
        awaited = [channel for channel in range(len(task.queues)) if channel not in held]
    senders = [sender_of.get(id(task.queues[channel])) for channel in awaited]
    what = f"holds channels back until checkpoint {handler.latest_checkpoint_id} has its barrier from"
    return {sender: what for sender in senders if sender is not None}
