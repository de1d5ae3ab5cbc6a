"""The operator of sink functions.

A sink function may take a whole buffer at once with ``invoke_records`` or ``invoke_batch``; otherwise the
operator calls ``invoke`` for each value.
"""

from __future__ import annotations

from typing import Final

from onceproof.engine.elements import Record
from onceproof.engine.functions import CommittingFunction, SinkFunction
from onceproof.engine.operators.base import FunctionOperator, OperatorContext

ATTEMPTS_OF_A_PROCESS: Final = 1_000_000
"""More than a process can make."""


def only_checkpoint_of(attempt: str) -> int:
    """Return the id of the only commit of an attempt without checkpoints, which no other attempt has.

    A target that knows the output of an attempt by a checkpoint would take that of the next one for the same.
    """
    process, _, number = attempt.partition(".")
    return int(process) * ATTEMPTS_OF_A_PROCESS + int(number)


class SinkOperator(FunctionOperator):
    """Calls a SinkFunction for every record (Flink: StreamSink)."""

    function: SinkFunction

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._attempt = context.attempt
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
            only = only_checkpoint_of(self._attempt)
            self.snapshot(only, now)
            self.notify_checkpoint_complete(only)
