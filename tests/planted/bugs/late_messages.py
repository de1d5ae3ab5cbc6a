"""Mutants of messages about checkpoints that were given up, and of commits that fail as a job is restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import CoordinatorEffect
from onceproof.engine.connectors.two_phase import PendingTransaction, TwoPhaseCommitSinkFunction
from onceproof.engine.messages import DeclineCheckpoint, NotifyCheckpointAborted
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.unaligned_task import UnalignedTask
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="late-decline-fails-a-newer-checkpoint",
    breaks="liveness",
    summary="a task that declines an earlier checkpoint is heard as one that declines the newest",
)
def late_decline_fails_a_newer_checkpoint(reached: Reached) -> Iterator[None]:
    """The word comes twice, or behind the end of its checkpoint."""
    declined = CheckpointCoordinator.checkpoint_declined

    def by_the_newest(self: CheckpointCoordinator, message: DeclineCheckpoint) -> Sequence[CoordinatorEffect]:
        newest = max(self.pending, default=0)
        if message.checkpoint_id not in self.pending and message.checkpoint_id < newest:
            reached()
            message = replace(message, checkpoint_id=newest)
        return declined(self, message)

    with replaced(CheckpointCoordinator, "checkpoint_declined", by_the_newest):
        yield


@mutant(
    id="late-abort-notice-ends-the-recording",
    breaks="no_error",
    summary="an abort notice ends the recording of records in flight for a newer checkpoint as well",
)
def late_abort_notice_ends_the_recording(reached: Reached) -> Iterator[None]:
    """The newer checkpoint then waits for a part that never comes."""
    aborted = UnalignedTask.checkpoint_aborted

    def forgetting(self: UnalignedTask, message: NotifyCheckpointAborted) -> Sequence[TaskEffect]:
        recorder = self._recorder
        if recorder is not None and recorder.checkpoint_id > message.checkpoint_id:
            reached()
            self._recorder = self._held = None
        return aborted(self, message)

    with replaced(UnalignedTask, "checkpoint_aborted", forgetting):
        yield


@mutant(
    id="recovery-ignores-a-failed-commit",
    breaks="exactly_once",
    summary="a restored sink takes the error of a commit for the answer that there is nothing to commit",
)
def recovery_ignores_a_failed_commit(reached: Reached) -> Iterator[None]:
    """The transaction of a complete checkpoint stays prepared."""
    recover = TwoPhaseCommitSinkFunction._recover_and_commit

    def lenient(self: TwoPhaseCommitSinkFunction, pending: PendingTransaction) -> bool:
        try:
            return recover(self, pending)
        except Exception:
            reached()
            return False

    with replaced(TwoPhaseCommitSinkFunction, "_recover_and_commit", lenient):
        yield
