"""The operator of sink functions.

A sink function may take a whole buffer at once with ``invoke_records`` or ``invoke_batch``; otherwise the
operator calls ``invoke`` for each value.
"""

from __future__ import annotations

from onceproof.engine.elements import Record
from onceproof.engine.functions import CommittingFunction, SinkFunction
from onceproof.engine.operators.base import FunctionOperator, OperatorContext


class SinkOperator(FunctionOperator):
    """Calls a SinkFunction for every record (Flink: StreamSink)."""

    function: SinkFunction

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._invoke = self.function.invoke
        self._context = SinkFunction.Context(context.clock)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Pass the values to the function; a sink emits nothing."""
        if len(records) > 1 and self.function.invoke_records(records):
            return []
        context = self._context
        invoke = self._invoke
        for value, timestamp in records:
            context.element_timestamp = timestamp
            invoke(value, context)
        return []

    def finish(self) -> list[Record]:
        self.function.finish()
        return []

    def stop_with(self, checkpoint_id: int) -> None:
        if isinstance(self.function, CommittingFunction):
            self.function.stop_with(checkpoint_id)

    def transaction_counts(self) -> tuple[int, int] | None:
        function = self.function
        return function.transaction_counts() if isinstance(function, CommittingFunction) else None

    def commit_without_checkpoints(self, now: int) -> None:
        """Let a committing function commit as if its only checkpoint were complete."""
        if isinstance(self.function, CommittingFunction):
            self.snapshot(1, now)
            self.notify_checkpoint_complete(1)
