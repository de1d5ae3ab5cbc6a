"""The sinks that ``DataStream.sink_to`` takes (Flink: Sink V2).

A sink makes a writer (Flink: Sink) and, if its output becomes visible with checkpoints, a committer (Flink:
SupportsCommitter). The engine's own sinks may override ``create_function`` instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.sink_writer import (
    Committer,
    CommitterInitContext,
    SinkWriter,
    WriterInitContext,
)
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    SinkFunction,
)
from onceproof.engine.protocol_points import PRE_COMMITTED

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation


class DeliveryGuarantee(Enum):
    """What a sink promises; the values are Flink's names in options."""

    EXACTLY_ONCE = "exactly-once"
    """Each row is visible once, with its checkpoint."""
    AT_LEAST_ONCE = "at-least-once"
    """Each row is visible; a failure may write some again."""
    NONE = "none"
    """A failure may lose rows and write some again."""


class FlushedSinkFunction(SinkFunction, CheckpointedFunction):
    """Has nothing of its own in a snapshot: all rows before it have been sent."""

    @abstractmethod
    def _flush(self) -> None:
        """Send the rows that are held back."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Do nothing: the sink has no state."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Send the rows."""
        self._flush()
        self.get_runtime_context().probe(PRE_COMMITTED, context.get_checkpoint_id())

    def finish(self) -> None:
        """Send the last rows."""
        self._flush()


class Sink(ABC):  # noqa: B024 (either create_writer or create_function)
    """Makes a writer for each subtask of each attempt (Flink: Sink)."""

    has_committer = False
    """Whether the output becomes visible with checkpoints; see SupportsCommitter."""
    keeps_writer_state = False
    """Whether a restore calls ``restore_writer`` instead of ``create_writer``."""
    writer_state_type: TypeInformation | None = None
    committable_type: TypeInformation | None = None
    """The types of writer state and committables that are not plain data (Flink: their serializers)."""

    def create_writer(self, context: WriterInitContext) -> SinkWriter:
        """Return a new writer that shares nothing with earlier ones."""
        raise NotImplementedError(f"{type(self).__name__} must implement create_writer(context)")

    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> SinkWriter:
        """Return a new writer with the state of earlier ones; see SupportsWriterState."""
        raise NotImplementedError(f"{type(self).__name__} must implement restore_writer(context, state)")

    def create_committer(self, context: CommitterInitContext) -> Committer:
        """Return a new committer; see SupportsCommitter."""
        raise NotImplementedError(
            f"{type(self).__name__} has a writer that gives committables:"
            " derive it from SupportsCommitter, too, and implement create_committer(context)"
        )

    def abort_unknown(self, recovery: Recovery) -> None:
        """Abort transactions that the external system lists and ``recovery.may_abort`` allows (ours)."""

    def for_type(self, value_type: TypeInformation | None) -> Sink:
        """Return a sink for values of a declared type; called as the job is built (ours)."""
        return self

    def create_function(self) -> SinkFunction:
        """Return a new function that runs the sink in one subtask (ours)."""
        return WriterSinkFunction(self)


class SupportsCommitter(Sink):
    """A sink whose writer returns committables (Flink: SupportsCommitter)."""

    has_committer = True

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer:
        """Return a new committer."""


class SupportsWriterState(Sink):
    """A sink whose writer has state of its own (Flink: SupportsWriterState)."""

    keeps_writer_state = True

    @abstractmethod
    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> SinkWriter:
        """Return a new writer with restored state.

        Args:
            context: describes the subtask.
            recovered_state: the state of earlier writers; after a rescaling, of several or of none.
        """
