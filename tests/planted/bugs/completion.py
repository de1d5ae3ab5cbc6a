"""Mutants of the checkpoint coordinator: completion, notifications, and deletion of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    AttemptEnded,
    CoordinatorEffect,
    DiscardCheckpoint,
    DiscardHandle,
    MetadataFailed,
    MetadataStored,
    StoreMetadata,
)
from onceproof.engine.checkpoint.failure_counter import FAILOVER
from onceproof.engine.checkpoint.metadata import SubtaskState
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointComplete,
    Send,
    TaskId,
)
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="old-attempt-acknowledges",
    breaks="fencing",
    summary="an acknowledgement that a dead attempt sent counts for the checkpoint of the same id",
)
def old_attempt_acknowledges(reached: Reached) -> Iterator[None]:
    """A new process reuses the ids of uncompleted checkpoints, and old messages are still on the network."""

    def of_any_attempt(
        self: CheckpointCoordinator,
        message: AcknowledgeCheckpoint | DeclineCheckpoint,
        pending: PendingCheckpoint,
    ) -> bool:
        if message.attempt != pending.attempt:
            reached()
        return True

    with replaced(CheckpointCoordinator, "_is_of_attempt", of_any_attempt):
        yield


@mutant(
    id="notified-before-metadata",
    breaks="consistent_cut",
    summary="tasks are notified of a checkpoint after all acknowledgements, before its metadata is durable",
)
def notified_before_metadata(reached: Reached) -> Iterator[None]:
    """Sinks commit transactions of a checkpoint whose metadata write may still fail."""
    acknowledged = CheckpointCoordinator.acknowledge

    def hasty(self: CheckpointCoordinator, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        effects = list(acknowledged(self, message))
        plan = self._plan
        if plan is not None and any(isinstance(effect, StoreMetadata) for effect in effects):
            reached()
            effects += [
                Send(NotifyCheckpointComplete(plan.attempt, task, message.checkpoint_id))
                for task in plan.upstreams
                if task not in self._finished
            ]
        return effects

    with replaced(CheckpointCoordinator, "acknowledge", hasty):
        yield


@mutant(
    id="metadata-before-all-acknowledged",
    breaks="exactly_once",
    summary="the metadata is written when one acknowledgement is still missing",
)
def metadata_before_all_acknowledged(reached: Reached) -> Iterator[None]:
    """The task that has not acknowledged is recorded as finished."""
    acknowledged, subtask_state = CheckpointCoordinator.acknowledge, PendingCheckpoint.subtask_state

    def nearly(self: PendingCheckpoint) -> bool:
        return len(self.missing) <= 1

    def state(self: PendingCheckpoint, task: TaskId) -> SubtaskState:
        if task in self.missing:
            reached()
            return SubtaskState(None, True)
        return subtask_state(self, task)

    def once(self: CheckpointCoordinator, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        pending = self.pending.get(message.checkpoint_id)
        if pending is not None and pending.finalizing:
            return ()
        return acknowledged(self, message)

    with (
        replaced(PendingCheckpoint, "is_fully_acknowledged", property(nearly)),
        replaced(PendingCheckpoint, "subtask_state", state),
        replaced(CheckpointCoordinator, "acknowledge", once),
    ):
        yield


@mutant(
    id="duplicate-acknowledgement-discards",
    breaks="liveness",
    summary="a repeated acknowledgement is taken for a late one, and the file it names is deleted",
)
def duplicate_acknowledgement_discards(reached: Reached) -> Iterator[None]:
    """The completed checkpoint lists the file, and cannot be restored without it."""
    acknowledged = CheckpointCoordinator.acknowledge
    discard_unless_used = CheckpointCoordinator.discard_unless_used

    def discarding(
        self: CheckpointCoordinator, message: AcknowledgeCheckpoint
    ) -> Sequence[CoordinatorEffect]:
        pending = self.pending.get(message.checkpoint_id)
        if (
            pending is not None
            and message.attempt == pending.attempt
            and message.task not in pending.missing
            and message.handle is not None
        ):
            reached()
            return (DiscardHandle(message.handle),)
        return acknowledged(self, message)

    def always(self: CheckpointCoordinator, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        effects = discard_unless_used(self, message)
        if effects or message.handle is None:
            return effects
        reached()
        return (DiscardHandle(message.handle),)

    with (
        replaced(CheckpointCoordinator, "acknowledge", discarding),
        replaced(CheckpointCoordinator, "discard_unless_used", always),
    ):
        yield


@mutant(
    id="subsumed-before-stored",
    breaks="exactly_once",
    summary="the checkpoints that a new one replaces are deleted before its metadata is durable",
)
def subsumed_before_stored(reached: Reached) -> Iterator[None]:
    """A crash between the two leaves nothing to restore from."""
    acknowledged = CheckpointCoordinator.acknowledge

    def eager(self: CheckpointCoordinator, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        effects = acknowledged(self, message)
        if not any(isinstance(effect, StoreMetadata) for effect in effects):
            return effects
        keep = self._settings.num_retained - 1
        retained = self.store.retained
        replaced_ones = retained[: max(0, len(retained) - keep)]
        for _ in replaced_ones:
            reached()
        return (*[DiscardCheckpoint(each.checkpoint_id) for each in replaced_ones], *effects)

    with replaced(CheckpointCoordinator, "acknowledge", eager):
        yield


@mutant(
    id="failover-ignores-metadata-in-flight",
    breaks="consistent_cut",
    summary="a failure aborts the checkpoint whose metadata is being written, and the restore does not wait",
)
def failover_ignores_metadata_in_flight(reached: Reached) -> Iterator[None]:
    """The write still succeeds: a later process finds a checkpoint that this process ignored."""
    attempt_ended = CheckpointCoordinator.attempt_ended
    stored, failed = CheckpointCoordinator.metadata_stored, CheckpointCoordinator.metadata_failed

    def abort_all(self: CheckpointCoordinator, event: AttemptEnded) -> Sequence[CoordinatorEffect]:
        effects = list(attempt_ended(self, event))
        for pending in list(self.pending.values()):
            reached()
            self.abort(pending, FAILOVER, effects)
        return effects

    def stored_if_known(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        return stored(self, event) if event.checkpoint_id in self.pending else ()

    def failed_if_known(self: CheckpointCoordinator, event: MetadataFailed) -> Sequence[CoordinatorEffect]:
        return failed(self, event) if event.checkpoint_id in self.pending else ()

    with (
        replaced(CheckpointCoordinator, "attempt_ended", abort_all),
        replaced(CheckpointCoordinator, "metadata_stored", stored_if_known),
        replaced(CheckpointCoordinator, "metadata_failed", failed_if_known),
    ):
        yield


@mutant(
    id="FLINK-5063",
    breaks="no_leaks",
    summary="the file of an acknowledgement that comes too late is left behind",
)
def late_acknowledgement_leaves_its_file(reached: Reached) -> Iterator[None]:
    """The checkpoint was aborted and its files were deleted before this upload ended."""
    discard_unless_used = CheckpointCoordinator.discard_unless_used

    def keeping(self: CheckpointCoordinator, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        if discard_unless_used(self, message):
            reached()
        return ()

    with replaced(CheckpointCoordinator, "discard_unless_used", keeping):
        yield


@mutant(
    id="subsumed-checkpoints-stay",
    breaks="no_leaks",
    summary="checkpoints that a new one replaces are forgotten, but not deleted",
)
def subsumed_checkpoints_stay(reached: Reached) -> Iterator[None]:
    """The disk fills up, and a later process restores old checkpoints as retained ones."""
    stored = CheckpointCoordinator.metadata_stored

    def hoarding(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        before = {each.checkpoint_id for each in self.store.retained}
        effects = stored(self, event)
        subsumed = before - {each.checkpoint_id for each in self.store.retained}
        if subsumed:
            reached()
        return [
            effect
            for effect in effects
            if not (isinstance(effect, DiscardCheckpoint) and effect.checkpoint_id in subsumed)
        ]

    with replaced(CheckpointCoordinator, "metadata_stored", hoarding):
        yield
