"""Mutants of two-phase commit: commits too early, twice or never, and wrong aborts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onceproof.engine.connectors.two_phase import (
    CommitFailed,
    PendingTransaction,
    Recovery,
    TwoPhaseCommitSinkFunction,
)
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.messages import NotifyCheckpointComplete
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import ALIVE, Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant
from onceproof.harness.systems.simulation.external_system import Transaction, TransactionalSystem


@mutant(
    id="commit-before-completion",
    breaks="consistent_cut",
    summary="a sink commits right after its pre-commit, without waiting for the checkpoint",
)
def commit_before_completion(reached: Reached) -> Iterator[None]:
    """If the checkpoint never completes, the rows become visible a second time."""
    snapshot_state = TwoPhaseCommitSinkFunction.snapshot_state

    def committing(self: TwoPhaseCommitSinkFunction, context: FunctionSnapshotContext) -> None:
        snapshot_state(self, context)
        for transaction in self.pending_transactions():
            reached()
            self.commit(transaction)

    with replaced(TwoPhaseCommitSinkFunction, "snapshot_state", committing):
        yield


@mutant(
    id="pre-commit-skipped",
    breaks="no_error",
    summary="a transaction is listed in the checkpoint without having been pre-committed",
)
def pre_commit_skipped(reached: Reached) -> Iterator[None]:
    """The external system does not guarantee that it survives a crash."""
    snapshot_state = TwoPhaseCommitSinkFunction.snapshot_state

    def skipping(self: TwoPhaseCommitSinkFunction, context: FunctionSnapshotContext) -> None:
        def skipped(transaction: Any) -> None:
            reached()

        self.pre_commit = skipped  # type: ignore[method-assign]
        try:
            snapshot_state(self, context)
        finally:
            del self.pre_commit

    with replaced(TwoPhaseCommitSinkFunction, "snapshot_state", skipping):
        yield


@mutant(
    id="pending-dropped-on-restore",
    breaks="exactly_once",
    summary="a restored sink does not commit the pre-committed transactions that the checkpoint lists",
)
def pending_dropped_on_restore(reached: Reached) -> Iterator[None]:
    """Their input is before the restored offsets and is not read again."""
    recover = TwoPhaseCommitSinkFunction._recover

    def forgetful(
        self: TwoPhaseCommitSinkFunction, stored: tuple[Any, ...], restored_checkpoint_id: int
    ) -> bool:
        current, pending, user_context = stored
        if pending:
            reached()
        return recover(self, (current, (), user_context), restored_checkpoint_id)

    with replaced(TwoPhaseCommitSinkFunction, "_recover", forgetful):
        yield


@mutant(
    id="second-commit-writes-again",
    breaks="exactly_once",
    summary="a sink that commits again after a restore writes the rows of a committed transaction again",
)
def second_commit_writes_again(reached: Reached) -> Iterator[None]:
    """The commit is not idempotent: the new attempt uses another transaction name."""
    recover_and_commit = TwoPhaseCommitSinkFunction.recover_and_commit

    def again(self: TwoPhaseCommitSinkFunction, transaction: Any) -> None:
        # Only the simulation's external system can say what the transaction holds.
        system: Any = getattr(self, "_system", None)
        if system is None or not system.is_committed(transaction):
            recover_and_commit(self, transaction)
            return
        reached()
        _write_again(self, system, transaction)

    with replaced(TwoPhaseCommitSinkFunction, "recover_and_commit", again):
        yield


def _write_again(sink: TwoPhaseCommitSinkFunction, system: Any, transaction: Any) -> None:
    """Commit the rows of a committed transaction under another name."""
    done = system.transactions[transaction]
    name = system.begin(done.subtask, done.epoch, f"{sink.attempt}-again", done.owner)
    for row in done.rows:
        system.write(name, row)
    system.prepare(name)
    system.commit(name)


@mutant(
    id="commit-is-repeated-where-it-was-not-seen",
    breaks="fencing",
    summary="a restored sink asks whether a transaction is committed, and relies on no commit coming later",
)
def commit_is_repeated_where_it_was_not_seen(reached: Reached) -> Iterator[None]:
    """The commit is not idempotent: one of the attempt before, which had no answer, writes the rows again."""
    recover_and_commit = TwoPhaseCommitSinkFunction.recover_and_commit
    commit_late = TransactionalSystem._commit_late

    def asking(self: TwoPhaseCommitSinkFunction, transaction: Any) -> None:
        # Only the simulation's external system can be asked, and it knows transactions by their names.
        system: Any = getattr(self, "_system", None)
        if system is None or not isinstance(transaction, str) or not system.is_committed(transaction):
            recover_and_commit(self, transaction)

    def writing_again(self: TransactionalSystem, transaction: Transaction) -> None:
        if self.is_committed(transaction.name):
            reached()
            self._show(transaction)
        else:
            commit_late(self, transaction)

    with (
        replaced(TwoPhaseCommitSinkFunction, "recover_and_commit", asking),
        replaced(TransactionalSystem, "_commit_late", writing_again),
    ):
        yield


@mutant(
    id="second-notification-commits-again",
    breaks="exactly_once",
    summary="a sink that is notified of a checkpoint a second time commits its transactions again",
)
def second_notification_commits_again(reached: Reached) -> Iterator[None]:
    """The task passes every notification on, and the sink's commit is not idempotent."""
    completed = Task.checkpoint_completed
    notify = TwoPhaseCommitSinkFunction.notify_checkpoint_complete

    def each_time(self: Task, message: NotifyCheckpointComplete) -> Sequence[TaskEffect]:
        is_ours = message.attempt == self.attempt and self.state in ALIVE
        if is_ours and message.checkpoint_id == self._last_notified:
            for operator in self.operators:
                operator.notify_checkpoint_complete(message.checkpoint_id)
        return completed(self, message)

    def committing(self: TwoPhaseCommitSinkFunction, checkpoint_id: int) -> None:
        # Only the simulation's external system can say what a transaction holds.
        system: Any = getattr(self, "_system", None)
        done: dict[int, list[Any]] = self.__dict__.setdefault("_done", {})
        for transaction in done.get(checkpoint_id, ()) if system is not None else ():
            reached()
            _write_again(self, system, transaction)
        due = [each.transaction for each in self._pending.values() if each.checkpoint_id <= checkpoint_id]
        notify(self, checkpoint_id)
        done.setdefault(checkpoint_id, []).extend(due)

    with (
        replaced(Task, "checkpoint_completed", each_time),
        replaced(TwoPhaseCommitSinkFunction, "notify_checkpoint_complete", committing),
    ):
        yield


