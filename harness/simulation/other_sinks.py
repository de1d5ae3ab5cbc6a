"""The engine's sinks besides two-phase commit, over the simulated external system.

The rules this module lives by:

- Each call to the outside stands between two protocol points, so that a task can die before it and after it:
  between the sending of a batch and its being remembered, and between two commits of one checkpoint.
- How a committer takes an error is the scenario's to say; all of its answers must end in the same rows.
- What a write-ahead sink logs of an injected error nobody reads: the history has it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Mapping
from typing import Any, Final
from zlib import crc32

from engine.connectors.idempotent import UpsertSinkFunction
from engine.connectors.sink import SupportsCommitter
from engine.connectors.sink_writer import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    StatefulSinkWriter,
    WriterInitContext,
)
from engine.connectors.two_phase import Recovery
from engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink, PendingBatch
from engine.functions import RuntimeContext
from engine.protocol_points import COMMITTED, COMMITTING
from harness.simulation.external import RAISES, InjectedError, TransactionalSystem, batch_name

logging.getLogger("engine.connectors.write_ahead").addHandler(logging.NullHandler())

PUTS_OFF: Final = "puts off"
UPDATES: Final = "updates"
FAILS: Final = "fails"
REACTIONS: Final = (RAISES, PUTS_OFF, UPDATES, FAILS)
"""How a committer takes an error: it raises, tries again, tries what is left again, or fails the job."""

ROWS_OF_A_PART: Final = 3
BUFFERED_KEYS: Final = 3


class BatchMemory(CheckpointCommitter):
    """The external system's memory of batches, asked by one subtask."""

    def __init__(self, system: TransactionalSystem) -> None:
        self._system = system
        self.context: RuntimeContext | None = None

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Remember a batch; the task may die between having sent it and this."""
        assert self.context is not None, "a batch was sent before the sink was restored"
        self.context.probe(COMMITTING, checkpoint_id)
        self._system.remember_batch(subtask_idx, checkpoint_id)

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Ask the external system."""
        return self._system.remembers_batch(subtask_idx, checkpoint_id)


