"""What a task tells an operator that it opens: whose it is, what it resumes from, whom it may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from engine.graph import JobVertex
from engine.key_groups import key_group_range
from engine.operators.base import Downstream, Emit, Operator, OperatorContext
from engine.task.events import Restore, RestoredOperator
from engine.task.in_hand import EventInHand
from engine.task.settings import TaskSettings

_NOT_RESTORED: Final = RestoredOperator(None, None)


class Opening(NamedTuple):
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
        place = length
        for operator, operator_id in tail_first:
            restored = restore.operators.get(operator_id, _NOT_RESTORED)
            context = self._context(restore.checkpoint_id, restored)
            if operator.uses_time:
                context.downstream = behind(place)
                context.auto_watermark_interval_ms = self.vertex.auto_watermark_interval_ms
            place -= 1
            operator.open(context)

    def _context(self, checkpoint_id: int | None, restored: RestoredOperator) -> OperatorContext:
        vertex, settings = self.vertex, self.settings
        return OperatorContext(
            task_name=vertex.name,
            subtask=self.subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            key_groups=key_group_range(vertex.max_parallelism, vertex.parallelism, self.subtask),
            attempt=settings.attempt,
            clock=self.event.clock,
            probe=self.event.pass_point,
            restored_checkpoint_id=checkpoint_id,
            keyed=restored.keyed,
            operator=restored.operator,
            native=restored.native,
            state_backend=settings.state_backend,
            allow_pickle=settings.allow_pickle,
            settled=settings.settled,
            side_outputs=self.side_outputs,
        )
