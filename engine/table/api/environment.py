"""Environments of tables, under PyFlink's names (pyflink.table.table_environment).

``session.py`` has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.api.table_sources import DATAGEN
from onceproof.engine.connectors.generated_tables import GeneratedTableSource
from onceproof.engine.graph import InvalidJob
from onceproof.engine.table.api.descriptors import (
    ChangelogMode,
    EnvironmentSettings,
    ExplainDetail,
    Schema,
    TableConfig,
    TableDescriptor,
    recorded_form,
)
from onceproof.engine.table.api.elements import changes_of, schema_of
from onceproof.engine.table.api.ends import StreamEnd, ToRow
from onceproof.engine.table.api.recorded import Recorded, first_argument, table_path
from onceproof.engine.table.api.result import CloseableRows, TableResult
from onceproof.engine.table.api.session import Insert, Session
from onceproof.engine.table.api.sql_functions import python_function
from onceproof.engine.table.api.statement_set import StatementSet
from onceproof.engine.table.api.table import Table
from onceproof.engine.table.api.types import DataType, columns_of
from onceproof.engine.table.api.udf import UserFunction
from onceproof.engine.table.values import KIND_OF
from onceproof.engine.types.row import Row

QUERYING: Final = re.compile(r"\s*(\(|SELECT\b|WITH\b|VALUES\b|FROM\b)", re.IGNORECASE)
INSERTING: Final = re.compile(r"\s*(INSERT\b|EXECUTE\s+STATEMENT\s+SET\b)", re.IGNORECASE)
SHOWING: Final = re.compile(r"\s*(SHOW|DESCRIBE|DESC|EXPLAIN)\b", re.IGNORECASE)
PLACE: Final = ("default_catalog", "default_database")


def _declares(name: str, answer: Any = None) -> Callable[..., Any]:
    """Return a method that keeps its call for the planner."""

    def declare(self: TableEnvironment, *arguments: Any, **named: Any) -> Any:
        forms = {key: recorded_form(value) for key, value in named.items()}
        self._session.effect(name, *map(recorded_form, arguments), **forms)
        return answer

    declare.__name__ = declare.__qualname__ = name
    declare.__doc__ = f"Keep a call of PyFlink's ``{name}`` for the planner."
    return declare


def _answers(name: str) -> Callable[..., Any]:
    """Return a method that asks the planner."""

    def ask(self: TableEnvironment) -> Any:
        return self._session.value_of(Recorded({"environment": name}))

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"Ask the planner for PyFlink's ``{name}``."
    return ask


class TableEnvironment:
    """Where tables are declared and queried (PyFlink: TableEnvironment)."""

    def __init__(self, environment: StreamExecutionEnvironment, options: Mapping[str, str]) -> None:
        self._session = Session(environment, options)

    @staticmethod
    def create(environment_settings: Any) -> TableEnvironment:
        """Return an environment with settings or a configuration."""
        return StreamTableEnvironment.create(environment_settings=environment_settings)

    def get_config(self) -> TableConfig:
        """Return the options; setting one there counts for what is planned behind."""
        return self._session.config

    # ---- what is declared

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement: run a query or INSERT as a job, show or explain something, or declare it."""
        statement = stmt.strip().removesuffix(";")
        if QUERYING.match(statement):
            return self.sql_query(statement).execute()
        if INSERTING.match(statement):
            return self._session.execute_inserts([Insert(text=statement)])
        if SHOWING.match(statement):
            answer = self._session.ask({"statement": statement})
            rows = [[answer["text"]]] if "text" in answer else answer["rows"]
            return TableResult([("result", "STRING")], CloseableRows([Row(*row) for row in rows]))
        if (declared := python_function(statement)) is not None:
            name, function, method = declared
            self._register(method, name, function)
        else:
            self._session.effect("execute_sql", statement)
        return TableResult()

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Any, *fields_or_schema: Any
    ) -> None:
        """Name a table, or a stream with its columns."""
        table = table_or_data_stream
        if isinstance(table, DataStream):
            table = self._table_of(table, fields_or_schema, "append", accepts_changes=False)
        self._session.effect("create_temporary_view", view_path, table)

    def create_temporary_table(self, path: str, descriptor: TableDescriptor) -> None:
        """Declare a table by a descriptor."""
        self._session.descriptors[path] = descriptor
        self._session.effect("create_temporary_table", path, recorded_form(descriptor))

    create_table = _declares("create_table")
    drop_temporary_view = _declares("drop_temporary_view", True)
    drop_temporary_table = _declares("drop_temporary_table", True)
    use_catalog = _declares("use_catalog")
    use_database = _declares("use_database")

    # ---- functions

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Register a function under a name that counts everywhere."""
        self._register("create_temporary_system_function", name, function)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Register a function under a path."""
        self._register("create_temporary_function", path, function)

    register_function = create_temporary_system_function

    def _register(self, method: str, name: str, function: Any) -> None:
        if not isinstance(function, UserFunction):
            raise InvalidJob(f"{name!r} is no function of tables: make it one by udf, udtf, udaf or udtaf")
        parts = name.split(".")
        full = ".".join(f"`{part}`" for part in [*PLACE[: 3 - len(parts)], *parts])
        for each in (name, full):
            self._session.functions[each] = function.python
        self._session.effect(method, name, function)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Forget a function."""
        self._session.effect("drop_temporary_system_function", name)
        return self._session.functions.pop(name, None) is not None

    def drop_temporary_function(self, path: str) -> bool:
        """Forget a function."""
        self._session.effect("drop_temporary_function", path)
        return self._session.functions.pop(path, None) is not None

    # ---- tables

    def sql_query(self, query: str) -> Table:
        """Return the table of a query."""
        return Table(self._session, {"environment": "sql_query"}, (query,))

    def from_path(self, path: str) -> Table:
        """Return a declared table."""
        return Table(self._session, {"environment": "from_path"}, (path,))

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return a table by its descriptor."""
        return Table(self._session, {"environment": "from_descriptor"}, (descriptor.recorded(),))

    def from_elements(self, elements: Any, schema: Any = None, verify_schema: bool = True) -> Table:
        """Return the table of rows of the program; their types are inferred unless they are given."""
        rows = list(elements)
        kind = schema_of(rows, schema)
        stream = self._session.environment.from_collection(changes_of(rows, kind))
        name = self._session.new_name("elements")
        self._session.streams[name] = StreamEnd(
            stream, kind, is_row=True, accepts_changes=True, are_changes=True
        )
        columns = (
            Schema.new_builder().from_fields(kind.names, [DataType(each) for each in kind.types]).build()
        )
        return self._declared(name, columns, "append")

    def from_pandas(self, pdf: Any, schema: Any = None, splits_num: int = 1) -> Table:
        """Return the table of the rows of a DataFrame."""
        rows = [[None if value != value else value for value in row] for row in pdf.to_numpy().tolist()]
        return self.from_elements(rows, schema if schema is not None else [str(each) for each in pdf.columns])

    def _declared(self, name: str, schema: Schema, mode: str) -> Table:
        descriptor = TableDescriptor.for_connector("vec").schema(schema).option("mode", mode).build()
        self._session.effect("create_temporary_table", name, descriptor.recorded())
        return self.from_path(name)

    def create_statement_set(self) -> StatementSet:
        """Return an empty set of INSERTs."""
        return StatementSet(self._session)

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Return the planner's explanation of a statement."""
        step = Recorded({"environment": "explain_sql"}, (stmt, *extra_details))
        return str(self._session.value_of(step))

    list_tables = _answers("list_tables")
    list_views = _answers("list_views")
    list_temporary_tables = _answers("list_temporary_tables")
    list_temporary_views = _answers("list_temporary_views")
    list_functions = _answers("list_functions")
    list_user_defined_functions = _answers("list_user_defined_functions")
    list_databases = _answers("list_databases")
    list_catalogs = _answers("list_catalogs")
    get_current_catalog = _answers("get_current_catalog")
    get_current_database = _answers("get_current_database")

    def _table_of(
        self, stream: DataStream, given: Sequence[Any], mode: str, *, accepts_changes: bool
    ) -> Table:
        """Return the table of a stream, with a schema or names of columns."""
        kind = stream.get_type()
        if kind is None:
            raise InvalidJob("the stream has no declared type: give its last operation an output_type")
        row = columns_of(kind)
        is_row = bool(getattr(kind, "fields", ()))
        name = self._session.new_name("stream")
        schema = given[0] if len(given) == 1 and isinstance(given[0], Schema) else None
        names: list[Any] = [] if schema is not None or given == (None,) else list(given)
        fields = [(field.name, DataType(field.type)) for field in row.fields]
        if schema is None or not schema.physical:
            builder = Schema.new_builder()
            builder.from_fields([each for each, _ in fields], [kind for _, kind in fields])
            if schema is not None:
                builder.from_schema(schema)
            schema = builder.build()
        missing = [each for each, _ in schema.physical if each not in row.names]
        if missing:
            raise InvalidJob(f"the stream has no field {missing[0]!r}: it has {', '.join(row.names)}")
        self._session.streams[name] = StreamEnd(stream, row, is_row, accepts_changes)
        table: Table = self._declared(name, schema, mode)
        if names:
            shown = [first_argument(each) if isinstance(each, Recorded) else str(each) for each in names]
            known = set(shown) <= set(row.names)
            table = table.select(*names) if known else table.alias(*shown)
        return table


