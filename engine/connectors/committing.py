"""Runs a writer and its committer as one function of a sink (Flink: SinkWriterOperator, CommitterOperator).

The rules this module lives by:

- Before the barrier of checkpoint n the writer is flushed and its committables are listed for checkpoint n.
  They are committed when checkpoint n is complete or restored, older checkpoints first.
- At the end of the input the writer is flushed for the last time. Its committables are listed for the id
  after the last checkpoint, which is at most that of the final checkpoint.
- A restore commits everything that the checkpoint lists, again if need be, before it makes a writer. Then the
  sink may abort what no checkpoint lists. If the driver commits (on Spark), the task does neither.
- Writer and committer are one operator. In Flink they are two adjacent operators of one chain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from onceproof.engine.connectors.committables import (
    MAX_RETRIES,
    CommittableCollector,
    CommittableSummary,
    CommittableWithLineage,
)
from onceproof.engine.connectors.sink_writer import (
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    SinkWriter,
    StatefulSinkWriter,
    WriterInitContext,
)
from onceproof.engine.connectors.two_phase import Recovery
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

WRITER_STATE = "writer_state"
COMMITTER_STATE = "committable_states"
_WRITER_STATE = ListStateDescriptor(WRITER_STATE, Types.DYNAMIC())
_COMMITTER_STATE = ListStateDescriptor(COMMITTER_STATE, Types.DYNAMIC())


class WriterFactory(Protocol):
    """What the function asks of its sink; `connectors.sink.Sink` is one."""

    has_committer: bool
    """Whether the writer gives committables, and ``create_committer`` makes what commits them."""
    keeps_writer_state: bool
    """Whether ``restore_writer`` is called after a restore instead of ``create_writer``."""
    writer_state_type: TypeInformation | None
    committable_type: TypeInformation | None
    """The types by which checkpoints store writer state and committables; None: as plain data."""

    def create_writer(self, context: WriterInitContext) -> SinkWriter: ...

    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> SinkWriter: ...

    def create_committer(self, context: CommitterInitContext) -> Committer: ...

    def abort_unknown(self, recovery: Recovery) -> None: ...


class WriterSinkFunction(SinkFunction, CommittingFunction):
    """The function that runs a sink's writer and committer in one subtask."""

    def __init__(self, sink: WriterFactory, max_retries: int = MAX_RETRIES) -> None:
        self.max_retries = max_retries
        """How often the committer may retry a committable before the commit fails."""
        self._sink = sink
        self._collector = CommittableCollector()
        self._committer: Committer | None = None
        self._writer: SinkWriter | None = None
        self._last_checkpoint_id = 0
        self._last_completed_id = 0
        self._finished = False

    @property
    def commits(self) -> bool:
        """Return whether what the writer writes becomes visible with checkpoints."""
        return self._sink.has_committer

    def pending_transactions(self) -> list[Any]:
        """Return the committables that wait for their checkpoint, oldest first."""
        return self._collector.pending()

    def transaction_counts(self) -> tuple[int, int]:
        """Return 0, because a writer keeps its open files to itself, and how many committables wait."""
        return 0, self._collector.count()

    # ---- called by the engine

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Commit what the checkpoint lists, abort the rest, and make a writer."""
        restored_id = context.get_restored_checkpoint_id()
        writer_state = self._take_over(context)
        if context.is_settled():
            self._collector = CommittableCollector()
        else:
            self._commit_up_to(restored_id or 0)
            self._abort_unknown(restored_id)
        self._last_checkpoint_id = restored_id or 0
        self._writer = self._create_writer(restored_id, writer_state)

    def settle(self, context: FunctionInitializationContext) -> None:
        """Commit what the checkpoint lists, and make no writer."""
        self._take_over(context)
        try:
            self._commit_up_to(context.get_restored_checkpoint_id() or 0)
        finally:
            self.close()

    def abort_unlisted(self) -> None:
        """Abort without regard to epochs: everything that a checkpoint lists is committed."""
        self._abort_unknown(None)

    def invoke(self, value: Any, context: Any) -> None:
        self._running_writer().write(value, context)

    def finish(self) -> None:
        """Flush the writer for the last time; its committables belong to the next checkpoint."""
        self._running_writer().flush(True)
        self._collect(self._last_checkpoint_id + 1)
        self._finished = True

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Flush the writer, and list its committables in the checkpoint."""
        checkpoint_id = context.get_checkpoint_id()
        writer = self._running_writer()
        if not self._finished:
            writer.flush(False)
            self._collect(checkpoint_id)
        self._last_checkpoint_id = checkpoint_id
        if isinstance(writer, StatefulSinkWriter):
            state = writer.snapshot_state(checkpoint_id)
            self._writer_state.update(_encoded(state, self._sink.writer_state_type))
        self.get_runtime_context().probe(PRE_COMMITTED, checkpoint_id)
        stored = [
            [*lineage, _encoded(committables, self._sink.committable_type)]
            for *lineage, committables in self._collector.stored()
        ]
        self._committer_state.update([stored])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the committables of all checkpoints up to this one."""
        self._commit_up_to(max(checkpoint_id, self._last_completed_id))

    def close(self) -> None:
        writer, self._writer = self._writer, None
        committer, self._committer = self._committer, None
        try:
            if writer is not None:
                writer.close()
        finally:
            if committer is not None:
                committer.close()

    # ---- internal

    def _running_writer(self) -> SinkWriter:
        assert self._writer is not None, "the sink is used before it is restored, or after it was closed"
        return self._writer

    def _take_over(self, context: FunctionInitializationContext) -> list[Any]:
        """Restore the listed committables, and return the state of the writers."""
        store = context.get_operator_state_store()
        self._writer_state: OperatorListState = store.get_list_state(_WRITER_STATE)
        self._committer_state: OperatorListState = store.get_list_state(_COMMITTER_STATE)
        for stored in self._committer_state.get():
            self._collector.restore(
                [
                    [*lineage, _decoded(committables, self._sink.committable_type)]
                    for *lineage, committables in stored
                ]
            )
        return _decoded(self._writer_state.get(), self._sink.writer_state_type)

    def _create_writer(self, restored_id: int | None, state: list[Any]) -> SinkWriter:
        context = WriterInitContext(self.get_runtime_context(), restored_id)
        if restored_id is not None and self._sink.keeps_writer_state:
            return self._sink.restore_writer(context, state)
        return self._sink.create_writer(context)

    def _collect(self, checkpoint_id: int) -> None:
        writer = self._running_writer()
        if not isinstance(writer, CommittingSinkWriter):
            return
        committables = writer.prepare_commit()
        if not committables:
            return
        subtask = self.get_runtime_context().get_index_of_this_subtask()
        self._collector.add_summary(CommittableSummary(subtask, checkpoint_id, len(committables)))
        for committable in committables:
            self._collector.add(CommittableWithLineage(subtask, checkpoint_id, committable))

    def _commit_up_to(self, checkpoint_id: int) -> None:
        self._last_completed_id = checkpoint_id
        probe = self.get_runtime_context().probe
        for due_id in self._collector.due(checkpoint_id):
            if self._committer is None:
                self._committer = self._sink.create_committer(
                    CommitterInitContext(self.get_runtime_context())
                )
            probe(COMMITTING, checkpoint_id)
            self._collector.commit(due_id, self._committer, self.max_retries)
            probe(COMMITTED, checkpoint_id)

    def _abort_unknown(self, restored_id: int | None) -> None:
        context = self.get_runtime_context()
        self._sink.abort_unknown(
            Recovery(
                context.get_index_of_this_subtask(),
                context.get_number_of_parallel_subtasks(),
                context.get_attempt_id(),
                restored_id,
                context.get_owner_id(),
            )
        )


def _encoded(values: Iterable[Any], kind: TypeInformation | None) -> list[Any]:
    return list(values) if kind is None else [kind.encode(value) for value in values]


def _decoded(stored: Iterable[Any], kind: TypeInformation | None) -> list[Any]:
    return list(stored) if kind is None else [kind.decode(value) for value in stored]