class SimulatedWriteAheadSink(GenericWriteAheadSink):
    """Sends its batches to the external system, which finds out what it has already."""

    def __init__(self, system: TransactionalSystem) -> None:
        self._memory = BatchMemory(system)
        super().__init__(self._memory)
        self._system = system

    def __deepcopy__(self, memo: object) -> SimulatedWriteAheadSink:
        return SimulatedWriteAheadSink(self._system)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Let the memory pass protocol points, too."""
        self._memory.context = runtime_context

    def send_batch(self, batch: PendingBatch) -> bool:
        """Send a batch; as long as more checkpoints follow, a refusal is answered instead of raised."""
        self._memory.context = self.get_runtime_context()
        try:
            self._system.take_batch(batch.subtask, batch.checkpoint_id, batch.attempt, batch.values)
        except InjectedError:
            if self._finished or batch.checkpoint_id % 2:
                raise
            return False
        return True

    def pending_transactions(self) -> list[str]:
        """The names of the batches that wait, in the order of sending."""
        return [
            batch_name(batch.subtask, batch.checkpoint_id, batch.attempt) for batch in self.pending_batches()
        ]


class SimulatedWriter(CommittingSinkWriter, StatefulSinkWriter):
    """Writes into transactions of a few rows each, and gives their names."""

    def __init__(self, system: TransactionalSystem, context: WriterInitContext) -> None:
        task = context.get_task_info()
        self._system = system
        self._subtask = task.get_index_of_this_subtask()
        self._attempt = task.get_attempt_id()
        self._epoch = context.get_restored_checkpoint_id() or 0
        self._parts = 0
        self._open: str | None = None
        self._rows = 0
        self._prepared: list[str] = []

    def write(self, element: Any, context: Any) -> None:
        """Write a row."""
        if self._open is None:
            self._open = self._system.begin(self._subtask, self._epoch, self._attempt, self._parts)
            self._parts += 1
        self._system.write(self._open, element)
        self._rows += 1
        if self._rows == ROWS_OF_A_PART:
            self.flush(False)

    def flush(self, end_of_input: bool) -> None:
        """Prepare the open transaction."""
        if self._open is not None:
            self._system.prepare(self._open)
            self._prepared.append(self._open)
            self._open = None
            self._rows = 0

    def prepare_commit(self) -> Collection[str]:
        """Give the names of what was prepared."""
        prepared, self._prepared = self._prepared, []
        return prepared

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """There is none; but what is begun from now on carries this checkpoint in its name."""
        self._epoch = checkpoint_id
        self._parts = 0
        return []

    def close(self) -> None:
        """Abort what is not prepared, and what nobody has asked for."""
        for name in (self._open, *self._prepared):
            if name is not None:
                self._system.abort(name)


class SimulatedCommitter(Committer):
    """Commits by name."""

    def __init__(self, system: TransactionalSystem, reaction: str, context: CommitterInitContext) -> None:
        self._system = system
        self._reaction = reaction
        self._probe = context.get_task_info().probe

    def commit(self, committables: Collection[CommitRequest]) -> None:
        """Commit one after another; what is done already is told from what is done now."""
        for number, request in enumerate(committables):
            if number:
                self._probe(COMMITTING, 0)
            self._commit(request)

    def _commit(self, request: CommitRequest) -> None:
        name = request.get_committable()
        if self._system.is_committed(name):
            request.signal_already_committed()
            return
        if self._is_busy(request):
            self._put_off(request)
            return
        try:
            self._system.commit(name)
        except InjectedError as error:
            if self._reaction in (PUTS_OFF, UPDATES):
                self._put_off(request)
            elif self._reaction == FAILS:
                request.signal_failed_with_unknown_reason(error)
            else:
                raise

    def _is_busy(self, request: CommitRequest) -> bool:
        """Whether the outside asks a committer who can wait to come again: at the first try, now and then."""
        if self._reaction not in (PUTS_OFF, UPDATES) or request.get_number_of_retries():
            return False
        return crc32(str(request.get_committable()).encode()) % 3 == 0

    def _put_off(self, request: CommitRequest) -> None:
        if self._reaction == UPDATES:
            request.update_and_retry_later(request.get_committable())
        else:
            request.retry_later()


class SimulatedCommittingSink(SupportsCommitter):
    """A writer and a committer over the external system."""

    keeps_writer_state = True

    def __init__(self, system: TransactionalSystem, reaction: str) -> None:
        if reaction not in REACTIONS:
            raise ValueError(f"reaction {reaction!r}: a committer knows {', '.join(REACTIONS)}")
        self._system = system
        self._reaction = reaction

    def create_writer(self, context: WriterInitContext) -> SimulatedWriter:
        """A new writer."""
        return SimulatedWriter(self._system, context)

    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> SimulatedWriter:
        """A new writer, too."""
        return SimulatedWriter(self._system, context)

    def create_committer(self, context: CommitterInitContext) -> SimulatedCommitter:
        """A new committer."""
        return SimulatedCommitter(self._system, self._reaction, context)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort what nobody lists and this subtask may sweep."""
        for transaction in self._system.unsettled():
            if recovery.may_abort(transaction.subtask, transaction.epoch, transaction.attempt):
                self._system.abort(transaction.name)


class SimulatedUpsertSink(UpsertSinkFunction):
    """Writes rows by their first columns into a table of the external system."""

    def __init__(self, system: TransactionalSystem, keys: int) -> None:
        super().__init__(BUFFERED_KEYS)
        self._system = system
        self._keys = keys

    def __deepcopy__(self, memo: object) -> SimulatedUpsertSink:
        return SimulatedUpsertSink(self._system, self._keys)

    def key_of(self, value: Any) -> Hashable:
        """The first columns."""
        key: Hashable = value[: self._keys]
        return key

    def upsert(self, rows: Mapping[Hashable, Any]) -> None:
        """Write between two protocol points."""
        context = self.get_runtime_context()
        context.probe(COMMITTING, 0)
        task = f"{context.get_task_name()}-{context.get_index_of_this_subtask()}"
        self._system.write_by_key(task, context.get_attempt_id(), self._keys, list(rows.values()))
        context.probe(COMMITTED, 0)
