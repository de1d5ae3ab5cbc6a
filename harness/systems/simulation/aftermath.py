"""What a run that is over tells of its end: what it left behind, or why it did not go on.

Rules:

- A task that has something to read waits for the tasks whose channels from it are full. A task that holds
  channels back waits for the tasks whose barriers are still to come. Nothing else makes tasks of the
  simulation wait for each other.
- Tasks that wait in a circle wait for ever, whatever the schedule, until a checkpoint is given up. The first
  circle that is found is reported; a job without one goes on, or waits for something outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Final, get_args

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.runtime.recovery import METADATA, files_of, metadata_path
from onceproof.engine.state.stored import SHARED
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.outputs import is_full
from onceproof.engine.task.task import ALIVE, Task, TaskState
from onceproof.harness.model.fault_kinds import Target
from onceproof.harness.model.faults import leaving_files
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.run_recorder import RunRecorder
from onceproof.harness.systems.simulation.simulated_storage import SimulatedStorage
from onceproof.harness.systems.simulation.user_requests import UserRequests


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


_BEFORE_FILES_ARE_KNOWN: Final = tuple(
    CLASS_INDEX[name] for name in ("store", "metadata", "message_acknowledge")
)
_LEAVES_UNKNOWN_FILES: Final = leaving_files(*get_args(Target))


def report_leaks(
    recorder: RunRecorder,
    external: TransactionalSystem,
    storage: SimulatedStorage,
    requests: UserRequests,
    tasks: Iterable[Task],
) -> None:
    """Enter what was left behind into the history, and files of savepoints that are gone."""
    for transaction in external.unsettled():
        if transaction.name not in external.neighbours and transaction.name not in external.begun_late:
            recorder.leak(f"{transaction.state} transaction", transaction.name)
    for name, state in external.neighbours.items():
        if external.transactions[name].state != state:
            recorder.leak("lost transaction of another job", name)
    for path in storage.paths("chk-"):
        recorder.leak("metadata" if path.endswith(METADATA) else "orphan file", path)
    requests.report_lost_files()
    for task in tasks:
        if task.state is not TaskState.FINISHED:
            recorder.leak("unfinished task", task.name)


def report_unfired_timers(recorder: RunRecorder, tasks: Iterable[Task]) -> None:
    """Enter the event-time timers that are left: each is due, since event time ends with the input.

    The tasks' state must be in memory: a database is closed when its task finishes.
    """
    for task in tasks:
        for operator in task.operators:
            if operator.timers is not None:
                for key, timer in operator.timers.event.stored():
                    recorder.leak("timer that did not fire", f"{timer} of key {key!r} in {task.name}")


def orphan_files(
    storage: SimulatedStorage, retained: Iterable[CheckpointMetadata], *, takes_shared: bool
) -> list[str]:
    """Return the files that no retained checkpoint needs; shared ones only if ``takes_shared``."""
    needed: set[str] = set()
    for metadata in retained:
        needed.add(metadata_path(metadata.checkpoint_id))
        needed |= files_of(metadata)
    paths = storage.paths("chk-")
    if takes_shared:
        paths += storage.paths(SHARED)
    return [path for path in paths if path not in needed]


def report_orphan_files(
    recorder: RunRecorder,
    storage: SimulatedStorage,
    agenda: Agenda,
    kept: Sequence[CheckpointMetadata],
    num_retained: int,
) -> None:
    """Report files that the job should have deleted while it ran; the sweep at its end would hide them.

    The job cannot know of a file whose acknowledgement was lost, nor of half a file that a failed write
    left, nor of what is still under way. What it cannot list or delete is left as well.

    Args:
        kept: the checkpoints in the store of the job.
        num_retained: how many the scenario says, whatever the store has kept.
    """
    if agenda.is_under_way(_BEFORE_FILES_ARE_KNOWN) or recorder.has_fired(_LEAVES_UNKNOWN_FILES):
        return
    oldest = min([each.checkpoint_id for each in kept], default=0)
    # What later ones that were aborted have shared goes with the next one that is complete.
    takes_shared = max(recorder.aborted_checkpoints(), default=0) < oldest
    for path in orphan_files(storage, kept[-num_retained:], takes_shared=takes_shared):
        recorder.leak("orphan file", path)
