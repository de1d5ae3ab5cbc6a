"""Which tasks a checkpoint begins at, and which must answer (Flink: DefaultCheckpointPlanCalculator).

Tasks that have finished contribute nothing any more and are not asked. A task that nobody upstream is left
to send a barrier to is triggered itself, as a source is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from onceproof.engine.messages import TaskId


class CheckpointTasks(Struct, frozen=True):
    """The tasks of one checkpoint, in topological order.

    Those that must answer are also those that are told what becomes of it.
    """

    triggered: tuple[TaskId, ...]
    answering: tuple[TaskId, ...]


def checkpoint_tasks(
    upstreams: Mapping[TaskId, tuple[TaskId, ...]],
    finished: Collection[TaskId] = (),
    *,
    after_tasks_finish: bool = True,
) -> CheckpointTasks | None:
    """The tasks of a checkpoint while those in ``finished`` have finished; all others run.

    None where there can be none: everyone has finished, or somebody has and it is not to go on then.
    """
    if not finished:
        sources = [task for task, senders in upstreams.items() if not senders]
        return CheckpointTasks(tuple(sources), tuple(upstreams))
    answering = tuple([task for task in upstreams if task not in finished])
    if not answering or not after_tasks_finish:
        return None
    gone = set(finished)
    triggered = [task for task in answering if gone.issuperset(upstreams[task])]
    return CheckpointTasks(tuple(triggered), answering)
