"""A sink that buffers elements in operator state, shared by ``buffered_sink`` and ``pairs``.

The buffer is a list state of the operator, so a rescale deals its elements out over the new subtasks,
whichever subtask collected them. A full buffer is written to a transactional sink. The rest is written at the
end of the input: otherwise the checkers would report rows that are held back as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onceproof.engine.functions import FunctionInitializationContext, FunctionSnapshotContext
from onceproof.engine.state.descriptors import ListStateDescriptor
from onceproof.engine.types import TypeInformation, Types
from onceproof.scenarios._sink_around import SinkAround

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.state.operator import OperatorListState
    from onceproof.harness.model.family import JobIO

MOST_SUBTASKS = 4
"""The greatest number of subtasks of a buffering sink in any scenario. Each may hold back a partial
buffer."""


class BufferingSink(SinkAround):
    """Collects values and writes them to an inner sink, ``threshold`` at a time.

    A subclass overrides ``rows`` to say what is written for the values of a buffer.
    """

    def __init__(self, threshold: int, sink: Any, value_type: TypeInformation | None = None) -> None:
        super().__init__(sink)
        self._threshold = threshold
        self._value_type = value_type or Types.LONG()

    def rows(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the rows to write for values that leave the buffer together."""
        return values

    def invoke(self, value: Any, context: Any) -> None:
        """Collect a value and write each full buffer."""
        buffered = self._buffered
        buffered.append(value)
        while len(buffered) >= self._threshold:
            self._write(buffered[: self._threshold], context)
            del buffered[: self._threshold]

    def finish(self) -> None:
        """Write the rest; after a rescale it may be more than one buffer."""
        buffered = self._buffered
        while buffered:
            self._write(buffered[: self._threshold], None)
            del buffered[: self._threshold]
        super().finish()

    def _write(self, values: Sequence[Any], context: Any) -> None:
        for row in self.rows(values):
            self._sink.invoke(row, context)

    # The buffer in the checkpoint.

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take the restored values that were dealt to this subtask."""
        self._state = self._state_in(context)
        self._buffered: list[Any] = self._restored(context) if context.is_restored() else []
        super().initialize_state(context)

    def _state_in(self, context: FunctionInitializationContext) -> OperatorListState:
        descriptor = ListStateDescriptor("buffered elements", self._value_type)
        return context.get_operator_state_store().get_list_state(descriptor)

    def _restored(self, context: FunctionInitializationContext) -> list[Any]:
        return list(self._state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._buffered)
        super().snapshot_state(context)


class SharingSink(BufferingSink):
    """A buffering sink whose buffer is a union list state: each subtask is given the elements of all.

    It keeps those that are its own by their text, so each element goes to one subtask at any parallelism.
    """

    def _state_in(self, context: FunctionInitializationContext) -> OperatorListState:
        descriptor = ListStateDescriptor("shared elements", self._value_type)
        return context.get_operator_state_store().get_union_list_state(descriptor)

    def _restored(self, context: FunctionInitializationContext) -> list[Any]:
        runtime = self.get_runtime_context()
        subtasks = runtime.get_number_of_parallel_subtasks()
        own = runtime.get_index_of_this_subtask()
        return [each for each in self._state.get() if sum(map(ord, repr(each))) % subtasks == own]


def build(env: StreamExecutionEnvironment, io: JobIO, sink: BufferingSink) -> None:
    """Build numbers -> table; the source deals numbers out in turn to the subtasks of the sink."""
    numbers = env.from_source(io.source("numbers"), None, "numbers").uid("numbers")
    table = numbers.set_parallelism(io.source_parallelism).rebalance().add_sink(sink)
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)
