"""What a task tells an operator that it opens: whose it is, what it resumes from, whom it may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.graph import JobVertex
from engine.key_groups import key_group_range
from engine.operators.base import Emit, OperatorContext
from engine.task.events import RestoredOperator
from engine.task.in_hand import EventInHand
from engine.task.settings import TaskSettings


def operator_context(
    vertex: JobVertex,
    subtask: int,
    settings: TaskSettings,
    event: EventInHand,
    side_outputs: Mapping[str, Sequence[Emit]],
    checkpoint_id: int | None,
    restored: RestoredOperator,
) -> OperatorContext:
    """Put the context of one operator together; ``checkpoint_id`` is what the job was restored from."""
    return OperatorContext(
        task_name=vertex.name,
        subtask=subtask,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        key_groups=key_group_range(vertex.max_parallelism, vertex.parallelism, subtask),
        attempt=settings.attempt,
        clock=event.clock,
        probe=event.pass_point,
        restored_checkpoint_id=checkpoint_id,
        keyed=restored.keyed,
        operator=restored.operator,
        native=restored.native,
        state_backend=settings.state_backend,
        allow_pickle=settings.allow_pickle,
        settled=settings.settled,
        side_outputs=side_outputs,
    )
