"""Write-ahead sinks keep output in checkpoints until it may be sent (Flink: GenericWriteAheadSink).

They serve targets without transactions. The rules this module lives by:

- The values between two snapshots are a batch, stored in the checkpoint. When checkpoint n is complete, every
  batch up to n is sent, oldest first, and the CheckpointCommitter records it.
- A batch that the target refuses is sent again after the next completed checkpoint; the batches behind it are
  sent all the same. If the target raises, they wait, so that the order is kept.
- A restored batch that the CheckpointCommitter has recorded is dropped; any other waits for the next
  completed checkpoint, or is sent at once where a job ends with the restored savepoint. After a rescaling,
  the batches of one subtask may be in several, and are sent in no order.
- A crash between sending and recording sends the batch twice. So the target must recognise it, or take batch
  and record atomically; otherwise this sink is at-least-once.
- Job, operator, checkpoint and subtask of its writer identify a batch for ever, because a checkpoint that did
  not complete has sent nothing; in a job without checkpoints each attempt has an id of its own
  (`operators/sink.py`). They are stored with it, so a job that goes on from another job's savepoint names the
  batches of that job as that job does. The operator's id is the one that no other job or checkpoint folder
  has (`engine/owner_ids.py`): a fresh run of the job counts its checkpoints from 1 again.
- After the end of the input no checkpoint follows the final one, and none follows the savepoint with which a
  job is stopped: a batch that cannot be sent then fails the job, and the restore takes another one. Flink
  would finish the job and lose the batch, or stop it before the batch is there.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from onceproof.engine.connectors.two_phase import CommitFailed
from onceproof.engine.functions import (
    CommittingFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    SinkFunction,
)
from onceproof.engine.protocol_points import COMMITTED, COMMITTING, PRE_COMMITTED
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.state.operator import OperatorListState
    from onceproof.engine.types import TypeInformation

STATE_NAME = "pending-checkpoints"
"""The name of the list state, as in Flink."""
_STATE = ListStateDescriptor(STATE_NAME, Types.DYNAMIC())

_logger = logging.getLogger(__name__)


class PendingBatch(Struct, frozen=True):
    """The values of one subtask between two snapshots; ``checkpoint_id`` is that of the later one."""

    checkpoint_id: int
    subtask: int
    attempt: str
    timestamp_ms: int
    values: Sequence[Any]
    job_id: str = ""
    operator_id: str = ""
    """Of the job and the sink that wrote the batch."""

    @property
    def place(self) -> tuple[int, int]:
        """The position of the batch in the order of sending."""
        return self.checkpoint_id, self.subtask


class CheckpointCommitter(ABC):
    """Records which batches the target has received (Flink: CheckpointCommitter).

    Job, operator, subtask and checkpoint together name a batch. Before each call of the two abstract methods
    the sink sets the ids of the batch's writer, which is another job after a restore of that job's savepoint.
    A target that ignores them mixes up the batches of all its sinks, and loses some.
    """

    job_id: str = ""
    operator_id: str = ""

    def set_job_id(self, id: str) -> None:
        """Set the id of the job that wrote the batch."""
        self.job_id = id

    def set_operator_id(self, id: str) -> None:
        """Set the id of the sink that wrote the batch; it differs for each job and checkpoint folder, too."""
        self.operator_id = id

    def open(self) -> None:
        """Connect; called before the other methods."""

    def close(self) -> None:
        """Release resources; called when the task finishes or is cancelled, never after a crash."""

    @abstractmethod
    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Record durably that the batch of a subtask and checkpoint was sent."""

    @abstractmethod
    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Return whether any attempt has recorded the batch as sent.

        What it returns must be durable, like any record: the batch is not in the next checkpoint. An embedded
        database may show a record that a killed process has written and not yet synced (SQLite does, until
        ``PRAGMA wal_checkpoint``).
        """


class GenericWriteAheadSink(SinkFunction, CommittingFunction):
    """Base of write-ahead sinks: implement ``send_values`` or ``send_batch`` (Flink: GenericWriteAheadSink).

    Args:
        committer: records which batches were sent.
        value_type: the type of values that are not plain data.
    """

    def __init__(self, committer: CheckpointCommitter, value_type: TypeInformation | None = None) -> None:
        self._committer = committer
        self._value_type = value_type
        self._values: list[Any] = []
        self._pending: dict[tuple[int, int], PendingBatch] = {}
        self._finished = False
        self._final_checkpoint_id: int | None = None
        """The first checkpoint after the end of the input, or the savepoint with which the job stops."""
        self._is_open = False

    # ---- implemented by a sink

    def send_values(self, values: Sequence[Any], checkpoint_id: int, timestamp: int) -> bool:
        """Send a batch to the target.

        Args:
            values: the values, in order.
            checkpoint_id: the checkpoint that stored the batch.
            timestamp: when that checkpoint was triggered, in milliseconds since the epoch.

        Returns:
            Whether the target has taken all values.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement send_values")

    def send_batch(self, batch: PendingBatch) -> bool:
        """Send a batch with its subtask and attempt, and return whether the target has taken it.

        By default calls ``send_values``.
        """
        return self.send_values(batch.values, batch.checkpoint_id, batch.timestamp_ms)

    # ---- called by a sink

    def pending_batches(self) -> list[PendingBatch]:
        """Return the batches that were not sent yet, in the order of sending."""
        return [self._pending[place] for place in sorted(self._pending)]

    def transaction_counts(self) -> tuple[int, int]:
        """Return whether a batch is being filled, and how many wait for their checkpoint or their target."""
        return 1 if self._values else 0, len(self._pending)

    # ---- called by the engine

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Restore the batches that were not recorded as sent."""
        self._take_over(context)
        if context.is_settled():
            self._pending.clear()

    def settle(self, context: FunctionInitializationContext) -> None:
        """Send the batches that the checkpoint lists."""
        self._take_over(context)
        checkpoint_id = context.get_restored_checkpoint_id() or 0
        # The driver has no later checkpoint for what is refused.
        self.stop_with(checkpoint_id)
        try:
            self.notify_checkpoint_complete(checkpoint_id)
        finally:
            self.close()

    def abort_unlisted(self) -> None:
        """Do nothing: a batch that no checkpoint lists does not exist."""

    def invoke(self, value: Any, context: Any) -> None:
        self._values.append(value)

    def invoke_batch(self, values: list[Any]) -> bool:
        self._values += values
        return True

    def finish(self) -> None:
        """Mark the end of the input: the next snapshot has the last batch."""
        self._finished = True

    def stop_with(self, checkpoint_id: int) -> None:
        """Mark the savepoint with which the job stops."""
        self._final_checkpoint_id = checkpoint_id

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Make a batch of the values since the last snapshot, and list all batches."""
        checkpoint_id = context.get_checkpoint_id()
        if self._values:
            runtime_context = self.get_runtime_context()
            batch = PendingBatch(
                checkpoint_id,
                runtime_context.get_index_of_this_subtask(),
                runtime_context.get_attempt_id(),
                context.get_checkpoint_timestamp(),
                self._values,
                runtime_context.get_job_id(),
                runtime_context.get_owner_id(),
            )
            self._pending[batch.place] = batch
            self._values = []
        if self._finished and self._final_checkpoint_id is None:
            self._final_checkpoint_id = checkpoint_id
        self.get_runtime_context().probe(PRE_COMMITTED, checkpoint_id)
        self._state.update([self._stored(batch) for batch in self.pending_batches()])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Send every batch up to this checkpoint."""
        final_id = self._final_checkpoint_id
        self._send_up_to(checkpoint_id, is_last=final_id is not None and checkpoint_id >= final_id)

    def close(self) -> None:
        """Close the CheckpointCommitter."""
        if self._is_open:
            self._is_open = False
            self._committer.close()

    # ---- internal

    def _take_over(self, context: FunctionInitializationContext) -> None:
        runtime_context = self.get_runtime_context()
        self._committer.set_job_id(runtime_context.get_job_id())
        self._committer.set_operator_id(runtime_context.get_owner_id())
        self._committer.open()
        self._is_open = True
        self._state: OperatorListState = context.get_operator_state_store().get_list_state(_STATE)
        for stored in self._state.get():
            batch = self._restored(stored)
            if not self._committer_of(batch).is_checkpoint_committed(batch.subtask, batch.checkpoint_id):
                self._pending[batch.place] = batch

    def _send_up_to(self, checkpoint_id: int, *, is_last: bool) -> None:
        probe = self.get_runtime_context().probe
        for batch in self.pending_batches():
            if batch.checkpoint_id > checkpoint_id:
                break
            probe(COMMITTING, checkpoint_id)
            try:
                is_sent = self.send_unless_committed(batch)
            except Exception as error:
                if is_last:
                    raise CommitFailed(
                        f"the batch of checkpoint {batch.checkpoint_id} could not be sent, and no other"
                        f" checkpoint follows: {error}"
                    ) from error
                # Later batches wait, so that the order is kept.
                _logger.warning(
                    "the batch of checkpoint %d could not be sent, it is tried again: %s",
                    batch.checkpoint_id,
                    error,
                )
                return
            if is_sent:
                probe(COMMITTED, checkpoint_id)
            elif is_last:
                raise CommitFailed(
                    f"the target does not take the batch of checkpoint {batch.checkpoint_id},"
                    " and no other checkpoint follows"
                )

    def send_unless_committed(self, batch: PendingBatch) -> bool:
        """Send a batch unless it was sent before, and return whether the target has it now."""
        committer = self._committer_of(batch)
        if not committer.is_checkpoint_committed(batch.subtask, batch.checkpoint_id):
            if not self.send_batch(batch):
                return False
            committer.commit_checkpoint(batch.subtask, batch.checkpoint_id)
        del self._pending[batch.place]
        return True

    def _committer_of(self, batch: PendingBatch) -> CheckpointCommitter:
        """Return the committer, set to the writer of a batch."""
        self._committer.set_job_id(batch.job_id)
        self._committer.set_operator_id(batch.operator_id)
        return self._committer

    def _stored(self, batch: PendingBatch) -> list[Any]:
        values = list(batch.values)
        if self._value_type is not None:
            values = [self._value_type.encode(value) for value in values]
        return [*astuple(batch)[:4], values, batch.job_id, batch.operator_id]

    def _restored(self, stored: Sequence[Any]) -> PendingBatch:
        checkpoint_id, subtask, attempt, timestamp_ms, values, *writer = stored
        if not writer:
            # A batch of version 0.2.0, which did not store its writer: taken for one of this sink.
            context = self.get_runtime_context()
            writer = [context.get_job_id(), context.get_owner_id()]
        if self._value_type is not None:
            values = [self._value_type.decode(value) for value in values]
        return PendingBatch(checkpoint_id, subtask, attempt, timestamp_ms, values, *writer)
