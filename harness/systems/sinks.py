"""Sinks besides two-phase commit as jobs under trial have them, whoever plays their outside.

The rules this module lives by:

- The simulation and real processes have the same sinks, and differ in the target that these write to.
- Each call to the outside stands between two protocol points, so that a task can die before it and after it:
  between the sending of a batch and its being remembered, and between two commits of one checkpoint.
- How a committer takes an error is the scenario's to say; all of its answers must end in the same rows.
- What a write-ahead sink logs of an injected error nobody reads: the history has it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias
from zlib import crc32

from onceproof.engine.connectors.sink import SupportsCommitter
from onceproof.engine.connectors.sink_writer import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    StatefulSinkWriter,
    WriterInitContext,
)
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.engine.connectors.write_ahead import CheckpointCommitter, GenericWriteAheadSink, PendingBatch
from onceproof.engine.functions import RuntimeContext
from onceproof.engine.protocol_points import COMMITTING
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Parameter

logging.getLogger("onceproof.engine.connectors.write_ahead").addHandler(logging.NullHandler())

RAISES: Final = "raises"
PUTS_OFF: Final = "puts off"
UPDATES: Final = "updates"
FAILS: Final = "fails"
REACTIONS: Final = (RAISES, PUTS_OFF, UPDATES, FAILS)
"""How a committer takes an error: it raises, tries again, tries what is left again, or fails the job."""

SinkKind: TypeAlias = Literal["write-ahead", "committing", "upsert"]
"""The sinks of ``JobIO`` besides two-phase commit."""

ROWS_OF_A_PART: Final = 3
BUFFERED_KEYS: Final = 3


class SinksByKind(ABC):
    """The methods of ``JobIO`` that return sinks besides two-phase commit.

    A new kind of sink gets a method here; each system makes it in its own ``make_sink``.
    """

    __slots__ = ()

    @abstractmethod
    def make_sink(self, kind: SinkKind, name: str, *, keys: int = 0) -> Any:
        """Return a new sink of a kind; ``keys`` is the number of key columns of an upsert sink."""

    def write_ahead_sink(self, name: str) -> Any:
        """Return a write-ahead sink into the external system."""
        return self.make_sink("write-ahead", name)

    def committing_sink(self, name: str) -> Any:
        """Return a sink of a writer and a committer into the external system."""
        return self.make_sink("committing", name)

    def upsert_sink(self, name: str, keys: int) -> Any:
        """Return a sink that writes by the first ``keys`` columns into a table of the external system."""
        return self.make_sink("upsert", name, keys=keys)


# Batches of a write-ahead sink.


class BatchTarget(Protocol):
    """Takes batches, and remembers which."""

    def remember_batch(self, subtask: int, checkpoint_id: int) -> None:
        """Remember for ever that a batch was taken."""

    def remembers_batch(self, subtask: int, checkpoint_id: int) -> bool:
        """Whether that was asked for."""


class BatchMemory(CheckpointCommitter):
    """A target's memory of batches, asked by one subtask."""

    def __init__(self, target: BatchTarget) -> None:
        self._target = target
        self.context: RuntimeContext | None = None

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Remember a batch; the task may die between having sent it and this."""
        assert self.context is not None, "a batch was sent before the sink was restored"
        self.context.probe(COMMITTING, checkpoint_id)
        self._target.remember_batch(subtask_idx, checkpoint_id)

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Ask the target."""
        return self._target.remembers_batch(subtask_idx, checkpoint_id)


