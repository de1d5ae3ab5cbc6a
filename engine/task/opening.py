"""What a task tells an operator that it opens: whose it is, what it resumes from, whom it may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from onceproof.engine.graph import JobVertex
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.operators.base import Downstream, Emit, Operator, OperatorContext
from onceproof.engine.task.events import Restore, RestoredOperator
from onceproof.engine.task.in_hand import EventInHand
from onceproof.engine.task.settings import TaskSettings

_NOT_RESTORED: Final = RestoredOperator(None, None)


class Opening(Struct):
    """What the operators of one task have in common when they are opened."""

    vertex: JobVertex
    subtask: int
    settings: TaskSettings
    event: EventInHand
    side_outputs: Mapping[str, Sequence[Emit]]

    def open_all(
        self,
        tail_first: Sequence[tuple[Operator, str]],
        length: int,
        restore: Restore,
        behind: Callable[[int], Downstream],
    ) -> None:
        """Open the operators of a chain of ``length``, last first; ``behind(n)`` is the chain from n on."""
        vertex, subtask, settings, event = self.vertex, self.subtask, self.settings, self.event
        parallelism, max_parallelism = vertex.parallelism, vertex.max_parallelism
        place = length
        for operator, operator_id in tail_first:
            restored = restore.operators.get(operator_id, _NOT_RESTORED)
            context = OperatorContext(
                task_name=vertex.name,
                subtask=subtask,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                key_groups=key_group_range(max_parallelism, parallelism, subtask),
                attempt=settings.attempt,
                clock=event.clock,
                probe=event.pass_point,
                restored_checkpoint_id=restore.checkpoint_id,
                keyed=restored.keyed,
                operator=restored.operator,
                native=restored.native,
                state_backend=settings.state_backend,
                allow_pickle=settings.allow_pickle,
                settled=settings.settled,
                side_outputs=self.side_outputs,
            )
            if operator.uses_time:
                context.downstream = behind(place)
                context.auto_watermark_interval_ms = vertex.auto_watermark_interval_ms
            place -= 1
            operator.open(context)
