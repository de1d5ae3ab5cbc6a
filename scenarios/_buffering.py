"""A sink that buffers in operator state: what the textbook's BufferingSink and its like have in common.

The buffer is a list state of the operator, so on a rescale its elements are dealt out over the new subtasks,
whichever subtask collected them. What is full is handed on to a transactional sink; the rest goes at the end
of the input, since otherwise rows held back would look like rows lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine.functions import (
    CommittingFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
)
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import Types

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.state.operator import OperatorListState
    from onceproof.harness.model.family import JobIO

MOST_SUBTASKS = 4
"""Of a sink, in any scenario: each may hold back what does not fill a buffer."""


class BufferingSink(SinkFunction, CommittingFunction):
    """Collects values, and writes them by ``threshold`` to a sink within, whose transactions it lists.

    A subclass returns from ``rows`` what is written of a full buffer, or of the rest.
    """

    def __init__(self, threshold: int, sink: Any) -> None:
        self._threshold = threshold
        self._sink = sink

    def rows(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return what to write for values that leave the buffer together."""
        return values

    def invoke(self, value: Any, context: Any) -> None:
        """Collect a value; write what is full."""
        buffered = self._buffered
        buffered.append(value)
        while len(buffered) >= self._threshold:
            self._write(buffered[: self._threshold], context)
            del buffered[: self._threshold]

    def finish(self) -> None:
        """Write the rest, which is more than one buffer where a rescale has brought several together."""
        buffered = self._buffered
        while buffered:
            self._write(buffered[: self._threshold], None)
            del buffered[: self._threshold]
        self._sink.finish()

    def _write(self, values: Sequence[Any], context: Any) -> None:
        for row in self.rows(values):
            self._sink.invoke(row, context)

    # The buffer in the checkpoint.

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take over the values that fell to this subtask."""
        descriptor = ListStateDescriptor("buffered elements", Types.LONG())
        self._state: OperatorListState = context.get_operator_state_store().get_list_state(descriptor)
        self._buffered: list[Any] = list(self._state.get()) if context.is_restored() else []
        self._sink.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put the values into the state."""
        self._state.update(self._buffered)
        self._sink.snapshot_state(context)

    # What is the inner sink's business.

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        """Pass it on."""
        super().set_runtime_context(runtime_context)
        self._sink.set_runtime_context(runtime_context)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Pass it on."""
        self._sink.open(runtime_context)

    def close(self) -> None:
        """Pass it on."""
        self._sink.close()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Pass it on."""
        self._sink.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Pass it on."""
        self._sink.notify_checkpoint_aborted(checkpoint_id)

    def pending_transactions(self) -> list[Any]:
        """Those of the sink within."""
        pending: list[Any] = self._sink.pending_transactions()
        return pending

    def settle(self, context: FunctionInitializationContext) -> None:
        """Pass it on; the buffer belongs to the tasks."""
        self._sink.settle(context)

    def abort_unlisted(self) -> None:
        """Pass it on."""
        self._sink.abort_unlisted()


def build(env: StreamExecutionEnvironment, io: JobIO, sink: BufferingSink) -> None:
    """Build numbers -> table, dealt out in turn to the subtasks of the sink."""
    numbers = env.from_source(io.source("numbers"), None, "numbers").uid("numbers")
    table = numbers.set_parallelism(io.source_parallelism).rebalance().add_sink(sink)
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)
