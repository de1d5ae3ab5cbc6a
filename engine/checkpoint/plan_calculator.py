"""Which tasks a checkpoint triggers, and which must acknowledge (Flink: DefaultCheckpointPlanCalculator).

Finished tasks contribute nothing and take no part. A task whose upstreams have all finished gets no barrier,
so it is triggered itself, like a source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from onceproof.engine.messages import TaskId


class CheckpointTasks(Struct, frozen=True):
    """The tasks of one checkpoint, in topological order.

    Those that must answer also get the notifications of its outcome.
    """

    triggered: tuple[TaskId, ...]
    answering: tuple[TaskId, ...]


def checkpoint_tasks(
    upstreams: Mapping[TaskId, tuple[TaskId, ...]],
    finished: Collection[TaskId] = (),
    *,
    after_tasks_finish: bool = True,
) -> CheckpointTasks | None:
    """Return the tasks of a checkpoint while those in ``finished`` have finished and all others run.

    None without a checkpoint: all have finished, or some have and ``after_tasks_finish`` is off.
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
