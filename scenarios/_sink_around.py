"""A sink around the transactional sink that the harness gives to a job, and what it passes on."""

from __future__ import annotations

from typing import Any

from onceproof.engine.functions import (
    CommittingFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
)


class SinkAround(SinkFunction, CommittingFunction):
    """Writes to an inner sink and lists its transactions as its own. A subclass overrides ``invoke``.

    Args:
        sink: the inner sink.
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._sink.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._sink.snapshot_state(context)

    def finish(self) -> None:
        self._sink.finish()

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        super().set_runtime_context(runtime_context)
        self._sink.set_runtime_context(runtime_context)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sink.open(runtime_context)

    def close(self) -> None:
        self._sink.close()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._sink.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._sink.notify_checkpoint_aborted(checkpoint_id)

    def pending_transactions(self) -> list[Any]:
        pending: list[Any] = self._sink.pending_transactions()
        return pending

    def settle(self, context: FunctionInitializationContext) -> None:
        """Settle the inner sink only; what a subclass keeps belongs to the subtasks."""
        self._sink.settle(context)

    def abort_unlisted(self) -> None:
        self._sink.abort_unlisted()