@mutant(
    id="abort-notice-aborts-pending",
    breaks="exactly_once",
    summary="a sink aborts a pre-committed transaction when its checkpoint is aborted",
)
def abort_notice_aborts_pending(reached: Reached) -> Iterator[None]:
    """Its rows belong to the next completed checkpoint, and their input is not read again."""

    def aborting(self: TwoPhaseCommitSinkFunction, checkpoint_id: int) -> None:
        pending = self._pending.pop(checkpoint_id, None)
        if pending is not None:
            reached()
            self.abort(pending.transaction)

    with replaced(TwoPhaseCommitSinkFunction, "notify_checkpoint_aborted", aborting):
        yield


@mutant(
    id="only-the-newest-is-committed",
    breaks="exactly_once",
    summary="a sink commits the transaction of the notified checkpoint, and leaves the older ones",
)
def only_the_newest_is_committed(reached: Reached) -> Iterator[None]:
    """After a lost notification or an aborted checkpoint, the next one must commit its transactions too."""
    notified = TwoPhaseCommitSinkFunction.notify_checkpoint_complete

    def newest(self: TwoPhaseCommitSinkFunction, checkpoint_id: int) -> None:
        older = {place: each for place, each in self._pending.items() if place < checkpoint_id}
        for place in older:
            reached()
            del self._pending[place]
        notified(self, checkpoint_id)
        self._pending = {**older, **self._pending}

    with replaced(TwoPhaseCommitSinkFunction, "notify_checkpoint_complete", newest):
        yield


