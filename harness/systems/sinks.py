"""The write-ahead, committing and upsert sinks of jobs under trial.

The rules this module lives by:

- The simulation and real processes use the same sinks. They differ in the target that a sink writes to: the
  simulated external system, or a database file.
- Each call to the target stands between two protocol points, so a fault can kill the task before and after
  it: between sending a batch and remembering it, and between two commits of one checkpoint.
- The scenario's parameter ``reaction`` decides how a committer answers an error. Every reaction must end in
  the same committed rows.
- Log records of the engine's write-ahead sink are discarded: the history has the injected errors already.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias
from zlib import crc32

from onceproof.engine.connectors.buckets import BucketAssigner
from onceproof.engine.connectors.part_files import parts_of
from onceproof.engine.connectors.rolling import RollingPolicy
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
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Parameter

logging.getLogger("onceproof.engine.connectors.write_ahead").addHandler(logging.NullHandler())

RAISES: Final = "raises"
RETRIES_LATER: Final = "puts off"
UPDATES: Final = "updates"
FAILS: Final = "fails"
REACTIONS: Final = (RAISES, RETRIES_LATER, UPDATES, FAILS)
"""How a committer answers an error of the target: it raises; asks for a retry; asks for one with an
updated committable; or reports a failure, which fails the job."""

SinkKind: TypeAlias = Literal[
    "write-ahead",
    "committing",
    "upsert",
    "files",
    "objects",
    "parquet",
    "postgres",
    "postgres-upsert",
    "kafka",
]
"""The sinks of ``JobIO`` besides two-phase commit."""

ROWS_OF_A_PART: Final = 3
BUCKETS: Final = ("", "one", "two/inner")
ROLLS_BY_SIZE: Final = RollingPolicy.default_rolling_policy(part_size=60)
"""A file is complete with the bytes of a few rows."""
ROLLS_BY_COUNT: Final = RollingPolicy.on_checkpoint_rolling_policy(part_rows=ROWS_OF_A_PART)
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

    def file_sink(self, name: str) -> Any:
        """Return a file sink with buckets, which begins a new file after some rows and some time."""
        return self.make_sink("files", name)

    def object_sink(self, name: str) -> Any:
        """Return a file sink at s3:// with buckets, which rolls by size, time and count."""
        return self.make_sink("objects", name)

    def parquet_sink(self, name: str) -> Any:
        """Return a sink of Parquet files at s3:// with buckets, which rolls by count."""
        return self.make_sink("parquet", name)

    def upsert_sink(self, name: str, keys: int) -> Any:
        """Return a sink that writes by the first ``keys`` columns into a table of the external system."""
        return self.make_sink("upsert", name, keys=keys)

    def postgres_sink(self, name: str) -> Any:
        """Return the exactly-once sink into a table of PostgreSQL."""
        return self.make_sink("postgres", name)

    def kafka_sink(self, name: str) -> Any:
        """Return the exactly-once sink into a topic of Kafka."""
        return self.make_sink("kafka", name)

    def postgres_upsert_sink(self, name: str, keys: int) -> Any:
        """Return a sink that writes by the first ``keys`` columns into a table of PostgreSQL."""
        return self.make_sink("postgres-upsert", name, keys=keys)


# Part files.


class BucketsOfRows(BucketAssigner):
    """Distributes rows over a few folders, one of them the base path, by their first field."""

    def get_bucket_id(self, element: Any, context: Any) -> str:
        number = crc32(repr(element[:1] if isinstance(element, tuple) else element).encode())
        return BUCKETS[number % len(BUCKETS)]


def names_in(transaction: Any) -> list[str]:
    """Return the names under which a transaction becomes visible: its own, or those of its files."""
    if isinstance(transaction, str):
        return [transaction]
    return [part[0] for part in parts_of(transaction)]


def names_with_rows(transaction: Any) -> list[str]:
    """Return the same without the files that never come to be, because they have no rows."""
    if isinstance(transaction, str):
        return [transaction]
    return [part[0] for part in parts_of(transaction) if part[1] != 0]


# Batches of a write-ahead sink.


