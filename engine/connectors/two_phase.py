"""Sinks that make output visible exactly once, by two-phase commit (Flink: TwoPhaseCommitSinkFunction).

The rules this module lives by:

- Rows go into the open transaction. At snapshot n it is pre-committed (after that nothing can be lost or
  added), listed in the checkpoint, and the next one is begun. When checkpoint n is complete, every listed
  transaction up to n is committed, oldest first; one that fails does not stop the others, the first error
  is raised at the end.
- An aborted checkpoint changes nothing: its transaction commits with the next checkpoint that completes.
- On restore every transaction that the checkpoint lists as pre-committed is committed, again if need be (so
  ``commit`` must be idempotent), and the one it lists as open is aborted. Then ``abort_unknown`` may sweep
  what was begun after the checkpoint and is therefore listed nowhere.
- **Who may sweep what.** A transaction's name carries (subtask, epoch, attempt); the epoch is the id of the
  checkpoint after whose snapshot it was begun: the restored one, or 0 at a fresh start. Whatever the restored
  checkpoint lists as pre-committed was begun before its snapshot and has a lower epoch. So exactly those with
  an epoch of at least the restored id, of another attempt, are nobody's. Those of an old subtask s fall to
  the new subtask s modulo the parallelism, so that each has one sweeper at any parallelism.
- **Where the driver commits** (on Spark), a task begins a transaction, pre-commits it with the one snapshot
  of its life, and begins no other; the driver settles what complete checkpoints list, and then may sweep all
  that is left, since no transaction but those listed will ever be needed.
- A transaction is plain data: enough for another process to commit or abort it, never a live connection. It
  may change until it is pre-committed (a list may), not afterwards.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

from onceproof.engine.functions import (
    CommittingFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    SinkFunction,
)
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


class CommitFailed(RuntimeError):
    """A commit after a completed checkpoint failed; the job restarts, and the restore commits again."""


class Recovery(NamedTuple):
    """Who sweeps, and from which checkpoint it was restored."""

    subtask: int
    parallelism: int
    attempt: str
    restored_checkpoint_id: int | None

    def may_abort(self, subtask: int, epoch: int, attempt: str) -> bool:
        """Whether the transaction of that name is nobody's, and ours to sweep."""
        return (
            epoch >= (self.restored_checkpoint_id or 0)
            and attempt != self.attempt
            and subtask % self.parallelism == self.subtask
        )


class PendingTransaction(Struct, frozen=True):
    """A transaction, when it was begun, and the checkpoint that pre-committed it (0 while it is open)."""

    transaction: Any
    start_ms: int
    checkpoint_id: int


PARTS = len(PendingTransaction.__struct_fields__)

Listed: TypeAlias = tuple[PendingTransaction | None, Sequence[PendingTransaction], Any]
"""The open transaction, the pending ones, and the user context, as a checkpoint lists them."""


