"""The ends of a job of tables: what a plan says of its sources and sinks, and who supplies them.

A translation asks its ``Tables`` for the stream of each source and hands it the stream of each sink. So a
job, the harness and the tests put different ends to the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.table.plans import Node
from onceproof.engine.table.types import Field, LogicalType, read_type
from onceproof.engine.table.values import KIND_OF, Row
from onceproof.engine.watermarks.strategy import WatermarkStrategy

READING_METADATA: Final = "ReadingMetadata"
WRITING_METADATA: Final = "WritingMetadata"
"""The abilities of sources and sinks that say which metadata they have."""
_KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}


class TableEnd(Struct, frozen=True):
    """A table at an end of a job."""

    name: str
    """The last part of its identifier; "" of a sink without a name."""
    identifier: str
    """Catalog, database and name as the plan quotes them."""
    type: LogicalType
    """The ROW that the job reads or writes."""
    options: Mapping[str, str]
    """Those of WITH."""
    primary_key: tuple[int, ...] = ()
    """The columns of its primary key."""
    changes: tuple[int, ...] = (0,)
    """The kinds of changes that reach a sink."""
    upsert_key: tuple[int, ...] | None = None
    """Of a sink: columns by which the query's changes are keyed, if it has such."""
    metadata: tuple[str, ...] = ()
    """The keys of the metadata that the last columns hold."""
    partition_keys: tuple[str, ...] = ()
    """The columns of PARTITIONED BY."""

    @property
    def columns(self) -> LogicalType:
        """The ROW without metadata."""
        return replace(self.type, fields=self.type.fields[: len(self.type.fields) - len(self.metadata)])


class Tables(Protocol):
    """Supplies the ends of a job."""

    def scan(
        self,
        environment: StreamExecutionEnvironment,
        table: TableEnd,
        watermarks: WatermarkStrategy | None,
    ) -> DataStream:
        """Return the stream of the changes of a table.

        Args:
            environment: where the source is to be added.
            table: what the plan says of it; its type has the columns to read.
            watermarks: what the plan pushed into the source, to be applied for each split; None: nothing.
        """
        ...

    def sink(self, stream: DataStream, table: TableEnd) -> None:
        """Write a stream of changes into a table."""
        ...

    def lookup(self, table: TableEnd, keys: Sequence[int]) -> MakeLookup:
        """Return what makes lookups of the rows of a table.

        Args:
            table: what the plan says of it.
            keys: the columns by which rows are looked up.
        """
        ...


class Lookup(Protocol):
    """Finds the rows of a table by key, for one subtask."""

    def open(self) -> None:
        """Connect; called before the first row."""

    def rows(self, key: Row) -> Sequence[Row]:
        """Return the rows whose key columns have these values, none of them NULL."""
        ...

    def close(self) -> None:
        """End the connection."""


MakeLookup: TypeAlias = Callable[[], Lookup]
"""Makes the lookup of a subtask; it is sent to the processes of the job."""


def source_end(node: Node) -> TableEnd:
    """Return what a scan says of its table."""
    source = node.attributes["scanTableSource"]
    return replace(_end(source["table"], node.output), metadata=_metadata(source, READING_METADATA))


def lookup_end(node: Node) -> TableEnd:
    """Return what a lookup join says of the table that it looks rows up in."""
    table = node.attributes["temporalTable"]
    return _end(table["lookupTableSource"]["table"], read_type(table["outputType"]))


def sink_end(node: Node) -> TableEnd:
    """Return what a sink says of its table."""
    sink = node.attributes["dynamicTableSink"]
    written = [each for each in sink.get("abilities", ()) if each["type"] == WRITING_METADATA]
    kinds = tuple([KIND_OF[_KINDS[kind]] for kind in node.attributes["inputChangelogMode"]])
    upsert_key = node.attributes.get("inputUpsertKey")
    end = _end(sink["table"], read_type(written[0]["consumedType"]) if written else None)
    return replace(
        end,
        changes=kinds,
        upsert_key=None if upsert_key is None else tuple(upsert_key),
        metadata=_metadata(sink, WRITING_METADATA),
    )


def _metadata(end: Mapping[str, Any], ability: str) -> tuple[str, ...]:
    """Return the metadata that a source or sink has beside its columns, in their order."""
    for each in end.get("abilities", ()):
        if each["type"] == ability:
            return tuple(each["metadataKeys"])
    return ()


def _end(table: Mapping[str, Any], row: LogicalType | None) -> TableEnd:
    resolved = table.get("resolvedTable", {})
    schema = resolved.get("schema", {})
    fields = [
        Field(column["name"], read_type(column["dataType"]))
        for column in schema.get("columns", ())
        if column.get("kind", "PHYSICAL") == "PHYSICAL" or column.get("isVirtual") is False
    ]
    declared = LogicalType("ROW", fields=tuple(fields))
    names = declared.names if row is None else row.names
    key = schema.get("primaryKey", {}).get("columns", ())
    identifier = table.get("identifier", "")
    return TableEnd(
        identifier.rpartition(".`")[2].removesuffix("`"),
        identifier,
        declared if row is None else row,
        resolved.get("options", {}),
        tuple([names.index(each) for each in key if each in names]),
        partition_keys=tuple(resolved.get("partitionKeys", ())),
    )