class BatchTarget(Protocol):
    """The target of a write-ahead sink. It takes batches, and stores which of them the sink has sent."""

    def remember_batch(self, sink: str, subtask: int, checkpoint_id: int) -> None:
        """Store durably that the sink has sent a batch. Raises if the target never took the batch."""

    def remembers_batch(self, sink: str, subtask: int, checkpoint_id: int) -> bool:
        """Return whether ``remember_batch`` was called for a batch."""


class BatchMemory(CheckpointCommitter):
    """Keeps in the target which batches of one subtask were sent (Flink: CheckpointCommitter)."""

    def __init__(self, target: BatchTarget) -> None:
        self._target = target
        self.context: RuntimeContext | None = None

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Pass the point ``committing``, where a fault may kill the task, then record the batch."""
        assert self.context is not None, "a batch was sent before the sink was restored"
        self.context.probe(COMMITTING, checkpoint_id)
        self._target.remember_batch(sink_of(self), subtask_idx, checkpoint_id)

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        return self._target.remembers_batch(sink_of(self), subtask_idx, checkpoint_id)


def sink_of(writer: CheckpointCommitter | PendingBatch) -> str:
    """Return what tells the sink of a batch apart from all other sinks, of this and other jobs."""
    return f"{writer.job_id[:8]}.{writer.operator_id[:8]}"


class BatchSink(GenericWriteAheadSink, ABC):
    """A write-ahead sink whose target recognises a batch that is sent twice."""

    def __init__(self, target: BatchTarget) -> None:
        self._memory = BatchMemory(target)
        super().__init__(self._memory)

    @abstractmethod
    def take(self, batch: PendingBatch) -> None:
        """Send a batch to the target. Raises InjectedError if a fault refuses it."""

    @abstractmethod
    def name_of(self, batch: PendingBatch) -> str:
        """Return the name of a batch in histories."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Give the checkpoint committer the task's context, so that it passes protocol points."""
        self._memory.context = runtime_context

    def send_batch(self, batch: PendingBatch) -> bool:
        """Send a batch. Return whether the target took it.

        While more checkpoints follow, a refused batch of an even checkpoint returns False. Any other refusal
        is raised, so both ways are tried.
        """
        self._memory.context = self.get_runtime_context()
        try:
            self.take(batch)
        except Exception as error:
            if self.raises_for(batch) or not is_injected(error):
                raise
            return False
        return True

    def raises_for(self, batch: PendingBatch) -> bool:
        """Return whether the refusal of a batch is raised; the batches behind it wait then."""
        none_follows = self._finished or self._final_checkpoint_id is not None
        return none_follows or batch.checkpoint_id % 2 == 1

    def pending_transactions(self) -> list[str]:
        """Return the names of the batches that are not sent yet, in the order of sending."""
        return [self.name_of(batch) for batch in self.pending_batches()]


# A writer and a committer.


class TransactionBegun(Protocol):
    """A transaction that is neither committed nor aborted, with the writer that began it."""

    @property
    def name(self) -> str:
        """The transaction's name in the target."""

    @property
    def subtask(self) -> int:
        """The index of the writer's subtask."""

    @property
    def epoch(self) -> int:
        """The id of the last checkpoint before the transaction began."""

    @property
    def attempt(self) -> str:
        """The id of the writer's attempt."""

    @property
    def owner(self) -> str:
        """The id of the sink that the writer belongs to, which no other sink has."""


class TransactionTarget(Protocol):
    """The target of a committing sink: transactions by name."""

    def begin(self, subtask: int, epoch: int, attempt: str, owner: str, part: int = 0) -> str:
        """Begin a transaction. Return its name; ``part`` numbers the transactions of one epoch."""

    def write(self, name: str, row: Any) -> None:
        """Add a row to an open transaction."""

    def prepare(self, name: str) -> None:
        """Close the transaction for rows. From now on it survives any crash and can be committed."""

    def commit(self, name: str) -> None:
        """Make the rows visible. Raises InjectedError if a fault strikes the commit."""

    def is_committed(self, name: str) -> bool:
        """Return whether the rows of a transaction are visible."""

    def abort(self, name: str) -> None:
        """Discard the rows of a transaction that is not committed."""

    def unsettled(self) -> Sequence[TransactionBegun]:
        """Return the transactions that are neither committed nor aborted."""


