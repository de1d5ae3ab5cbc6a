"""The sink that prints to stdout: at least once, without order between subtasks.

Each buffer is flushed: what waited in this process when a checkpoint completes could be lost with it. Where
stdout cannot be written, because it is closed (`| head -1`) or its disk is full, the job fails for good: no
restart opens it again.
"""

from __future__ import annotations

import sys
from typing import Any

from onceproof.engine.errors import UnrecoverableError, text_of
from onceproof.engine.functions import RuntimeContext, SinkFunction
from onceproof.engine.types.information import TypeInformation
from onceproof.engine.types.java_text import printed_text_of


class PrintSinkFunction(SinkFunction):
    """Writes each value to stdout (Flink: PrintSinkFunction).

    A line begins with the sink identifier, if any, and with the number of the subtask from 1, if there are
    several: ``totals:2> ('b', 3)``. A value of a declared type is written as in Flink: ``totals:2> (b,3)``.

    Args:
        sink_identifier: the start of each line.
        value_type: the declared type of the values; None: there is none.
    """

    def __init__(self, sink_identifier: str | None = None, value_type: TypeInformation | None = None) -> None:
        self._sink_identifier = sink_identifier
        self._value_type = value_type
        self._prefix = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Compute the prefix of the lines, and how values are written."""
        self._text = printed_text_of(self._value_type)
        parts = [] if self._sink_identifier is None else [self._sink_identifier]
        if runtime_context.get_number_of_parallel_subtasks() > 1:
            parts.append(str(runtime_context.get_index_of_this_subtask() + 1))
        self._prefix = ":".join(parts) + "> " if parts else ""

    def invoke(self, value: Any, context: Any) -> None:
        _print(f"{self._prefix}{self._text(value)}\n")

    def invoke_batch(self, values: list[Any]) -> bool:
        prefix, text = self._prefix, self._text
        _print("".join([f"{prefix}{text(value)}\n" for value in values]))
        return True


def _print(lines: str) -> None:
    stdout = sys.stdout
    if stdout is None or stdout.closed:
        raise UnrecoverableError("print: stdout is closed: leave it open, or write to a file sink")
    try:
        stdout.write(lines)
        stdout.flush()
    except BlockingIOError:
        # Another process has made the terminal non-blocking.
        raise
    except OSError as error:
        raise UnrecoverableError(
            f"print: stdout cannot be written ({text_of(error)}): keep what reads it open, or write to a file"
            " sink"
        ) from error
