"""Under which name a task has its snapshot stored, and in which form.

- The name is the subtask's and the attempt's own: what a zombie stores late cannot replace what the living
  have stored.
- A savepoint is written in the canonical form, which every backend reads, for it is its user's to take along.
"""

from __future__ import annotations

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.messages import CHECKPOINT, AttemptId, TaskId, checkpoint_folder
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot
from onceproof.engine.task.events import StoreSnapshot


def storing(
    barrier: CheckpointBarrier,
    task: TaskId,
    attempt: AttemptId,
    head: str,
    snapshots: dict[str, OperatorSnapshot],
) -> StoreSnapshot:
    """The effect that has the snapshots of a task's operators stored; ``head`` is the id of its first one."""
    checkpoint_id, kind = barrier.checkpoint_id, barrier.kind
    path = f"{checkpoint_folder(checkpoint_id, kind)}/{head[:12]}-{task.subtask}-{attempt}"
    return StoreSnapshot(checkpoint_id, path, TaskSnapshot(snapshots), kind != CHECKPOINT)