class PartWriter(CommittingSinkWriter, StatefulSinkWriter):
    """Writes rows into transactions of ``ROWS_OF_A_PART`` rows; its committables are their names."""

    def __init__(self, target: TransactionTarget, context: WriterInitContext) -> None:
        task = context.get_task_info()
        self._target = target
        self._subtask = task.get_index_of_this_subtask()
        self._attempt = task.get_attempt_id()
        self._owner = task.get_owner_id()
        self._epoch = context.get_restored_checkpoint_id() or 0
        self._parts = 0
        self._open: str | None = None
        self._rows = 0
        self._prepared: list[str] = []

    def write(self, element: Any, context: Any) -> None:
        if self._open is None:
            self._open = self._target.begin(
                self._subtask, self._epoch, self._attempt, self._owner, self._parts
            )
            self._parts += 1
        self._target.write(self._open, element)
        self._rows += 1
        if self._rows == ROWS_OF_A_PART:
            self.flush(False)

    def flush(self, end_of_input: bool) -> None:
        if self._open is not None:
            self._target.prepare(self._open)
            self._prepared.append(self._open)
            self._open = None
            self._rows = 0

    def prepare_commit(self) -> Collection[str]:
        prepared, self._prepared = self._prepared, []
        return prepared

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return no state. Transactions that begin from now on carry this checkpoint in their names."""
        self._epoch = checkpoint_id
        self._parts = 0
        return []

    def close(self) -> None:
        """Abort the open transaction, and the prepared ones that ``prepare_commit`` has not returned."""
        for name in (self._open, *self._prepared):
            if name is not None:
                self._target.abort(name)


class ReactingCommitter(Committer):
    """Commits transactions by name, and answers errors with the scenario's reaction."""

    def __init__(self, target: TransactionTarget, reaction: str, context: CommitterInitContext) -> None:
        self._target = target
        self._reaction = reaction
        self._probe = context.get_task_info().probe

    def commit(self, committables: Collection[CommitRequest]) -> None:
        """Commit one after another, with the point ``committing`` before each but the first."""
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
        except Exception as error:
            if not is_injected(error):
                raise
            if self._reaction in (RETRIES_LATER, UPDATES):
                self._put_off(request)
            elif self._reaction == FAILS:
                request.signal_failed_with_unknown_reason(error)
            else:
                raise

    def _is_busy(self, request: CommitRequest) -> bool:
        """Return whether the target is busy and the committer must retry, without any fault of the scenario.

        At the first try of every third committable, chosen by a checksum of its name.
        """
        if self._reaction not in (RETRIES_LATER, UPDATES) or request.get_number_of_retries():
            return False
        return crc32(str(request.get_committable()).encode()) % 3 == 0

    def _put_off(self, request: CommitRequest) -> None:
        if self._reaction == UPDATES:
            request.update_and_retry_later(request.get_committable())
        else:
            request.retry_later()


class ReactingSink(SupportsCommitter, ABC):
    """A sink of a writer and a committer over a target.

    The scenario's parameter ``reaction`` is the committer's. Raises ValueError for a reaction that is not in
    ``REACTIONS``.
    """

    keeps_writer_state = True

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        reaction = str(parameters.get("reaction", RAISES))
        if reaction not in REACTIONS:
            raise ValueError(f"reaction {reaction!r}: a committer knows {', '.join(REACTIONS)}")
        self._reaction = reaction

    @abstractmethod
    def target(self, task: RuntimeContext | None = None) -> TransactionTarget:
        """Return the target for calls of a task; without a task only for ``unsettled`` and ``abort``."""

    def create_writer(self, context: WriterInitContext) -> PartWriter:
        return PartWriter(self.target(context.get_task_info()), context)

    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> PartWriter:
        return self.create_writer(context)

    def create_committer(self, context: CommitterInitContext) -> ReactingCommitter:
        return ReactingCommitter(self.target(context.get_task_info()), self._reaction, context)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort unlisted transactions after a restore, as far as they belong to this subtask."""
        target = self.target()
        for each in target.unsettled():
            if recovery.may_abort(each.subtask, each.epoch, each.attempt, each.owner):
                target.abort(each.name)
