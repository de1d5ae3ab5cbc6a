"""Tables as sources of streams, under PyFlink's names (PyFlink: pyflink.table).

There is no SQL and no relational algebra here. A table is described and read as a stream of rows, and its
connector is ``datagen``. That is what PyFlink's examples for streams begin with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.connectors.generated_tables import GeneratedTableSource
from onceproof.engine.graph import InvalidJob
from onceproof.engine.types import TypeInformation

DATAGEN: Final = "datagen"


class Schema:
    """The columns of a table (PyFlink: Schema)."""

    def __init__(self, columns: tuple[tuple[str, TypeInformation], ...]) -> None:
        self.columns = columns

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Return the builder of a schema without columns."""
        return Schema.Builder()

    class Builder:
        """Collects columns."""

        def __init__(self) -> None:
            self._columns: dict[str, TypeInformation] = {}

        def column(self, column_name: str, data_type: TypeInformation) -> Schema.Builder:
            """Add a column; raises InvalidJob for one that is there already."""
            if column_name in self._columns:
                raise InvalidJob(f"the schema has two columns {column_name!r}: give each a name of its own")
            if not isinstance(data_type, TypeInformation):
                raise InvalidJob(
                    f"column {column_name!r} has type {data_type!r}: give one of DataTypes, such as"
                    " DataTypes.INT()"
                )
            self._columns[column_name] = data_type
            return self

        def build(self) -> Schema:
            """Return the schema."""
            return Schema(tuple(self._columns.items()))


class TableDescriptor:
    """Connector, schema and options of a table (PyFlink: TableDescriptor)."""

    def __init__(self, connector: str, schema: Schema | None, options: Mapping[str, str]) -> None:
        self._connector = connector
        self._schema = schema
        self._options = dict(options)

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Return the builder of a table of a connector."""
        return TableDescriptor.Builder(connector)

    def get_schema(self) -> Schema | None:
        """Return the schema, or None."""
        return self._schema

    def get_options(self) -> dict[str, str]:
        """Return the options by key, ``connector`` among them."""
        return {"connector": self._connector, **self._options}

    class Builder:
        """Collects schema and options."""

        def __init__(self, connector: str) -> None:
            self._connector = connector
            self._schema: Schema | None = None
            self._options: dict[str, str] = {}

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the columns."""
            self._schema = schema
            return self

        def option(self, key: str, value: Any) -> TableDescriptor.Builder:
            """Set an option of the connector; the value counts as text."""
            self._options[key] = str(value)
            return self

        def build(self) -> TableDescriptor:
            """Return the description."""
            return TableDescriptor(self._connector, self._schema, self._options)


class Table:
    """A table that ``to_data_stream`` reads (PyFlink: Table)."""

    def __init__(self, source: GeneratedTableSource, name: str) -> None:
        self.source = source
        self.name = name


class StreamTableEnvironment:
    """Describes tables beside the streams of an environment (PyFlink: StreamTableEnvironment)."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        self._environment = environment
        self._tables: dict[str, Table] = {}

    @staticmethod
    def create(stream_execution_environment: StreamExecutionEnvironment) -> StreamTableEnvironment:
        """Return an environment whose tables become streams of ``stream_execution_environment``."""
        return StreamTableEnvironment(stream_execution_environment)

    def create_temporary_table(self, path: str, descriptor: TableDescriptor) -> None:
        """Describe a table under a name.

        Raises:
            InvalidJob: the name is taken, the connector is not ``datagen``, or there are no columns.
            InvalidTable: an option is wrong.
        """
        if path in self._tables:
            raise InvalidJob(f"table {path!r} exists already: give the second one another name")
        options = descriptor.get_options()
        connector = options.pop("connector")
        if connector != DATAGEN:
            raise InvalidJob(
                f"table {path!r} has the connector {connector!r}, and only {DATAGEN!r} makes a table here:"
                " read with a Source instead (from_source)"
            )
        schema = descriptor.get_schema()
        if schema is None or not schema.columns:
            raise InvalidJob(f"table {path!r} has no columns: give its descriptor a schema")
        self._tables[path] = Table(GeneratedTableSource(path, schema.columns, options), path)

    def from_path(self, path: str) -> Table:
        """Return the table of a name; raises InvalidJob if there is none."""
        if path not in self._tables:
            known = ", ".join(map(repr, self._tables)) or "none"
            raise InvalidJob(
                f"there is no table {path!r}: call create_temporary_table first (known: {known})"
            )
        return self._tables[path]

    def to_data_stream(self, table: Table) -> DataStream:
        """Return the stream of the table's rows, whose fields have the names of the columns."""
        source = table.source
        return self._environment.from_source(source, None, table.name, source.row_type)