class TwoPhaseCommitSinkFunction(SinkFunction, CommittingFunction):
    """Implement begin_transaction, invoke_transaction, pre_commit, commit and abort.

    ``self.subtask``, ``self.epoch`` and ``self.attempt`` are what the name of a new transaction must carry.
    ``transaction_type`` stores transactions that are not plain data.
    """

    subtask: int
    epoch: int
    attempt: str

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

    # ---- what a sink implements

    @abstractmethod
    def begin_transaction(self) -> Any:
        """A new transaction, under a name that carries subtask, epoch and attempt."""

    @abstractmethod
    def invoke_transaction(self, transaction: Any, value: Any, context: Any) -> None:
        """Write a value within the transaction."""

    def invoke_transaction_batch(self, transaction: Any, values: list[Any]) -> bool:
        """Write many values within the transaction; False, before writing any, to get them one by one."""
        return False

    @abstractmethod
    def pre_commit(self, transaction: Any) -> None:
        """Make all that was written durable; from then on ``commit`` must be possible after any crash."""

    @abstractmethod
    def commit(self, transaction: Any) -> None:
        """Make it visible, all at once. Called again after crashes: then it must find that it is done."""

    @abstractmethod
    def abort(self, transaction: Any) -> None:
        """Undo it. Called again after crashes: what is gone is done."""

    def recover_and_commit(self, transaction: Any) -> None:
        """As ``commit``, in a new attempt."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: Any) -> None:
        """As ``abort``, in a new attempt."""
        self.abort(transaction)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort the transactions that the outside world lists and ``recovery.may_abort`` allows."""

    def finish_processing(self, transaction: Any) -> None:
        """The input has ended: flush what waits for more input. No transaction is begun after this one."""

    def initialize_user_context(self) -> Any:
        """Plain data to be kept in every checkpoint, or None."""
        return None

    def finish_recovering_context(self, handled_transactions: Sequence[Any]) -> None:
        """A stored user context is in ``get_user_context()``; these transactions are dealt with."""

    # ---- settings

    def set_transaction_timeout(self, transaction_timeout_ms: int) -> Self:
        """After how long the outside world drops an open transaction, in milliseconds."""
        if transaction_timeout_ms < 0:
            raise ValueError(f"transaction timeout {transaction_timeout_ms} ms must not be negative")
        self._timeout_ms = transaction_timeout_ms
        return self

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """On restore, log instead of fail where a commit fails beyond the timeout. That loses data."""
        self._ignores_failures_after_timeout = True
        return self

    def enable_transaction_timeout_warnings(self, warning_ratio: float) -> Self:
        """Log a warning at a commit once so much of the timeout has passed, as a ratio from 0 to 1."""
        if not 0 <= warning_ratio <= 1:
            raise ValueError(f"warning ratio {warning_ratio} must be from 0 to 1")
        self._warning_ratio = warning_ratio
        return self

    # ---- what a sink may ask

    def current_transaction(self) -> Any | None:
        """The open transaction."""
        return None if self._open is None else self._open.transaction

    def pending_transactions(self) -> list[Any]:
        """Pre-committed transactions that wait for their checkpoint, oldest first."""
        return [pending.transaction for pending in self._pending.values()]

    def get_user_context(self) -> Any:
        """The user context, or None."""
        return self._user_context

    # ---- what the engine calls

    def invoke(self, value: Any, context: Any) -> None:
        """Write into the open transaction."""
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
        """Commit every pending transaction up to that checkpoint."""
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

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Settle what the checkpoint lists, sweep what it does not, begin."""
        restored_checkpoint_id = context.get_restored_checkpoint_id()
        self._ends_with_snapshot = context.is_settled()
        if self._ends_with_snapshot:
            self._take_over(context, self._go_on)
        else:
            self._take_over(context, self._recover)
            self.abort_unknown(self._recovery(restored_checkpoint_id))
        self._begin(restored_checkpoint_id or 0)

    def settle(self, context: FunctionInitializationContext) -> None:
        """Settle what the checkpoint lists, and begin nothing."""
        self._take_over(context, self._recover)

    def abort_unlisted(self) -> None:
        """Sweep without regard to epochs: whatever any checkpoint lists is committed."""
        self.abort_unknown(self._recovery(None))

    def close(self) -> None:
        """Abort the open transaction; pre-committed ones belong to their checkpoints."""
        current = self._open
        if current is not None:
            self._open = None
            self.abort(current.transaction)
            self.get_runtime_context().probe(ABORTED, self.epoch)

    # ---- within

    def _take_over(self, context: FunctionInitializationContext, take: Callable[[Listed, int], bool]) -> None:
        """Hand what each subtask of the restored job had listed to ``take``; it tells of a user context."""
        runtime_context = self.get_runtime_context()
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.attempt = runtime_context.get_attempt_id()
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
        )

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._open = PendingTransaction(self.begin_transaction(), self._now_ms(), 0)

    def _now_ms(self) -> int:
        return (
            self.get_runtime_context().get_current_processing_time() if self._clock is None else self._clock()
        )

    def _stored(self) -> list[Any]:
        """What a checkpoint lists: the user context, then the open transaction and the pending ones.

        All in one flat list, since every subtask writes one in every checkpoint: the parts of a transaction
        follow one another. See ``_listed``.
        """
        encode = None if self._transaction_type is None else self._transaction_type.encode
        stored: list[Any] = [self._user_context]
        for holder in self._pending.values() if self._open is None else (self._open, *self._pending.values()):
            stored += astuple(holder)
            if encode is not None:
                stored[-PARTS] = encode(holder.transaction)
        return stored

    def _recover(self, listed: Listed, restored_checkpoint_id: int) -> bool:
        """Settle what one subtask of the restored job had listed; whether it had a user context."""
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

    def _go_on(self, listed: Listed, restored_checkpoint_id: int) -> bool:
        """Take over the user context alone: somebody else has settled the transactions."""
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
    """What ``_stored`` put into one element of the list state; the open one has no checkpoint id yet."""
    holders = [PendingTransaction(*stored[place : place + PARTS]) for place in range(1, len(stored), PARTS)]
    if holders and holders[0].checkpoint_id == 0:
        return holders[0], holders[1:], stored[0]
    return None, holders, stored[0]


def listed_transactions(stored: Sequence[Any]) -> list[Any]:
    """The pre-committed transactions in one element of the sink's list state, as stored."""
    return [pending.transaction for pending in _listed(stored)[1]]
