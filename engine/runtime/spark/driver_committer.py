"""How the driver commits what complete checkpoints list, in the place of tasks that are gone.

The rules this module lives by:

- A function of the job's own, made for the purpose and restored from the checkpoint, commits: what it does is
  what it would do in a task that was restored, so it is idempotent, and it never sees a record.
- Only when all subtasks have settled may anything be swept, and then everything may: whatever is not
  committed by then was begun by attempts that are dead, or must be treated as if they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onceproof.engine.functions import CommittingFunction, FunctionInitializationContext
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.deployment import RestorePlan, read_restore
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.base import FunctionOperator, Operator, OperatorContext
from onceproof.engine.protocol_points import Probe
from onceproof.engine.task.event_context import EventContext

SWEEPER = "driver"
"""The attempt in whose name the driver sweeps: no task ever has it, so no transaction is spared."""


class DriverCommitter:
    """Commits for one attempt of a job."""

    def __init__(
        self, graph: JobGraph, read: Callable[[str], bytes], probe: Probe, now: Callable[[], int]
    ) -> None:
        self._graph = graph
        self._read = read
        self._probe = probe
        self._now = now
        self._vertices = {
            vertex.index
            for vertex in graph.vertices
            if any(_committing(create()) for create in [node.create for node in vertex.operators])
        }

    def settle(self, task: TaskId, plan: RestorePlan) -> None:
        """Commit what a checkpoint lists for a subtask; raises what reading and the sink raise."""
        if task.vertex not in self._vertices:
            return
        restored = read_restore(plan, self._read, {}).operators
        for operator_id, function, context in self._functions(task):
            state = restored.get(operator_id)
            context.restored_checkpoint_id = plan.checkpoint_id
            context.operator = None if state is None else state.operator
            function.settle(FunctionInitializationContext(plan.checkpoint_id, context.operator_store()))

    def sweep(self) -> None:
        """Abort what is not committed; raises what the sink raises."""
        for vertex in self._graph.vertices:
            if vertex.index in self._vertices:
                for subtask in range(vertex.parallelism):
                    for _, function, _ in self._functions(TaskId(vertex.index, subtask)):
                        function.abort_unlisted()

    def _functions(self, task: TaskId) -> Iterator[tuple[str, CommittingFunction, OperatorContext]]:
        """New functions of a subtask that commit, each with the operator's id and the context it has."""
        vertex = self._graph.vertices[task.vertex]
        event = EventContext(f"{vertex.name}-{task.subtask}", self._probe)
        event.now = self._now()
        for node in vertex.operators:
            create = node.create
            function = _committing(create())
            if function is not None:
                context = OperatorContext(
                    task_name=vertex.name,
                    subtask=task.subtask,
                    parallelism=vertex.parallelism,
                    max_parallelism=vertex.max_parallelism,
                    key_groups=key_group_range(vertex.max_parallelism, vertex.parallelism, task.subtask),
                    attempt=SWEEPER,
                    clock=event.clock,
                    probe=event.pass_point,
                    allow_pickle=self._graph.settings.allow_pickled_state,
                )
                function.set_runtime_context(context.runtime_context())
                yield node.operator_id, function, context


def _committing(operator: Operator) -> CommittingFunction | None:
    """The operator's function if it commits."""
    function: object = operator.function if isinstance(operator, FunctionOperator) else None
    return function if isinstance(function, CommittingFunction) else None
