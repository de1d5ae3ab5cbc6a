"""The sink that prints: for a look at a stream, at least once, in no order between subtasks."""

from __future__ import annotations

import sys
from typing import Any

from onceproof.engine.functions import RuntimeContext, SinkFunction


class PrintSinkFunction(SinkFunction):
    """Writes each value to stdout (Flink: PrintSinkFunction).

    A line begins with the sink identifier, if one is given, and with the number of the subtask, counted from
    1, where there are several: ``totals:2> ('b', 3)``.
    """

    def __init__(self, sink_identifier: str | None = None) -> None:
        self._sink_identifier = sink_identifier
        self._prefix = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Work out what each line begins with."""
        parts = [] if self._sink_identifier is None else [self._sink_identifier]
        if runtime_context.get_number_of_parallel_subtasks() > 1:
            parts.append(str(runtime_context.get_index_of_this_subtask() + 1))
        self._prefix = ":".join(parts) + "> " if parts else ""

    def invoke(self, value: Any, context: Any) -> None:
        """Print one line."""
        sys.stdout.write(f"{self._prefix}{value}\n")

    def invoke_batch(self, values: list[Any]) -> bool:
        """Print a line for each value."""
        prefix = self._prefix
        sys.stdout.write("".join([f"{prefix}{value}\n" for value in values]))
        return True