class StreamTableEnvironment(TableEnvironment):
    """An environment of tables and streams (PyFlink: StreamTableEnvironment)."""

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: Any = None,
    ) -> StreamTableEnvironment:
        """Return the tables of a stream environment, which is made if there is none."""
        settings = environment_settings
        configuration = (
            settings.get_configuration() if isinstance(settings, EnvironmentSettings) else settings
        )
        if isinstance(settings, EnvironmentSettings) and not settings.is_streaming_mode():
            raise InvalidJob(
                "tables in BATCH mode are not supported: use EnvironmentSettings.in_streaming_mode"
            )
        environment = stream_execution_environment
        if environment is None:
            environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        options = {} if configuration is None else configuration.to_dict()
        return StreamTableEnvironment(environment, options)

    def from_data_stream(self, data_stream: DataStream, *fields_or_schema: Any) -> Table:
        """Return the table of a stream of values that are only added."""
        return self._table_of(data_stream, fields_or_schema, "append", accepts_changes=False)

    def from_changelog_stream(
        self,
        data_stream: DataStream,
        schema: Schema | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> Table:
        """Return the table of a stream of changes."""
        modes = {"insert_only": "append", "upsert": "upsert", "all": "retract"}
        mode = modes["all" if changelog_mode is None else changelog_mode.name]
        return self._table_of(data_stream, (schema,), mode, accepts_changes=True)

    def to_data_stream(self, table: Table) -> DataStream:
        """Return the stream of the rows of a table that only adds rows."""
        if (generated := self._generated(table)) is not None:
            return generated
        stream, end = self._session.result_of({"stream": table, "method": "to_data_stream"})
        return stream.map(ToRow(end.type))

    def _generated(self, table: Table) -> DataStream | None:
        """Return the rows of a table of datagen that is read as it is, for which no planner is needed."""
        path = table_path(table)
        descriptor = self._session.descriptors.get(path)
        plain = None if descriptor is None else descriptor.plain()
        if plain is None or plain.options.pop("connector") != DATAGEN:
            return None
        columns = [(name, kind.of_streams()) for name, kind in plain.columns]
        source = GeneratedTableSource(path, columns, plain.options)
        return self._session.environment.from_source(source, None, path, source.row_type)

    def to_changelog_stream(
        self,
        table: Table,
        target_schema: Schema | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> DataStream:
        """Return the stream of the changes of a table, as rows with their kinds."""
        target: dict[str, Any] = {"stream": table, "method": "to_changelog_stream"}
        if target_schema is not None:
            target["schema"] = target_schema.recorded()
        if changelog_mode is not None:
            target["mode"] = changelog_mode.recorded()
            target["sink_mode"] = {"insert_only": "append", "upsert": "upsert", "all": "any"}[
                changelog_mode.name
            ]
        stream, end = self._session.result_of(target)
        return stream.map(ToRow(end.type))

    def to_append_stream(self, table: Table, type_info: Any) -> DataStream:
        """Return the stream of the rows of a table that only adds rows."""
        stream, end = self._session.result_of({"stream": table, "method": "to_append_stream"})
        return stream.map(ToRow(end.type))

    def to_retract_stream(self, table: Table, type_info: Any) -> DataStream:
        """Return the stream of pairs: whether a row is added, and the row."""
        stream, end = self._session.result_of({"table": table})
        return stream.map(ToRow(end.type)).map(_retraction)


def _retraction(row: Row) -> tuple[bool, Row]:
    return row.get_row_kind().value in (KIND_OF["+I"], KIND_OF["+U"]), row
