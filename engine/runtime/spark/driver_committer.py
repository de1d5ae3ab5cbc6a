"""Commits, in the driver, what completed checkpoints list, because the tasks have ended.

The rules this module lives by:

- The driver makes a new function of the job's sink for each subtask, restores it from the checkpoint and
  calls ``settle``. It does what it would do in a restored task, so it is idempotent; it never sees a record.
- Its commits are counted for each subtask, as a task counts its own.
- Only when all subtasks have settled may the driver abort transactions, and then it may abort all others:
  dead attempts have begun them, or attempts whose epoch is over. One function of each operator does so, as if
  it were the only subtask: each would look through what all have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from onceproof.engine.functions import CommittingFunction, FunctionInitializationContext
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.deployment import RestorePlan, read_restore
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.messages import AttemptId, TaskId
from onceproof.engine.operators.base import FunctionOperator, Operator, OperatorContext
from onceproof.engine.protocol_points import Probe
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.task.event_context import EventContext
from onceproof.engine.task.task_counters import TaskCounters
from onceproof.engine.wall_clock import WallClock

SWEEPER = "driver"
"""The attempt id with which the driver aborts transactions: no task has it, so none is spared."""


class DriverCommitter:
    """Commits for one attempt of a job."""

    def __init__(
        self,
        graph: JobGraph,
        attempt: AttemptId,
        read: Callable[[str], bytes],
        probe: Probe,
        clocks: Clocks,
        scope: str,
    ) -> None:
        self._graph = graph
        self._scope = scope
        # The attempts of the workers are of the same incarnation, and none has this name.
        self._sweeper = f"{attempt.partition('.')[0]}.{SWEEPER}"
        self._read = read
        self._probe = probe
        self._clocks = clocks
        self.counters: dict[TaskId, TaskCounters] = {}
        """What was committed and aborted for each subtask in this attempt."""
        self._vertices = {
            vertex.index
            for vertex in graph.vertices
            if any(_committing(create()) for create in [node.create for node in vertex.operators])
        }

    def settle(self, task: TaskId, plan: RestorePlan) -> None:
        """Commit what a checkpoint lists for a subtask; raises the errors of the storage and the sink."""
        if task.vertex not in self._vertices:
            return
        restored = read_restore(plan, self._read, {}).operators
        parallelism = self._graph.vertices[task.vertex].parallelism
        for operator_id, function, context in self._functions(task, parallelism):
            state = restored.get(operator_id)
            context.restored_checkpoint_id = plan.checkpoint_id
            context.operator = None if state is None else state.operator
            function.settle(FunctionInitializationContext(plan.checkpoint_id, context.operator_store()))

    def sweep(self) -> None:
        """Abort all uncommitted transactions; raises the errors of the sink."""
        for vertex in self._graph.vertices:
            if vertex.index in self._vertices:
                for _, function, _ in self._functions(TaskId(vertex.index, 0), 1):
                    function.abort_unlisted()

    def _functions(
        self, task: TaskId, parallelism: int
    ) -> Iterator[tuple[str, CommittingFunction, OperatorContext]]:
        """Yield a new committing function of each operator of a subtask, with its id and context."""
        vertex = self._graph.vertices[task.vertex]
        now = self._clocks.steady_ms()
        wall_clock = WallClock(self._clocks.wall_ms() - now, self._clocks.steady_ms)
        event = EventContext(f"{vertex.name}-{task.subtask}", self._probe, wall_clock)
        event.now = now
        event.counters = self.counters.setdefault(task, event.counters)
        for node in vertex.operators:
            create = node.create
            function = _committing(create())
            if function is not None:
                context = OperatorContext(
                    task_name=vertex.name,
                    subtask=task.subtask,
                    parallelism=parallelism,
                    max_parallelism=vertex.max_parallelism,
                    key_groups=key_group_range(vertex.max_parallelism, parallelism, task.subtask),
                    attempt=self._sweeper,
                    clock=event.clock,
                    steady_clock=event.steady_clock,
                    probe=event.pass_point,
                    job_id=self._graph.job_id,
                    operator_id=node.operator_id,
                    scope=self._scope,
                    operator_name=node.name,
                    job_parameters=self._graph.settings.job_parameters,
                    allow_pickle=self._graph.settings.allow_pickled_state,
                )
                function.set_runtime_context(context.runtime_context())
                yield node.operator_id, function, context


def _committing(operator: Operator) -> CommittingFunction | None:
    """Return the operator's function if it is a CommittingFunction, else None."""
    function: object = operator.function if isinstance(operator, FunctionOperator) else None
    return function if isinstance(function, CommittingFunction) else None
