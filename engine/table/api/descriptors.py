"""Schemas, descriptors and settings, under PyFlink's names.

A builder keeps the calls that made it (``Built``), so that the planner can repeat them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Self

from onceproof.engine.configuration import Configuration
from onceproof.engine.table.api.recorded import Recorded
from onceproof.engine.table.api.types import DataType, logical_of
from onceproof.engine.table.types import LogicalType


class Built:
    """A value made by a builder: the static call that began it, and the calls that followed."""

    def __init__(self, begin: tuple[str, ...], calls: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        self._begin = begin
        self._calls = tuple(calls)

    def recorded(self) -> Recorded:
        """Return the value as calls for the planner."""
        kind, name, *arguments = self._begin
        value = Recorded({"class": kind, "name": name}, arguments)
        for method, values in (*self._calls, ("build", ())):
            value = Recorded({"on": value, "name": method}, [recorded_form(each) for each in values])
        return value

    def of(self, *methods: str) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the calls of some methods, in order."""
        return [call for call in self._calls if call[0] in methods]


def recorded_form(value: Any) -> Any:
    """Return a descriptor as the calls that made it, and any other value as it is."""
    return value.recorded() if isinstance(value, Built) else value


class Builder:
    """Collects calls."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, tuple[Any, ...]]] = []

    def _add(self, name: str, *arguments: Any) -> Self:
        self._calls.append((name, arguments))
        return self


class Schema(Built):
    """The columns, watermark and key of a table (PyFlink: Schema)."""

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Return the builder of a schema without columns."""
        return Schema.Builder()

    @property
    def physical(self) -> list[tuple[str, LogicalType]]:
        """The columns that a source has to deliver."""
        found = []
        for method, arguments in self._calls:
            if method == "column":
                found.append((arguments[0], logical_of(arguments[1])))
            elif method == "from_fields":
                names, kinds = arguments
                found += [(name, logical_of(kind)) for name, kind in zip(names, kinds, strict=True)]
            elif method == "from_row_data_type":
                row = logical_of(arguments[0])
                found += list(zip(row.names, row.types, strict=True))
        return found

    class Builder(Builder):
        """Collects columns (PyFlink: Schema.Builder)."""

        def from_schema(self, unresolved_schema: Schema) -> Self:
            """Add all of another schema."""
            self._calls += unresolved_schema._calls
            return self

        def from_row_data_type(self, data_type: Any) -> Self:
            """Add the fields of a ROW as columns."""
            return self._add("from_row_data_type", data_type)

        def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[Any]) -> Self:
            """Add columns by names and types."""
            return self._add("from_fields", list(field_names), list(field_data_types))

        def column(self, column_name: str, data_type: Any) -> Self:
            """Add a column."""
            return self._add("column", column_name, data_type)

        def column_by_expression(self, column_name: str, expr: Any) -> Self:
            """Add a computed column."""
            return self._add("column_by_expression", column_name, expr)

        def column_by_metadata(
            self,
            column_name: str,
            data_type: Any,
            metadata_key: str | None = None,
            is_virtual: bool = False,
        ) -> Self:
            """Add a column from the metadata of the connector."""
            return self._add("column_by_metadata", column_name, data_type, metadata_key, is_virtual)

        def watermark(self, column_name: str, watermark_expr: Any) -> Self:
            """Set the time attribute and its watermark."""
            return self._add("watermark", column_name, watermark_expr)

        def primary_key(self, *column_names: str) -> Self:
            """Set the key."""
            return self._add("primary_key", *column_names)

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Self:
            """Set the key and its name."""
            return self._add("primary_key_named", constraint_name, *column_names)

        def build(self) -> Schema:
            """Return the schema."""
            return Schema(("Schema", "new_builder"), self._calls)


