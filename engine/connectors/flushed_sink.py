"""The base of sinks that hold rows back, and send them before each snapshot and at the end of the input."""

from __future__ import annotations

from abc import abstractmethod

from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    SinkFunction,
)
from onceproof.engine.protocol_points import PRE_COMMITTED


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
