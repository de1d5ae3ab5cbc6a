"""The ends of the jobs of programs: streams, results, and the tables of connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.table.connectors.registry import CONNECTOR, lookup_of, sink_of, source_of
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.operators import KEY_TYPE, key_selector
from onceproof.engine.table.python_values import from_python, row_from_python, row_to_python
from onceproof.engine.table.table_ends import MakeLookup, TableEnd
from onceproof.engine.table.types import LogicalType
from onceproof.engine.table.values import INSERT, Change
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
    """Makes a Row of a change; those that a program collects have no names, as in PyFlink."""

    def __init__(self, kind: LogicalType, has_names: bool = True) -> None:
        self._kind, self._has_names = kind, has_names
        self._convert: Any = None

    def __call__(self, change: Change) -> Row:
        if self._convert is None:
            self._convert = row_to_python(self._kind, self._has_names)
        row: Row = self._convert(change[1])
        row.set_row_kind(RowKind(change[0]))
        return row


class ProgramTables:
    """The ends of a plan of a program."""

    def __init__(self, streams: Mapping[str, StreamEnd]) -> None:
        self._streams = streams
        self.results: list[tuple[DataStream, TableEnd]] = []
        """The streams of sinks without a name, which the program reads."""
        self.sinks: list[str] = []
        """The names of the others."""

    def scan(
        self, environment: StreamExecutionEnvironment, table: TableEnd, watermarks: WatermarkStrategy | None
    ) -> DataStream:
        end = self._streams.get(table.name)
        if end is None:
            strategy = WatermarkStrategy.no_watermarks() if watermarks is None else watermarks
            return environment.from_source(source_of(table), strategy, table.name)
        changes = end.stream
        if not end.are_changes:
            changes = changes.map(ToChange(end, table.type)).name(table.name)
        return changes if watermarks is None else changes.assign_timestamps_and_watermarks(watermarks)

    def sink(self, stream: DataStream, table: TableEnd) -> None:
        if table.options.get(CONNECTOR) == "vec" and not table.name:
            self.results.append((stream, table))
            return
        self.sinks.append(table.name)
        made, parallelism = sink_of(table)
        if parallelism is not None and table.primary_key:
            # The changes of a key stay in their order, whatever the parallelism of the query.
            stream = stream.key_by(key_selector(table.primary_key), KEY_TYPE)
        written = stream.sink_to(made) if isinstance(made, Sink) else stream.add_sink(made)
        written.name(table.name)
        if parallelism is not None:
            written.set_parallelism(parallelism)

    def lookup(self, table: TableEnd, keys: Sequence[int]) -> MakeLookup:
        return lookup_of(table, keys)
