"""Sinks that make output visible exactly once, by two-phase commit (Flink: TwoPhaseCommitSinkFunction).

The rules this module lives by:

- Rows go into the open transaction. Snapshot n pre-commits it (after that, no row can be lost or added),
  lists it in the checkpoint, and begins the next one. When checkpoint n is complete, every listed transaction
  up to n is committed, oldest first. A failed commit does not stop the others; the first error is raised at
  the end.
- An aborted checkpoint changes nothing: its transaction commits with the next completed checkpoint.
- A restore commits every transaction that the checkpoint lists as pre-committed, again if need be (so
  ``commit`` must be idempotent), and aborts the one listed as open. Then ``abort_unknown`` may abort
  transactions that were begun after the checkpoint, which no checkpoint lists.
- **Ownership of unlisted transactions.** A transaction's name carries (owner, subtask, epoch, attempt). The
  owner is this sink of this job (`engine/owner_ids.py`): a target may hold transactions of others, and the
  sink aborts none of them. The epoch is the id of the checkpoint whose snapshot began the transaction: the
  restored one, or 0 at a fresh start. Every transaction that the restored checkpoint lists as pre-committed
  was begun before its snapshot and has a lower epoch. So exactly the sink's transactions of other attempts
  with an epoch of at least the restored id are unlisted. The new subtask ``s modulo parallelism`` aborts
  those of the old subtask s, so that each is aborted by one.
- A transaction that a checkpoint lists may be that of another job, from whose savepoint this one goes on. A
  sink commits it, and does not abort it, because that job may still write into it.
- **If the driver commits** (on Spark), a task begins a transaction, pre-commits it in its only snapshot, and
  begins no other. The driver commits what completed checkpoints list. Then it may abort all other
  transactions, because no later restore needs them.
- A transaction is plain data with which another process can commit or abort it, never a live connection. It
  may change until it is pre-committed (a list may), not afterwards.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

from onceproof.engine.errors import TransientError
from onceproof.engine.functions import (
    CommittingFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    SinkFunction,
)
from onceproof.engine.messages import is_of_later_process
from onceproof.engine.protocol_points import ABORTED, COMMITTED, COMMITTING, PRE_COMMITTED
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.state.operator import OperatorListState
    from onceproof.engine.types import TypeInformation

STATE_NAME = "state"
"""The name of the list state, as in Flink."""
_STATE = ListStateDescriptor(STATE_NAME, Types.DYNAMIC())

_logger = logging.getLogger(__name__)


class CommitFailed(TransientError, RuntimeError):
    """A commit after a completed checkpoint failed. The job restarts, and the restore commits again."""


class Recovery(NamedTuple):
    """The subtask that aborts unlisted transactions, and the checkpoint that it restored (ours)."""

    subtask: int
    parallelism: int
    attempt: str
    restored_checkpoint_id: int | None
    owner: str

    def may_abort(self, subtask: int, epoch: int, attempt: str, owner: str) -> bool:
        """Return whether this subtask may abort the transaction with this name.

        Never that of a later process: then this one has lost the job and does not know yet.

        Args:
            subtask: the subtask in the transaction's name.
            epoch: the epoch in the transaction's name.
            attempt: the attempt in the transaction's name.
            owner: the owner in the transaction's name.
        """
        return (
            owner == self.owner
            and epoch >= (self.restored_checkpoint_id or 0)
            and attempt != self.attempt
            and not is_of_later_process(attempt, self.attempt)
            and subtask % self.parallelism == self.subtask
        )


class PendingTransaction(Struct, frozen=True):
    """A transaction, its start in milliseconds, and the checkpoint that pre-committed it (0: it is open)."""

    transaction: Any
    start_ms: int
    checkpoint_id: int


PARTS = len(PendingTransaction.__struct_fields__)

Listed: TypeAlias = tuple[PendingTransaction | None, Sequence[PendingTransaction], Any]
"""The open transaction, the pending ones and the user context in a checkpoint."""


class TwoPhaseCommitSinkFunction(SinkFunction, CommittingFunction):
    """Base of two-phase commit sinks (Flink: TwoPhaseCommitSinkFunction).

    Implement begin_transaction, invoke_transaction, pre_commit, commit and abort. The name of a new
    transaction must carry ``self.owner``, ``self.subtask``, ``self.epoch`` and ``self.attempt``.

    Args:
        transaction_type: the type of transactions that are not plain data.
        clock: returns milliseconds since the epoch; None: the task's processing time.
    """

    subtask: int
    epoch: int
    attempt: str
    owner: str

    def __init__(
        self,
        transaction_type: TypeInformation | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._transaction_type = transaction_type
        self._clock = clock
        self._open: PendingTransaction | None = None
        self._pending: dict[int, PendingTransaction] = {}
        self._user_context: Any = None
        self._finished = False
        self._ends_with_snapshot = False
        self._timeout_ms = (1 << 63) - 1
        self._ignores_failures_after_timeout = False
        self._warning_ratio = -1.0

    # ---- implemented by a sink

    @abstractmethod
    def begin_transaction(self) -> Any:
        """Begin a transaction, and return it; its name must carry owner, subtask, epoch and attempt."""

    @abstractmethod
    def invoke_transaction(self, transaction: Any, value: Any, context: Any) -> None:
        """Write a value into the transaction."""

    def invoke_transaction_batch(self, transaction: Any, values: list[Any]) -> bool:
        """Write several values into the transaction.

        Returns:
            False if the sink wrote none of them and wants them one by one through invoke_transaction.
        """
        return False

    @abstractmethod
    def pre_commit(self, transaction: Any) -> None:
        """Make all written values durable: from now on, ``commit`` must be possible after any crash."""

    @abstractmethod
    def commit(self, transaction: Any) -> None:
        """Make the transaction visible atomically. It is called again after a crash: be idempotent."""

    @abstractmethod
    def abort(self, transaction: Any) -> None:
        """Undo the transaction. It is called again after a crash: be idempotent."""

    def recover_and_commit(self, transaction: Any) -> None:
        """Commit a restored transaction; by default calls ``commit``."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: Any) -> None:
        """Abort a restored transaction; by default calls ``abort``.

        It was open when the checkpoint was taken. If its owner is not ``self.owner``, another job may still
        write into it: a sink whose target several jobs share leaves it alone.
        """
        self.abort(transaction)

    def note_committed(self, transaction: Any) -> None:
        """Take note of a restored transaction that the driver has committed."""

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort the transactions that the external system lists and ``recovery.may_abort`` allows."""

    def begins_afresh(self) -> None:
        """Called where the job restores nothing, before its first transaction; raise to refuse that."""

    def all_committed(self) -> None:
        """Called when the input has ended and this subtask has committed all it has written."""

    def finish_processing(self, transaction: Any) -> None:
        """Flush buffered values at the end of the input. No transaction begins after this one."""

    def initialize_user_context(self) -> Any:
        """Return plain data to be stored in every checkpoint, or None."""
        return None

    def finish_recovering_context(self, handled_transactions: Sequence[Any]) -> None:
        """React to a restored user context.

        Args:
            handled_transactions: the restored transactions, which are committed or aborted by now.
        """

    # ---- settings

    def set_transaction_timeout(self, transaction_timeout_ms: int) -> Self:
        """Set after how many milliseconds the external system drops an open transaction.

        Raises:
            ValueError: the timeout is negative.
        """
        if transaction_timeout_ms < 0:
            raise ValueError(f"transaction timeout {transaction_timeout_ms} ms must not be negative")
        self._timeout_ms = transaction_timeout_ms
        return self

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """Let a restore log a failed commit after the timeout instead of failing. That loses data."""
        self._ignores_failures_after_timeout = True
        return self

    def enable_transaction_timeout_warnings(self, warning_ratio: float) -> Self:
        """Log a warning when a transaction commits after more than this part of the timeout.

        Args:
            warning_ratio: from 0 to 1.

        Raises:
            ValueError: the ratio is not from 0 to 1.
        """
        if not 0 <= warning_ratio <= 1:
            raise ValueError(f"warning ratio {warning_ratio} must be from 0 to 1")
        self._warning_ratio = warning_ratio
        return self

    # ---- called by a sink

    def current_transaction(self) -> Any | None:
        """Return the open transaction, or None."""
        return None if self._open is None else self._open.transaction

    def pending_transactions(self) -> list[Any]:
        """Return the pre-committed transactions that wait for their checkpoint, oldest first."""
        return [pending.transaction for pending in self._pending.values()]

    def transaction_counts(self) -> tuple[int, int]:
        """Return how many transactions are open, and how many wait for their checkpoint."""
        return 0 if self._open is None else 1, len(self._pending)

    def get_user_context(self) -> Any:
        """Return the user context, or None."""
        return self._user_context

    # ---- called by the engine

    def invoke(self, value: Any, context: Any) -> None:
        current = self._open
        assert current is not None, "a value after the end of the input"
        self.invoke_transaction(current.transaction, value, context)

    def invoke_batch(self, values: list[Any]) -> bool:
        """Write into the open transaction, if the sink takes many values at once."""
        current = self._open
        assert current is not None, "a value after the end of the input"
        return self.invoke_transaction_batch(current.transaction, values)

    def finish(self) -> None:
        """No transaction is begun any more."""
        self._finished = True
        if self._open is not None:
            self.finish_processing(self._open.transaction)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Pre-commit, begin the next, list both."""
        checkpoint_id = context.get_checkpoint_id()
        current = self._open
        if current is not None:
            self.pre_commit(current.transaction)
            self.get_runtime_context().probe(PRE_COMMITTED, checkpoint_id)
            self._pending[checkpoint_id] = PendingTransaction(
                current.transaction, current.start_ms, checkpoint_id
            )
            self._open = None
        if not self._finished and not self._ends_with_snapshot:
            self._begin(checkpoint_id)
        self._state.update([self._stored()])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit every pending transaction up to this checkpoint.

        Raises:
            CommitFailed: the first failed commit, after all were tried.
        """
        first_error: CommitFailed | None = None
        probe = self.get_runtime_context().probe
        due = [pending for pending in self._pending.values() if pending.checkpoint_id <= checkpoint_id]
        for pending in due:
            probe(COMMITTING, checkpoint_id)
            self._warn_near_timeout(pending)
            try:
                self.commit(pending.transaction)
            except Exception as error:
                if first_error is None:
                    first_error = CommitFailed(
                        f"commit of transaction {pending.transaction!r}, pre-committed for checkpoint"
                        f" {pending.checkpoint_id}, failed: {error}"
                    )
                    first_error.__cause__ = error
                del self._pending[pending.checkpoint_id]
            else:
                del self._pending[pending.checkpoint_id]
                probe(COMMITTED, checkpoint_id)
        if first_error is not None:
            raise first_error
        if self._finished and self._open is None and not self._pending:
            self.all_committed()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Commit and abort what the checkpoint lists, abort unlisted transactions, and begin one."""
        restored_checkpoint_id = context.get_restored_checkpoint_id()
        self._ends_with_snapshot = context.is_settled()
        if restored_checkpoint_id is None:
            self.owner = self.get_runtime_context().get_owner_id()
            self.begins_afresh()
        if self._ends_with_snapshot:
            self._take_over(context, self._adopt_user_context)
        else:
            self._take_over(context, self._recover)
            self.abort_unknown(self._recovery(restored_checkpoint_id))
        self._begin(restored_checkpoint_id or 0)

    def settle(self, context: FunctionInitializationContext) -> None:
        """Commit and abort what the checkpoint lists, and begin no transaction."""
        self._take_over(context, self._recover)

    def abort_unlisted(self) -> None:
        """Abort without regard to epochs: everything that a checkpoint lists is committed."""
        self.abort_unknown(self._recovery(None))

    def close(self) -> None:
        """Abort the open transaction; pre-committed ones belong to their checkpoints."""
        current = self._open
        if current is not None:
            self._open = None
            self.abort(current.transaction)
            self.get_runtime_context().probe(ABORTED, self.epoch)

    # ---- internal

    def _take_over(self, context: FunctionInitializationContext, take: Callable[[Listed, int], bool]) -> None:
        """Call ``take`` with the list of each subtask of the restored job.

        ``take`` returns whether the list has a user context; if none has, a new one is made.
        """
        runtime_context = self.get_runtime_context()
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.attempt = runtime_context.get_attempt_id()
        self.owner = runtime_context.get_owner_id()
        restored_checkpoint_id = context.get_restored_checkpoint_id()
        self._state: OperatorListState = context.get_operator_state_store().get_list_state(_STATE)
        has_user_context = False
        if restored_checkpoint_id is not None:
            for stored in self._state.get():
                has_user_context |= take(_listed(stored), restored_checkpoint_id)
        if not has_user_context:
            self._user_context = self.initialize_user_context()
        self._pending.clear()

    def _recovery(self, restored_checkpoint_id: int | None) -> Recovery:
        runtime_context = self.get_runtime_context()
        return Recovery(
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_attempt_id(),
            restored_checkpoint_id,
            runtime_context.get_owner_id(),
        )

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._open = PendingTransaction(self.begin_transaction(), self._now_ms(), 0)

    def _now_ms(self) -> int:
        return (
            self.get_runtime_context().get_current_processing_time() if self._clock is None else self._clock()
        )

    def _stored(self) -> list[Any]:
        """Return the list for a checkpoint: the user context, the open transaction, the pending ones.

        It is flat to be small, because every subtask writes one in every checkpoint. ``_listed`` reads it.
        """
        encode = None if self._transaction_type is None else self._transaction_type.encode
        stored: list[Any] = [self._user_context]
        for holder in self._pending.values() if self._open is None else (self._open, *self._pending.values()):
            stored += astuple(holder)
            if encode is not None:
                stored[-PARTS] = encode(holder.transaction)
        return stored

    def _recover(self, listed: Listed, restored_checkpoint_id: int) -> bool:
        """Commit and abort what one subtask of the restored job listed; return whether it had a context."""
        current, pending, user_context = listed
        decode = None if self._transaction_type is None else self._transaction_type.decode
        probe = self.get_runtime_context().probe
        handled = []
        for holder in pending:
            transaction = holder.transaction if decode is None else decode(holder.transaction)
            probe(COMMITTING, restored_checkpoint_id)
            if self._recover_and_commit(
                PendingTransaction(transaction, holder.start_ms, holder.checkpoint_id)
            ):
                probe(COMMITTED, restored_checkpoint_id)
            handled.append(transaction)
        if current is not None:
            transaction = current.transaction if decode is None else decode(current.transaction)
            self.recover_and_abort(transaction)
            probe(ABORTED, restored_checkpoint_id)
            handled.append(transaction)
        if user_context is None:
            return False
        self._user_context = user_context
        self.finish_recovering_context(handled)
        return True

    def _adopt_user_context(self, listed: Listed, restored_checkpoint_id: int) -> bool:
        """Restore the user context only: the driver has committed the transactions."""
        decode = None if self._transaction_type is None else self._transaction_type.decode
        for holder in listed[1]:
            self.note_committed(holder.transaction if decode is None else decode(holder.transaction))
        if listed[2] is None:
            return False
        self._user_context = listed[2]
        return True

    def _recover_and_commit(self, pending: PendingTransaction) -> bool:
        self._warn_near_timeout(pending)
        try:
            self.recover_and_commit(pending.transaction)
        except Exception as error:
            age_ms = self._now_ms() - pending.start_ms
            if not self._ignores_failures_after_timeout or age_ms <= self._timeout_ms:
                raise
            _logger.error(
                "transaction %r is %d ms old, beyond its timeout of %d ms, and cannot be committed (%s):"
                " its data may be lost; it is dropped, as ignore_failures_after_transaction_timeout says",
                pending.transaction,
                age_ms,
                self._timeout_ms,
                error,
            )
            return False
        return True

    def _warn_near_timeout(self, pending: PendingTransaction) -> None:
        if self._warning_ratio < 0:
            return
        age_ms = self._now_ms() - pending.start_ms
        if age_ms > self._timeout_ms * self._warning_ratio:
            _logger.warning(
                "transaction %r has been open for %d ms of its timeout of %d ms: take checkpoints more often",
                pending.transaction,
                age_ms,
                self._timeout_ms,
            )


def _listed(stored: Sequence[Any]) -> Listed:
    """Read one element of the list state, as ``_stored`` wrote it."""
    holders = [PendingTransaction(*stored[place : place + PARTS]) for place in range(1, len(stored), PARTS)]
    if holders and holders[0].checkpoint_id == 0:
        return holders[0], holders[1:], stored[0]
    return None, holders, stored[0]
