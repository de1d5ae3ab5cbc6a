"""The ends of a job of tables: what a plan says of its sources and sinks, and who supplies them.

A translation asks its ``Tables`` for the stream of each source and hands it the stream of each sink. So a
job, the harness and the tests put different ends to the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.table.plans import Node
from onceproof.engine.table.types import Field, LogicalType, read_type
from onceproof.engine.table.values import KIND_OF
from onceproof.engine.watermarks.strategy import WatermarkStrategy

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


def source_end(node: Node) -> TableEnd:
    """Return what a scan says of its table."""
    return _end(node.attributes["scanTableSource"]["table"], node.output)


def sink_end(node: Node) -> TableEnd:
    """Return what a sink says of its table."""
    table = node.attributes["dynamicTableSink"]["table"]
    kinds = tuple([KIND_OF[_KINDS[kind]] for kind in node.attributes["inputChangelogMode"]])
    upsert_key = node.attributes.get("inputUpsertKey")
    end = _end(table, None)
    return TableEnd(
        end.name,
        end.identifier,
        end.type,
        end.options,
        end.primary_key,
        kinds,
        None if upsert_key is None else tuple(upsert_key),
    )


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
    )
