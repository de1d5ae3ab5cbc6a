"""Mutants of subtasks that do not run: not yet, not any more, or again after they had finished."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator, CheckpointTasks, checkpoint_tasks
from onceproof.engine.checkpoint.metadata import SubtaskState
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.messages import Send, TaskId
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="checkpoint-of-those-that-run",
    origin="bytewax#181",
    breaks="exactly_once",
    summary="a checkpoint begins while some tasks are still restored, and completes without them",
)
def checkpoint_of_those_that_run(reached: Reached) -> Iterator[None]:
    """The next restore takes the state of the others for that of finished tasks."""
    tasks, state = CheckpointCoordinator._tasks, PendingCheckpoint.subtask_state

    def running_ones(self: CheckpointCoordinator) -> CheckpointTasks | None:
        found, plan = tasks(self), self._plan
        if found is not None or plan is None:
            return found
        allowed = self._settings.checkpoints_after_tasks_finish
        every = checkpoint_tasks(plan.upstreams, self._finished, after_tasks_finish=allowed)
        if every is None:
            return None
        triggered = tuple([task for task in every.triggered if task in self._running])
        if not triggered:
            return None
        reached()
        return CheckpointTasks(triggered, tuple([task for task in every.answering if task in self._running]))

    def taken_for_finished(self: PendingCheckpoint, task: TaskId) -> SubtaskState:
        if task not in self._answers and task not in self._finished:
            return SubtaskState(None, True)
        return state(self, task)

    with (
        replaced(CheckpointCoordinator, "_tasks", running_ones),
        replaced(PendingCheckpoint, "subtask_state", taken_for_finished),
    ):
        yield


@mutant(
    id="finished-source-comes-back",
    origin="FLINK-21084",
    breaks="exactly_once",
    summary="a source that was restored as finished does not say so in the checkpoints that follow",
)
def finished_source_comes_back(reached: Reached) -> Iterator[None]:
    """A second restore takes it for one that has not begun, and it reads all its splits again."""
    open_source, snapshot, acknowledge = SourceOperator.open, SourceOperator.snapshot_state, Task.acknowledge

    def noting(self: SourceOperator, context: OperatorContext) -> None:
        open_source(self, context)
        if context.has_finished and self.source.is_bounded:
            self.__dict__["_comes_back"] = self._own_splits(context)

    def from_the_beginning(self: SourceOperator, context: FunctionSnapshotContext) -> None:
        snapshot(self, context)
        if "_comes_back" in self.__dict__:
            reached()
            self._state.update([[split, None] for split in self.__dict__["_comes_back"]])

    def unfinished(self: Task, checkpoint_id: int, handle: object | None) -> Send:
        if self._source is not None and "_comes_back" in self._source.__dict__:
            self._in_flight[checkpoint_id] = False
        return acknowledge(self, checkpoint_id, handle)

    with (
        replaced(SourceOperator, "open", noting),
        replaced(SourceOperator, "snapshot_state", from_the_beginning),
        replaced(Task, "acknowledge", unfinished),
    ):
        yield


@mutant(
    id="restored-source-without-splits-never-ends",
    origin="FLINK-31006",
    breaks="liveness",
    summary="a source that is restored without a split waits for splits that nothing will give it",
)
def source_without_splits_never_ends(reached: Reached) -> Iterator[None]:
    """At a fresh start it learns that there are none."""
    open_source = SourceOperator.open
    sound: Any = vars(SourceOperator)["exhausted"]

    def noting(self: SourceOperator, context: OperatorContext) -> None:
        open_source(self, context)
        if context.operator is not None and not context.has_finished and not self._readers:
            self.__dict__["_waits_for_splits"] = True

    def waiting(self: SourceOperator) -> bool:
        if "_waits_for_splits" in self.__dict__:
            reached()
            return False
        return bool(sound.fget(self))

    with (
        replaced(SourceOperator, "open", noting),
        replaced(SourceOperator, "exhausted", property(waiting)),
    ):
        yield
