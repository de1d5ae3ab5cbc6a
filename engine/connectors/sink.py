"""What a sink answers to that is handed over as a description: ``DataStream.sink_to``.

A sink describes its writer (Flink: Sink), and, if its output becomes visible with checkpoints, its committer
(Flink: SupportsCommitter). Sinks of the engine's own may bring a function of another kind instead.
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
    """Describes where values go; each subtask of each attempt has a writer of its own (Flink: Sink)."""

    keeps_writer_state = False
    """Whether ``restore_writer`` is asked for a writer after a restore."""
    writer_state_type: TypeInformation | None = None
    committable_type: TypeInformation | None = None
    """How checkpoints keep what is no plain data (Flink: a serializer for each)."""

    def create_writer(self, context: WriterInitContext) -> SinkWriter:
        """A new writer that shares nothing with those made before."""
        raise NotImplementedError(f"{type(self).__name__} must implement create_writer(context)")

    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> SinkWriter:
        """A new writer that goes on from the state of earlier ones; see SupportsWriterState."""
        raise NotImplementedError(f"{type(self).__name__} must implement restore_writer(context, state)")

    def create_committer(self, context: CommitterInitContext) -> Committer:
        """A new committer; see SupportsCommitter."""
        raise NotImplementedError(
            f"{type(self).__name__} has a writer that gives committables:"
            " derive it from SupportsCommitter, too, and implement create_committer(context)"
        )

    def abort_unknown(self, recovery: Recovery) -> None:
        """Ours: abort what the outside world lists and ``recovery.may_abort`` allows. See two_phase."""

    def create_function(self) -> SinkFunction:
        """Ours: the function that runs the sink in one subtask; it shares nothing with those made before."""
        return WriterSinkFunction(self)


class SupportsCommitter(Sink):
    """A sink whose writer gives committables (Flink: SupportsCommitter)."""

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer:
        """A new committer."""


class SupportsWriterState(Sink):
    """A sink whose writer has state of its own (Flink: SupportsWriterState)."""

    keeps_writer_state = True

    @abstractmethod
    def restore_writer(self, context: WriterInitContext, recovered_state: list[Any]) -> SinkWriter:
        """A new writer that goes on from the state of earlier ones, perhaps of several, or of none."""
