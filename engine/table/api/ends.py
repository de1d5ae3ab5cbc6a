"""The ends of the jobs of programs: streams, results, and the connectors that the engine has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.functions import SinkFunction
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.python_values import from_python, row_from_python, row_to_python
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import INSERT, KINDS, Change, row_encoder
from onceproof.engine.types.row import Row
from onceproof.engine.types.row_kind import RowKind
from onceproof.engine.watermarks.strategy import WatermarkStrategy

KIND_NAMES: Final = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
CONVERSION_EXCEPTION: Final = "org.apache.flink.util.FlinkRuntimeException"


class StreamEnd(NamedTuple):
    """A stream that is read as a table."""

    stream: DataStream
    row: LogicalType
    """The columns that the stream has, in its order."""
    is_row: bool
    """Whether its values are rows, and not the one column."""
    accepts_changes: bool
    """Whether its rows may be other changes than +I."""
    are_changes: bool = False
    """Whether its values are changes already."""


class ToChange:
    """Makes a change of a value of a stream."""

    def __init__(self, end: StreamEnd, wanted: LogicalType) -> None:
        self._end_is_row, self._accepts_changes = end.is_row, end.accepts_changes
        self._wanted, self._given = wanted, end.row
        self._convert: Any = None

    def __call__(self, value: Any) -> Change:
        if self._convert is None:
            # Made where it is called, because closures are not sent to other processes.
            self._convert = self._converter()
        kind = value.get_row_kind().value if isinstance(value, Row) else INSERT
        if kind != INSERT and not self._accepts_changes:
            raise FunctionFailed(
                "Error during input conversion. Conversion expects insert-only records but DataStream API"
                f" record contains: {KIND_NAMES[kind]}",
                CONVERSION_EXCEPTION,
            )
        return kind, self._convert(value)

    def _converter(self) -> Any:
        if not self._end_is_row:
            (kind,) = self._given.types
            convert = from_python(kind)
            return lambda value: (convert(value),)
        convert = row_from_python(self._given)
        places = [self._given.names.index(name) for name in self._wanted.names]
        if places == list(range(len(self._given.names))):
            return convert

        def select(value: Any) -> tuple[Any, ...]:
            row = convert(value)
            return tuple([row[place] for place in places])

        return select


class ToRow:
    """Makes a Row of a change."""

    def __init__(self, kind: LogicalType) -> None:
        self._kind = kind
        self._convert: Any = None

    def __call__(self, change: Change) -> Row:
        if self._convert is None:
            self._convert = row_to_python(self._kind)
        row: Row = self._convert(change[1])
        row.set_row_kind(RowKind(change[0]))
        return row


class PrintSink(SinkFunction):
    """Prints each change, as Flink's connector ``print`` does."""

    def __init__(self, prefix: str, kind: LogicalType) -> None:
        self._prefix, self._kind = prefix, kind

    def invoke(self, value: Change, context: Any) -> None:
        shown = ", ".join(str(each) for each in row_encoder(self._kind)(value[1]))
        print(f"{self._prefix}{KINDS[value[0]]}[{shown}]")


class DiscardingSink(SinkFunction):
    """Drops each change (Flink: the connector ``blackhole``)."""

    def invoke(self, value: Change, context: Any) -> None:
        pass


class ProgramTables:
    """The ends of a plan of a program."""

    def __init__(self, streams: Mapping[str, StreamEnd]) -> None:
        self._streams = streams
        self.results: list[tuple[DataStream, TableEnd]] = []
        """The streams of sinks without a name, which the program reads."""

    def scan(
        self, environment: StreamExecutionEnvironment, table: TableEnd, watermarks: WatermarkStrategy | None
    ) -> DataStream:
        end = self._streams.get(table.name)
        if end is None:
            raise UnsupportedPlan(f"a source of the connector {table.options.get('connector')}", table.name)
        changes = end.stream
        if not end.are_changes:
            changes = changes.map(ToChange(end, table.type)).name(table.name)
        return changes if watermarks is None else changes.assign_timestamps_and_watermarks(watermarks)

    def sink(self, stream: DataStream, table: TableEnd) -> None:
        connector = table.options.get("connector")
        if connector == "vec" and not table.name:
            self.results.append((stream, table))
        elif connector == "print":
            prefix = table.options.get("print-identifier", "")
            stream.add_sink(PrintSink(f"{prefix}> " if prefix else "", table.type)).name(table.name)
        elif connector == "blackhole":
            stream.add_sink(DiscardingSink()).name(table.name)
        else:
            raise UnsupportedPlan(f"a sink of the connector {connector}", table.name)
