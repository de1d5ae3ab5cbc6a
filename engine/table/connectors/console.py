"""The sinks ``print`` and ``blackhole``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from onceproof.engine.functions import SinkFunction
from onceproof.engine.table.connectors.message_types import TimeTexts, row_type_of, to_message
from onceproof.engine.table.connectors.registry import Options, sink
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import (
    INSERT,
    KINDS,
    NANOS_PER_DAY,
    NANOS_PER_MS,
    NANOS_PER_SECOND,
    Change,
    Row,
    time_text,
    timestamp_text,
)
from onceproof.engine.types.java_text import text_of


class JavaTimes(TimeTexts, frozen=True):
    """Times as those of java.time print themselves."""

    def timestamp_text(self, nanos: int) -> str:
        """Return the text of a LocalDateTime."""
        return timestamp_text(nanos, 0)[:11] + _clock(nanos % NANOS_PER_DAY, needs_seconds=False)

    def timestamp_ltz_text(self, nanos: int) -> str:
        """Return the text of an Instant."""
        return f"{timestamp_text(nanos, 0)[:11]}{_clock(nanos % NANOS_PER_DAY, needs_seconds=True)}Z"

    def time_text(self, milliseconds: int) -> str:
        """Return the text of a LocalTime."""
        return _clock(milliseconds * NANOS_PER_MS, needs_seconds=False)


def _clock(nanos: int, *, needs_seconds: bool) -> str:
    """Return a time of day: its fraction has three, six or nine digits, and seconds of 0 may be missing."""
    seconds, fraction = divmod(nanos, NANOS_PER_SECOND)
    text = time_text(seconds * 1000)
    if fraction:
        digits = f"{fraction:09}"
        while digits.endswith("000"):
            digits = digits[:-3]
        return f"{text}.{digits}"
    return text if needs_seconds or seconds % 60 else text[:5]


class PrintSink(SinkFunction):
    """Prints each change, as Flink's connector ``print`` does."""

    def __init__(self, prefix: str, row: LogicalType) -> None:
        self._prefix, self._row = prefix, row
        row_type_of(row)

    def invoke(self, value: Change, context: Any) -> None:
        print(f"{self._prefix}{KINDS[value[0]]}{self._text(value[1])}")

    @cached_property
    def _text(self) -> Callable[[Row], str]:
        """The function from a row to its text behind the kind: ``[1, null]``."""
        values, text = to_message(self._row, JavaTimes()), text_of(row_type_of(self._row))
        return lambda row: text(values(row)).removeprefix(KINDS[INSERT])


class DiscardingSink(SinkFunction):
    """Drops each change."""

    def invoke(self, value: Change, context: Any) -> None:
        pass


@sink("print")
def print_sink(end: TableEnd, options: Options) -> SinkFunction:
    """Print the changes of a table."""
    prefix = options.text("print-identifier", "")
    if options.flag("standard-error"):
        raise options.wrong_value("standard-error", "rows are printed to standard output")
    return PrintSink(f"{prefix}> " if prefix else "", end.type)


@sink("blackhole")
def blackhole_sink(end: TableEnd, options: Options) -> SinkFunction:
    """Drop the changes of a table."""
    return DiscardingSink()