class BatchSink(GenericWriteAheadSink, ABC):
    """Sends its batches to a target that finds out what it has already."""

    def __init__(self, target: BatchTarget) -> None:
        self._memory = BatchMemory(target)
        super().__init__(self._memory)

    @abstractmethod
    def take(self, batch: PendingBatch) -> None:
        """Let the target take a batch."""

    @abstractmethod
    def name_of(self, batch: PendingBatch) -> str:
        """What a history calls a batch."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Let the memory pass protocol points, too."""
        self._memory.context = runtime_context

    def send_batch(self, batch: PendingBatch) -> bool:
        """Send a batch; as long as more checkpoints follow, a refusal is answered instead of raised."""
        self._memory.context = self.get_runtime_context()
        try:
            self.take(batch)
        except InjectedError:
            if self._finished or batch.checkpoint_id % 2:
                raise
            return False
        return True

    def pending_transactions(self) -> list[str]:
        """The names of the batches that wait, in the order of sending."""
        return [self.name_of(batch) for batch in self.pending_batches()]


# A writer and a committer.


class TransactionBegun(Protocol):
    """A transaction that is neither committed nor aborted, and who began it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def subtask(self) -> int:
        """Of the writer."""

    @property
    def epoch(self) -> int:
        """The checkpoint after which it was begun."""

    @property
    def attempt(self) -> str:
        """Of the writer."""


class TransactionTarget(Protocol):
    """Knows transactions by name."""

    def begin(self, subtask: int, epoch: int, attempt: str, part: int = 0) -> str:
        """Begin a transaction, and name it."""

    def write(self, name: str, row: Any) -> None:
        """Add a row to an open transaction."""

    def prepare(self, name: str) -> None:
        """From now on the transaction survives any crash and can be committed."""

    def commit(self, name: str) -> None:
        """Make the rows visible."""

    def is_committed(self, name: str) -> bool:
        """Whether they are."""

    def abort(self, name: str) -> None:
        """Throw the rows away."""

    def unsettled(self) -> Sequence[TransactionBegun]:
        """Transactions that are neither committed nor aborted."""


class PartWriter(CommittingSinkWriter, StatefulSinkWriter):
    """Writes into transactions of a few rows each, and gives their names."""

    def __init__(self, target: TransactionTarget, context: WriterInitContext) -> None:
        task = context.get_task_info()
        self._target = target
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
            self._open = self._target.begin(self._subtask, self._epoch, self._attempt, self._parts)
            self._parts += 1
        self._target.write(self._open, element)
        self._rows += 1
        if self._rows == ROWS_OF_A_PART:
            self.flush(False)

    def flush(self, end_of_input: bool) -> None:
        """Prepare the open transaction."""
        if self._open is not None:
            self._target.prepare(self._open)
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
                self._target.abort(name)


class ReactingCommitter(Committer):
    """Commits by name."""

    def __init__(self, target: TransactionTarget, reaction: str, context: CommitterInitContext) -> None:
        self._target = target
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
        if self._target.is_committed(name):
            request.signal_already_committed()
            return
        if self._is_busy(request):
            self._put_off(request)
            return
        try:
            self._target.commit(name)
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


class ReactingSink(SupportsCommitter, ABC):
    """A writer and a committer over a target; a scenario's parameter ``reaction`` is the committer's."""

    keeps_writer_state = True

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        reaction = str(parameters.get("reaction", RAISES))
        if reaction not in REACTIONS:
            raise ValueError(f"reaction {reaction!r}: a committer knows {', '.join(REACTIONS)}")
        self._reaction = reaction

    @abstractmethod
    def target(self, task: RuntimeContext | None = None) -> TransactionTarget:
        """The target as a task sees it; nobody's where something is only swept."""

    def create_writer(self, context: WriterInitContext) -> PartWriter:
        """A new writer."""
        return PartWriter(self.target(context.get_task_info()), context)

    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> PartWriter:
        """A new writer, too."""
        return self.create_writer(context)

    def create_committer(self, context: CommitterInitContext) -> ReactingCommitter:
        """A new committer."""
        return ReactingCommitter(self.target(context.get_task_info()), self._reaction, context)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort what nobody lists and this subtask may sweep."""
        target = self.target()
        for transaction in target.unsettled():
            if recovery.may_abort(transaction.subtask, transaction.epoch, transaction.attempt):
                target.abort(transaction.name)
