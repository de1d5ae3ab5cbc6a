"""The end of a chain: values leave the job.

A sink function may take a whole buffer at once (``invoke_batch``); what it does not take so comes one by one.
"""

from __future__ import annotations

from onceproof.engine.elements import Record
from onceproof.engine.functions import SinkFunction
from onceproof.engine.operators.base import FunctionOperator, OperatorContext


class SinkOperator(FunctionOperator):
    """Calls a SinkFunction for every record (Flink: StreamSink)."""

    function: SinkFunction

    def open(self, context: OperatorContext) -> None:
        """As every function operator, and the record's context."""
        super().open(context)
        self._invoke = self.function.invoke
        self._context = SinkFunction.Context(context.clock)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Nothing goes on from a sink."""
        if len(records) > 1 and self.function.invoke_batch([record[0] for record in records]):
            return []
        context = self._context
        invoke = self._invoke
        for value, timestamp in records:
            context._timestamp = timestamp
            invoke(value, context)
        return []

    def finish(self) -> list[Record]:
        """The input has ended."""
        self.function.finish()
        return []
