"""The sinks that ``DataStream.sink_to`` takes (Flink: Sink V2).

A sink makes a writer (Flink: Sink) and, if its output becomes visible with checkpoints, a committer (Flink:
SupportsCommitter). The engine's own sinks may override ``create_function`` instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.sink_writer import (
    Committer,
    CommitterInitContext,
    SinkWriter,
    WriterInitContext,
)
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.engine.functions import SinkFunction

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation


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