class FormatDescriptor(Built):
    """A format and its options (PyFlink: FormatDescriptor)."""

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Return the builder of a format."""
        return FormatDescriptor.Builder(format)

    class Builder(Builder):
        """Collects options (PyFlink: FormatDescriptor.Builder)."""

        def __init__(self, format: str) -> None:
            super().__init__()
            self._format = format

        def option(self, key: Any, value: Any) -> Self:
            """Set an option."""
            return self._add("option", key, value)

        def build(self) -> FormatDescriptor:
            """Return the format."""
            return FormatDescriptor(("FormatDescriptor", "for_format", self._format), self._calls)


class PlainTable(NamedTuple):
    """The columns and options of a table."""

    columns: Sequence[tuple[str, DataType]]
    options: dict[str, str]


class TableDescriptor(Built):
    """Connector, schema and options of a table (PyFlink: TableDescriptor)."""

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Return the builder of a table of a connector."""
        return TableDescriptor.Builder(connector)

    def plain(self) -> PlainTable | None:
        """Return a table that has columns and options alone; None for any other."""
        schemas = [arguments[0] for _, arguments in self.of("schema")]
        if len(self._calls) != len(self.of("schema", "option")) or len(schemas) != 1:
            return None
        columns = schemas[0].of("column")
        if len(columns) != len(schemas[0]._calls):
            return None
        options = {key: str(value) for key, value in [arguments for _, arguments in self.of("option")]}
        kinds = [(name, DataType(logical_of(kind))) for name, kind in [each for _, each in columns]]
        return PlainTable(kinds, {"connector": self._begin[-1], **options})

    class Builder(Builder):
        """Collects what describes a table (PyFlink: TableDescriptor.Builder)."""

        def __init__(self, connector: str) -> None:
            super().__init__()
            self._connector = connector

        def schema(self, schema: Schema) -> Self:
            """Set the schema."""
            return self._add("schema", schema)

        def option(self, key: str, value: Any) -> Self:
            """Set an option."""
            return self._add("option", key, value)

        def format(self, format: Any, format_option: str | None = None) -> Self:
            """Set the format."""
            return self._add("format", format, *(() if format_option is None else (format_option,)))

        def partitioned_by(self, *partition_keys: str) -> Self:
            """Set the columns of partitions."""
            return self._add("partitioned_by", *partition_keys)

        def comment(self, comment: str) -> Self:
            """Set the comment."""
            return self._add("comment", comment)

        def build(self) -> TableDescriptor:
            """Return the descriptor."""
            return TableDescriptor(("TableDescriptor", "for_connector", self._connector), self._calls)


class ChangelogMode:
    """The kinds of changes of a stream (PyFlink: ChangelogMode)."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Return the mode with +I."""
        return ChangelogMode("insert_only")

    @staticmethod
    def upsert() -> ChangelogMode:
        """Return the mode with +I, +U and -D."""
        return ChangelogMode("upsert")

    @staticmethod
    def all() -> ChangelogMode:
        """Return the mode with all kinds."""
        return ChangelogMode("all")

    def recorded(self) -> Recorded:
        """Return the mode as a call for the planner."""
        return Recorded({"class": "ChangelogMode", "name": self.name})


class ExplainDetail(Enum):
    """What a plan is explained with (PyFlink: ExplainDetail)."""

    ESTIMATED_COST = 0
    CHANGELOG_MODE = 1
    JSON_EXECUTION_PLAN = 2
    PLAN_ADVICE = 3


class ResultKind(Enum):
    """What a result is (PyFlink: ResultKind)."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


class SqlDialect(Enum):
    """The dialect of statements (PyFlink: SqlDialect)."""

    DEFAULT = 0
    HIVE = 1


class EnvironmentSettings:
    """The mode and the options of an environment (PyFlink: EnvironmentSettings)."""

    def __init__(self, is_streaming: bool, configuration: Configuration) -> None:
        self._is_streaming = is_streaming
        self._configuration = configuration

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Return the builder of settings."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Return the settings of unbounded tables."""
        return EnvironmentSettings(True, Configuration())

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Return the settings of bounded tables."""
        return EnvironmentSettings(False, Configuration())

    def is_streaming_mode(self) -> bool:
        """Return whether tables are unbounded."""
        return self._is_streaming

    def get_configuration(self) -> Configuration:
        """Return the options."""
        return self._configuration

    class Builder:
        """Collects settings (PyFlink: EnvironmentSettings.Builder)."""

        def __init__(self) -> None:
            self._is_streaming = True
            self._configuration = Configuration()

        def in_streaming_mode(self) -> Self:
            """Have unbounded tables."""
            self._is_streaming = True
            return self

        def in_batch_mode(self) -> Self:
            """Have bounded tables."""
            self._is_streaming = False
            return self

        def with_configuration(self, config: Configuration) -> Self:
            """Set options."""
            self._configuration = config
            return self

        def build(self) -> EnvironmentSettings:
            """Return the settings."""
            return EnvironmentSettings(self._is_streaming, self._configuration)


class TableConfig:
    """The options of an environment (PyFlink: TableConfig)."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def get(self, key: str, default_value: str) -> str:
        """Return an option."""
        return self._options.get(key, default_value)

    def set(self, key: str, value: Any) -> TableConfig:
        """Set an option."""
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def get_local_timezone(self) -> str:
        """Return the time zone of the session."""
        return self.get("table.local-time-zone", "UTC")

    def set_local_timezone(self, timezone_id: str) -> None:
        """Set the time zone of the session."""
        self.set("table.local-time-zone", timezone_id)

    def set_idle_state_retention(self, duration: Any) -> None:
        """Set how long unused state is kept."""
        self.set("table.exec.state.ttl", f"{duration // type(duration)(milliseconds=1)} ms")

    def add_configuration(self, configuration: Configuration) -> None:
        """Add options."""
        self._options.update(configuration.to_dict())

    def get_configuration(self) -> TableConfig:
        """Return the options; setting one there sets it here."""
        return self

    set_string = set
    set_integer = set
    set_boolean = set
    get_string = get

    def to_map(self) -> dict[str, str]:
        """Return all options."""
        return dict(self._options)
