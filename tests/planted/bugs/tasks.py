"""Mutants of a task's checkpoint: the order of its steps, its acknowledgement, and the end of its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onceproof.engine.checkpoint.metadata import handle_of
from onceproof.engine.elements import CheckpointBarrier, Record
from onceproof.engine.messages import TriggerCheckpoint
from onceproof.engine.operators.bundle import BundlingOperator
from onceproof.engine.state.snapshot import TaskSnapshot, encode_task_snapshot
from onceproof.engine.task import outputs
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import BarrierEffect
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.events import SnapshotStored, StoreSnapshot, TaskEffect
from onceproof.engine.task.task import Task, TaskState
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


@mutant(
    id="FLINK-35027",
    breaks="consistent_cut",
    summary="a task forwards the barrier before the records that its operators emit ahead of a snapshot",
)
def barrier_before_the_last_records(reached: Reached) -> Iterator[None]:
    """They are in no snapshot: they have left the operator and reach the next task after the barrier."""
    checkpoint = Task.take_checkpoint

    def hasty(self: Task, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        for operator in self._chain:
            operator.prepare_snapshot = _nothing  # type: ignore[method-assign]
        try:
            checkpoint(self, barrier, effects)
        finally:
            for operator in self._chain:
                del operator.prepare_snapshot
        for position, operator in enumerate(self._chain):
            records = operator.prepare_snapshot(barrier.checkpoint_id)
            if records:
                reached()
                self._emit(records, position + 1)

    with replaced(Task, "take_checkpoint", hasty):
        yield


def _nothing(checkpoint_id: int) -> list[Record]:
    return []


@mutant(
    id="snapshot-after-more-records",
    breaks="exactly_once",
    summary="a source emits the barrier, reads and sends one more buffer, and only then stores its offsets",
)
def snapshot_after_more_records(reached: Reached) -> Iterator[None]:
    """The buffer is behind the barrier but before the offsets: a restored source does not read it again."""
    checkpoint = Task.take_checkpoint

    def late(self: Task, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        first = len(effects)
        checkpoint(self, barrier, effects)
        source = self._source
        if source is None or self.state is not TaskState.RUNNING:
            return
        records = source.poll(1)
        if not records:
            return
        reached()
        self._emit(records, 0)
        snapshot = source.snapshot(barrier.checkpoint_id, barrier.timestamp_ms)
        head = self.vertex.operators[0].operator_id
        for place in range(first, len(effects)):
            effect = effects[place]
            if isinstance(effect, StoreSnapshot):
                operators = {**effect.snapshot.operators, head: snapshot}
                effects[place] = StoreSnapshot(effect.checkpoint_id, effect.path, TaskSnapshot(operators))

    with replaced(Task, "take_checkpoint", late):
        yield


@mutant(
    id="acknowledged-before-durable",
    breaks="liveness",
    summary="a task acknowledges as soon as its snapshot is taken, not when the upload is durable",
)
def acknowledged_before_durable(reached: Reached) -> Iterator[None]:
    """If the upload fails afterwards, a completed checkpoint lists a missing file."""
    checkpoint, stored = Task.take_checkpoint, Task.snapshot_stored

    def hasty(self: Task, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        first = len(effects)
        checkpoint(self, barrier, effects)
        for effect in effects[first:]:
            if isinstance(effect, StoreSnapshot):
                reached()
                handle = handle_of(effect.path, encode_task_snapshot(effect.snapshot))
                effects.append(self.acknowledge(effect.checkpoint_id, handle))

    def known(self: Task, event: SnapshotStored) -> Sequence[TaskEffect]:
        return stored(self, event) if event.checkpoint_id in self._in_flight else ()

    with replaced(Task, "take_checkpoint", hasty), replaced(Task, "snapshot_stored", known):
        yield


@mutant(
    id="late-upload-is-kept",
    breaks="no_leaks",
    summary="a snapshot that becomes durable after its checkpoint was aborted is left behind",
)
def late_upload_is_kept(reached: Reached) -> Iterator[None]:
    """The abort arrives during the upload, and the task forgets the upload."""
    stored = Task.snapshot_stored

    def forgetful(self: Task, event: SnapshotStored) -> Sequence[TaskEffect]:
        if event.checkpoint_id in self._in_flight:
            return stored(self, event)
        reached()
        return ()

    with replaced(Task, "snapshot_stored", forgetful):
        yield


@mutant(
    id="FLINK-2491",
    breaks="exactly_once",
    summary="a task at the end of its data finishes after any checkpoint, even one from before that end",
)
def final_checkpoint_is_not_awaited(reached: Reached) -> Iterator[None]:
    """The last transaction of a sink is in no checkpoint when the sink finishes."""
    end_data = Task.end_data

    def impatient(self: Task) -> Sequence[TaskEffect]:
        effects = end_data(self)
        if self.state is TaskState.ENDED_DATA:
            reached()
            self._first_final_checkpoint_id = 0
        return effects

    with replaced(Task, "end_data", impatient):
        yield


@mutant(
    id="finished-task-keeps-its-queues",
    breaks="liveness",
    summary="a finished task no longer reads its input, and a full channel blocks its upstream for ever",
    families=SMALL_JOBS,
)
def finished_task_keeps_its_queues(reached: Reached) -> Iterator[None]:
    """Barriers of later checkpoints stay in its queues and fill them."""
    finish = Task.finish

    def deaf(self: Task) -> Sequence[TaskEffect]:
        effects = finish(self)
        if self.queues:
            reached()
            for channel in range(len(self.queues)):
                self.barriers.blocked[channel] = True
        return effects

    with replaced(Task, "finish", deaf), replaced(outputs, "_TAKE_NO_ROOM", frozenset()):
        yield


@mutant(
    id="finished-upstreams-are-not-triggered-for",
    breaks="liveness",
    summary="a task whose upstreams have all finished ignores the trigger that only it can answer",
)
def trigger_is_for_sources_only(reached: Reached) -> Iterator[None]:
    """No barrier will arrive, so the final checkpoint never completes."""
    trigger = Task.trigger

    def sources_only(self: Task, message: TriggerCheckpoint) -> Sequence[TaskEffect]:
        if self.is_source:
            return trigger(self, message)
        reached()
        return ()

    with replaced(Task, "trigger", sources_only):
        yield


@mutant(
    id="bundle-open-across-the-barrier",
    breaks="exactly_once",
    summary="a bundle of records is not flushed at a barrier, as if it were in the snapshot",
    families=("word_bundles",),
)
def bundle_open_across_the_barrier(reached: Reached) -> Iterator[None]:
    """Its records are before the barrier's offsets, and are lost with the attempt."""

    def held_back(self: BundlingOperator, checkpoint_id: int) -> list[Record]:
        if self._taken:
            reached()
        return []

    with replaced(BundlingOperator, "prepare_snapshot", held_back):
        yield


@mutant(
    id="second-trigger-takes-another-snapshot",
    breaks="liveness",
    summary="a source that is triggered a second time for a checkpoint takes another snapshot of it",
)
def second_trigger_takes_another_snapshot(reached: Reached) -> Iterator[None]:
    """The file that the checkpoint lists then holds a later state, and is refused at the restore."""

    def forgetful(handler: type[AlignedBarrierHandler] | type[UnalignedBarrierHandler]) -> Any:
        trigger = handler.trigger

        def trigger_again(self: Any, barrier: CheckpointBarrier, now: int = 0) -> list[BarrierEffect]:
            is_repeated = barrier.checkpoint_id == self.latest_checkpoint_id and not self.pending
            if is_repeated and all(self.ended):
                reached()
                self.latest_checkpoint_id = self._last_done = barrier.checkpoint_id - 1
            return trigger(self, barrier, now)

        return replaced(handler, "trigger", trigger_again)

    with forgetful(AlignedBarrierHandler), forgetful(UnalignedBarrierHandler):
        yield
