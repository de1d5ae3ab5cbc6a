"""Mutants of unaligned checkpoints: those given up before they begin, and edges that no barrier overtakes."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.configuration.alignment import CheckpointOptions
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import Task
from onceproof.engine.task.unaligned_task import UnalignedTask
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="checkpoint-aborted-before-its-barrier-begins",
    origin="FLINK-28474",
    breaks="timeliness",
    summary="a task begins an unaligned checkpoint of whose abort it has heard already, and keeps it",
    unseen="equivalent here: the coordinator discards the answer, and the next checkpoint what was collected",
)
def checkpoint_aborted_before_its_barrier_begins(reached: Reached) -> Iterator[None]:
    """Nothing ends what it collects for it."""
    take = Task.take_checkpoint

    def taking(self: Task, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        if barrier.checkpoint_id in self._aborted_ids and isinstance(self, UnalignedTask):
            reached()
            self._aborted_ids.remove(barrier.checkpoint_id)
        take(self, barrier, effects)

    with replaced(Task, "take_checkpoint", taking):
        yield


@mutant(
    id="barrier-with-a-time-out-is-not-held-back",
    origin="FLINK-33693",
    breaks="exactly_once",
    summary="on an edge without unaligned support a barrier may still turn unaligned after its time-out",
)
def barrier_with_a_time_out_is_not_held_back(reached: Reached) -> Iterator[None]:
    """Records of the edge are stored as in flight, where no restore deals them out rightly."""
    held_back = CheckpointOptions.on_edge_without_unaligned_support

    def only_overtaking_ones(self: CheckpointOptions) -> CheckpointOptions:
        if self.is_timeoutable:
            reached()
            return self
        return held_back(self)

    with replaced(CheckpointOptions, "on_edge_without_unaligned_support", only_overtaking_ones):
        yield