@mutant(
    id="commit-failure-is-ignored",
    breaks="exactly_once",
    summary="a sink treats a commit that returned an error as done",
)
def commit_failure_is_ignored(reached: Reached) -> Iterator[None]:
    """The transaction is removed from the pending ones, and no restart commits it again."""
    notified = TwoPhaseCommitSinkFunction.notify_checkpoint_complete

    def carefree(self: TwoPhaseCommitSinkFunction, checkpoint_id: int) -> None:
        try:
            notified(self, checkpoint_id)
        except CommitFailed:
            reached()

    with replaced(TwoPhaseCommitSinkFunction, "notify_checkpoint_complete", carefree):
        yield


@mutant(
    id="FLINK-7784",
    breaks="exactly_once",
    summary="a commit that fails while a sink is restored is logged and skipped",
    families=SMALL_JOBS,
)
def failed_commit_on_restore_is_dropped(reached: Reached) -> Iterator[None]:
    """The setting for transactions beyond their timeout is applied to all transactions."""
    recover_and_commit = TwoPhaseCommitSinkFunction._recover_and_commit

    def going_on(self: TwoPhaseCommitSinkFunction, pending: PendingTransaction) -> bool:
        try:
            return recover_and_commit(self, pending)
        except Exception:
            reached()
            return False

    with replaced(TwoPhaseCommitSinkFunction, "_recover_and_commit", going_on):
        yield


@mutant(
    id="FLINK-3651",
    breaks="exactly_once",
    summary="a restored sink, cleaning up, aborts transactions that another subtask's state lists",
)
def sweep_aborts_listed(reached: Reached) -> Iterator[None]:
    """The sweep starts one checkpoint too early; the owner may not have committed yet."""
    may_abort = Recovery.may_abort

    def too_much(self: Recovery, subtask: int, epoch: int, attempt: str, owner: str) -> bool:
        is_allowed = may_abort(self, subtask, epoch, attempt, owner)
        if not is_allowed and may_abort(self, subtask, epoch + 1, attempt, owner):
            reached()
            return True
        return is_allowed

    with replaced(Recovery, "may_abort", too_much):
        yield


@mutant(
    id="sweep-leaves-orphans",
    breaks="no_leaks",
    summary="a restored sink leaves open what a dead attempt began right after the restored checkpoint",
)
def sweep_leaves_orphans(reached: Reached) -> Iterator[None]:
    """It compares with > instead of >=: such a transaction has the epoch of that checkpoint."""
    may_abort = Recovery.may_abort

    def too_little(self: Recovery, subtask: int, epoch: int, attempt: str, owner: str) -> bool:
        if not may_abort(self, subtask, epoch, attempt, owner):
            return False
        if epoch > (self.restored_checkpoint_id or 0):
            return True
        reached()
        return False

    with replaced(Recovery, "may_abort", too_little):
        yield


@mutant(
    id="sweep-takes-all-for-its-own",
    breaks="no_leaks",
    summary="a sink, cleaning up, aborts transactions of other jobs whose names are like its own",
)
def sweep_takes_all_for_its_own(reached: Reached) -> Iterator[None]:
    """It recognises transactions by what names have in common, and not by their owner."""
    may_abort = Recovery.may_abort

    def any_owner(self: Recovery, subtask: int, epoch: int, attempt: str, owner: str) -> bool:
        if not may_abort(self, subtask, epoch, attempt, self.owner):
            return False
        if owner != self.owner:
            reached()
        return True

    with replaced(Recovery, "may_abort", any_owner):
        yield
