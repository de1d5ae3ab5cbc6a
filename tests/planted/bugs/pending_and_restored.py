"""Mutants of what a failure finds: pending checkpoints, records in flight, splits and key groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from onceproof.engine.checkpoint import in_flight_redistribution, redistribution
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import AttemptEnded, AttemptStarted, CoordinatorEffect
from onceproof.engine.checkpoint.failure_counter import SUSPENDED
from onceproof.engine.checkpoint.in_flight_redistribution import MAPPERS, OVERTAKEN_KINDS, SubtaskMapper
from onceproof.engine.checkpoint.metadata import OperatorMetadata
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.elements import MAX_WATERMARK, Buffer, CheckpointBarrier
from onceproof.engine.graph import PartitionerKind
from onceproof.engine.job import channel_names
from onceproof.engine.key_groups import MAX_PARALLELISM_LIMIT, key_group_range
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.in_flight import ChannelId
from onceproof.engine.state.stored import EncodedTable, NativePart
from onceproof.engine.task import unaligned_task
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import STOPPED, Task
from onceproof.engine.task.unaligned_task import InFlightRecorder, UnalignedTask
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

NO_TASK: Final = TaskId(-1, -1)
"""A task that never acknowledges: a checkpoint that misses it stays pending."""


@mutant(
    id="checkpoint-that-was-not-stored-stays-pending",
    origin="FLINK-5158",
    breaks="liveness",
    summary="a checkpoint whose metadata could not be stored stays pending, and no other one begins",
)
def checkpoint_that_was_not_stored_stays_pending(reached: Reached) -> Iterator[None]:
    """The error of the store ends its completion half-way, and its time-out takes it for over."""
    fail = CheckpointCoordinator._fail

    def unless_half_way(
        self: CheckpointCoordinator,
        pending: PendingCheckpoint,
        reason: str,
        effects: list[CoordinatorEffect],
        *,
        by_task: bool = False,
    ) -> None:
        if pending.finalizing:
            reached()
            pending.finalizing = False
            pending.missing[NO_TASK] = None
        elif NO_TASK not in pending.missing:
            fail(self, pending, reason, effects, by_task=by_task)

    with replaced(CheckpointCoordinator, "_fail", unless_half_way):
        yield


@mutant(
    id="failover-leaves-pending-checkpoints-to-their-time-out",
    origin="FLINK-7844",
    breaks="timeliness",
    summary="a checkpoint that a failure has ended stays pending until its time-out, and holds others up",
)
def failover_leaves_pending_checkpoints_to_their_time_out(reached: Reached) -> Iterator[None]:
    """Its tasks are gone, so nothing can complete it."""
    attempt_started, validate = CheckpointCoordinator.attempt_started, CheckpointCoordinator.validate

    def not_aborting(self: CheckpointCoordinator, event: AttemptEnded) -> Sequence[CoordinatorEffect]:
        self._plan = None
        self._is_scheduling = False
        effects: list[CoordinatorEffect] = []
        self._refuse_all(SUSPENDED, effects)
        for pending in self.pending.values():
            if not pending.finalizing:
                reached()
                pending.missing[NO_TASK] = None
        return effects

    def beside_them(self: CheckpointCoordinator, event: AttemptStarted) -> Sequence[CoordinatorEffect]:
        left = {key: each for key, each in self.pending.items() if NO_TASK in each.missing}
        self.pending = {key: each for key, each in self.pending.items() if key not in left}
        try:
            return attempt_started(self, event)
        finally:
            self.pending = {**left, **self.pending}

    def of_this_attempt(self: CheckpointCoordinator) -> None:
        all_pending = self.pending
        self.pending = {key: each for key, each in all_pending.items() if NO_TASK not in each.missing}
        try:
            validate(self)
        finally:
            self.pending = all_pending

    with (
        replaced(CheckpointCoordinator, "attempt_ended", not_aborting),
        replaced(CheckpointCoordinator, "attempt_started", beside_them),
        replaced(CheckpointCoordinator, "validate", of_this_attempt),
    ):
        yield


@mutant(
    id="stop-without-drain-ends-the-input",
    origin="FLINK-21132",
    breaks="exactly_once",
    summary="behind the savepoint of a stop the operators are called as at the end of their input",
    families=("closing_sums",),
)
def stop_without_drain_ends_the_input(reached: Reached) -> Iterator[None]:
    """What they flush then is in no savepoint, and the job that goes on flushes it again."""
    finish = Task.finish

    def ending_the_input(self: Task) -> Sequence[TaskEffect]:
        if self.state is STOPPED:
            for position, operator in enumerate(self._chain, start=1):
                # One that waits for requests would have to wait for them here.
                if operator.may_hold_input:
                    continue
                last = operator.process_watermark(MAX_WATERMARK) if operator.passes_watermarks else []
                if last or type(operator).finish is not Operator.finish:
                    reached()
                self._emit([*last, *operator.finish()], position)
        return finish(self)

    with replaced(Task, "finish", ending_the_input):
        yield


@mutant(
    id="records-that-arrive-during-a-snapshot-are-stored-first",
    origin="FLINK-17564",
    breaks="exactly_once",
    summary="records that arrive after the snapshot are stored ahead of those that had waited in the queue",
)
def records_that_arrive_during_a_snapshot_are_stored_first(reached: Reached) -> Iterator[None]:
    """Two threads add the buffers of a channel, in any order."""
    start_checkpoint = UnalignedTask.start_checkpoint

    class OfTwoThreads(InFlightRecorder):
        __slots__ = ("queued",)

        def __init__(self, checkpoint_id: int, inputs: tuple[ChannelId, ...]) -> None:
            super().__init__(checkpoint_id, inputs)
            self.queued: dict[ChannelId, int] = {}
            """How many buffers each channel held when the snapshot was taken."""

        def records(self) -> dict[ChannelId, list[Buffer]]:
            for channel, queued in self.queued.items():
                buffers = self._records.get(channel, [])
                if 0 < queued < len(buffers):
                    reached()
                    buffers[:] = buffers[queued:] + buffers[:queued]
            self.queued.clear()
            return super().records()

    def counting(self: UnalignedTask, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        recorder = self._recorder_of(barrier.checkpoint_id)
        assert isinstance(recorder, OfTwoThreads)
        if self._handler.pending:
            for channel in self._handler.undelivered:
                queued = sum(type(element) is list for element in self.queues[channel])
                recorder.queued[self._inputs[channel]] = queued
        start_checkpoint(self, barrier, effects)

    with (
        replaced(unaligned_task, "InFlightRecorder", OfTwoThreads),
        replaced(UnalignedTask, "start_checkpoint", counting),
    ):
        yield


@mutant(
    id="barriers-overtake-on-broadcast-edges",
    origin="FLINK-22815",
    breaks="exactly_once",
    summary="barriers overtake broadcast records, which only the subtasks of before get back",
)
def barriers_overtake_on_broadcast_edges(reached: Reached) -> Iterator[None]:
    """After a rescale a subtask has broadcast state of one that had read less, and never gets the rest."""
    old_subtasks = SubtaskMapper.old_subtasks
    own_only = SubtaskMapper.ARBITRARY

    def discarding_extra_state(
        self: SubtaskMapper,
        subtask: int,
        old_parallelism: int,
        new_parallelism: int,
        max_parallelism: int = MAX_PARALLELISM_LIMIT,
    ) -> range:
        if self is not own_only:
            return old_subtasks(self, subtask, old_parallelism, new_parallelism, max_parallelism)
        reached()
        return range(subtask, min(subtask + 1, old_parallelism))

    mappers = {**MAPPERS, PartitionerKind.BROADCAST: own_only}
    overtaken = OVERTAKEN_KINDS | {PartitionerKind.BROADCAST}
    with (
        replaced(in_flight_redistribution, "MAPPERS", mappers),
        replaced(in_flight_redistribution, "OVERTAKEN_KINDS", overtaken),
        replaced(channel_names, "OVERTAKEN_KINDS", overtaken),
        replaced(SubtaskMapper, "old_subtasks", discarding_extra_state),
    ):
        yield


@mutant(
    id="files-are-restored-with-the-key-groups-of-others",
    origin="FLINK-21650",
    breaks="exactly_once",
    summary="a subtask that needs some key groups of a file takes over all of them",
)
def files_are_restored_with_the_key_groups_of_others(reached: Reached) -> Iterator[None]:
    """Neither the redistribution nor the backend leaves the key groups of other subtasks out."""
    deal_keyed = redistribution.deal_keyed
    restore = HashMapStateBackend.restore

    def whole_files(operator: OperatorMetadata, parallelism: int, max_parallelism: int) -> list[Any]:
        of_file: dict[str, tuple[int, int]] = {}
        for subtask, state in enumerate(operator.subtasks):
            if state.handle is not None:
                of_file[state.handle.path] = key_group_range(
                    operator.max_parallelism, operator.parallelism, subtask
                )
        dealt = []
        for shares in deal_keyed(operator, parallelism, max_parallelism):
            for handle, needed in shares:
                if needed != of_file[handle.path]:
                    reached()
            dealt.append(tuple([(handle, of_file[handle.path]) for handle, _ in shares]))
        return dealt

    def all_of_them(
        self: HashMapStateBackend,
        encoded: Mapping[str, EncodedTable],
        native: Sequence[NativePart] = (),
        *,
        allow_pickle: bool = False,
    ) -> None:
        restore(self, {}, native, allow_pickle=allow_pickle)
        for name, table in encoded.items():
            found = self._restored.get(name)
            self._restored[name] = table if found is None else table.joined(name, found)

    with (
        replaced(redistribution, "deal_keyed", whole_files),
        replaced(HashMapStateBackend, "restore", all_of_them),
    ):
        yield


@contextmanager
def _after_a_restore(change: Callable[[SourceOperator, OperatorContext], None]) -> Iterator[None]:
    """Change which splits a restored source has, when it has opened those of the checkpoint."""
    open_splits = SourceOperator.open

    def changed(self: SourceOperator, context: OperatorContext) -> None:
        open_splits(self, context)
        if context.operator is None or context.has_finished:
            return
        change(self, context)
        self._unfinished = self._count_unfinished()

    with replaced(SourceOperator, "open", changed):
        yield


@mutant(
    id="restored-splits-are-assigned-again",
    origin="beam#34890",
    breaks="exactly_once",
    summary="a restore assigns all splits as at a fresh start, beside those of the checkpoint",
)
def restored_splits_are_assigned_again(reached: Reached) -> Iterator[None]:
    """So a restored split has two readers, one of which begins anew."""

    def assigning_anew(source: SourceOperator, context: OperatorContext) -> None:
        for split in source._own_splits(context):
            reached()
            reader = source.source.open_split(split, None)
            reader.when_available(context.wake_up)
            source._readers.append((split, reader))

    with _after_a_restore(assigning_anew):
        yield


@mutant(
    id="splits-that-are-not-listed-lose-their-position",
    origin="FLINK-6006",
    breaks="exactly_once",
    summary="a restore drops the splits of the checkpoint that the source does not list at the moment",
)
def splits_that_are_not_listed_lose_their_position(reached: Reached) -> Iterator[None]:
    """A listing may be incomplete, as while a broker is away."""

    def filtered(source: SourceOperator, context: OperatorContext) -> None:
        listed = frozenset(source.source.splits_for(context.parallelism))
        kept = []
        for split, reader in source._readers:
            if split in listed:
                kept.append((split, reader))
            else:
                reached()
                reader.close()
        source._readers = kept

    with _after_a_restore(filtered):
        yield
