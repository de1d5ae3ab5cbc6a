"""Environments of tables, under PyFlink's names (pyflink.table.table_environment).

Rules:

- Statements that declare something, views and functions are kept as ``effects``; each request to the planner
  has all of them, and then the table or statement that is asked for. So the planner keeps nothing between two
  requests, and what a statement declares wrongly shows with the first query behind it.
- Streams and rows of the program become declared tables of the connector ``vec``, whose rows the job takes
  from the stream (``ends.py``).
- A query becomes operators of the stream environment of its tables, so streams and tables are one job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.graph import InvalidJob
from onceproof.engine.table.api.descriptors import (
    ChangelogMode,
    EnvironmentSettings,
    ExplainDetail,
    Schema,
    TableConfig,
    TableDescriptor,
)
from onceproof.engine.table.api.elements import changes_of, schema_of
from onceproof.engine.table.api.ends import ProgramTables, StreamEnd, ToRow
from onceproof.engine.table.api.planning import ask_planner
from onceproof.engine.table.api.recorded import Recorded, Steps
from onceproof.engine.table.api.result import CloseableRows, TableResult
from onceproof.engine.table.api.sql_functions import python_function
from onceproof.engine.table.api.statement_set import Insert, StatementSet
from onceproof.engine.table.api.table import Table
from onceproof.engine.table.api.types import DataType, columns_of
from onceproof.engine.table.api.udf import UserFunction
from onceproof.engine.table.planner.service import PlanRequest
from onceproof.engine.table.plans import read_plan
from onceproof.engine.table.settings import TableSettings
from onceproof.engine.table.tables import TableEnd
from onceproof.engine.table.translation import translate
from onceproof.engine.table.user_functions import PythonFunction
from onceproof.engine.table.values import KIND_OF
from onceproof.engine.types.row import Row

QUERYING: Final = re.compile(r"\s*(\(|SELECT\b|WITH\b|VALUES\b|FROM\b)", re.IGNORECASE)
INSERTING: Final = re.compile(r"\s*(INSERT\b|EXECUTE\s+STATEMENT\s+SET\b)", re.IGNORECASE)
SHOWING: Final = re.compile(r"\s*(SHOW|DESCRIBE|DESC|EXPLAIN)\b", re.IGNORECASE)
CATALOG: Final = "default_catalog"
DATABASE: Final = "default_database"


class TableEnvironment:
    """Where tables are declared and queried (PyFlink: TableEnvironment)."""

    def __init__(self, environment: StreamExecutionEnvironment, options: Mapping[str, str]) -> None:
        self._environment = environment
        self._config = TableConfig(options)
        self._effects: list[Recorded] = []
        self._functions: dict[str, PythonFunction] = {}
        self._streams: dict[str, StreamEnd] = {}
        self._numbers: dict[str, int] = {}

    @staticmethod
    def create(environment_settings: Any) -> TableEnvironment:
        """Return an environment with settings or a configuration."""
        return StreamTableEnvironment.create(environment_settings=environment_settings)

    def get_config(self) -> TableConfig:
        """Return the options; setting one there counts for what is planned behind."""
        return self._config

    # ---- what is declared

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute a statement: run a query or INSERT as a job, show or explain something, or declare it."""
        statement = stmt.strip().removesuffix(";")
        if QUERYING.match(statement):
            return self.sql_query(statement).execute()
        if INSERTING.match(statement):
            return self._execute_inserts([Insert(text=statement)])
        if SHOWING.match(statement):
            answer = self._ask({"statement": statement})
            rows = [[answer["text"]]] if "text" in answer else answer["rows"]
            return TableResult([("result", "STRING")], CloseableRows([Row(*row) for row in rows]))
        if (declared := python_function(statement)) is not None:
            name, function, method = declared
            self._register(method, name, function)
        else:
            self._effect("execute_sql", statement)
        return TableResult()

    def _effect(self, name: str, *arguments: Any) -> Recorded:
        step = Recorded({"environment": name}, arguments)
        self._effects.append(step)
        return step

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Any, *fields_or_schema: Any
    ) -> None:
        """Name a table, or a stream with its columns."""
        table = table_or_data_stream
        if isinstance(table, DataStream):
            table = self._table_of(table, fields_or_schema, "append", accepts_changes=False)
        self._effect("create_temporary_view", view_path, table)

    def create_temporary_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = None,  # noqa: N803
    ) -> None:
        """Declare a table by a descriptor."""
        self._effect("create_temporary_table", path, descriptor.recorded())

    def create_table(
        self,
        path: str,
        descriptor: TableDescriptor,
        ignoreIfExists: bool | None = None,  # noqa: N803
    ) -> None:
        """Declare a table by a descriptor."""
        self._effect("create_table", path, descriptor.recorded())

    def drop_temporary_view(self, view_path: str) -> bool:
        """Forget a view."""
        self._effect("drop_temporary_view", view_path)
        return True

    def drop_temporary_table(self, table_path: str) -> bool:
        """Forget a table."""
        self._effect("drop_temporary_table", table_path)
        return True

    def use_catalog(self, catalog_name: str) -> None:
        """Set the catalog of names without one."""
        self._effect("use_catalog", catalog_name)

    def use_database(self, database_name: str) -> None:
        """Set the database of names without one."""
        self._effect("use_database", database_name)

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
        full = ".".join(f"`{part}`" for part in [*(CATALOG, DATABASE)[: 3 - len(parts)], *parts])
        for each in (name, full):
            self._functions[each] = function.python
        self._effect(method, name, function)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Forget a function."""
        self._effect("drop_temporary_system_function", name)
        return self._functions.pop(name, None) is not None

    def drop_temporary_function(self, path: str) -> bool:
        """Forget a function."""
        self._effect("drop_temporary_function", path)
        return self._functions.pop(path, None) is not None

    # ---- tables

    def sql_query(self, query: str) -> Table:
        """Return the table of a query."""
        return Table(self, {"environment": "sql_query"}, (query,))

    def from_path(self, path: str) -> Table:
        """Return a declared table."""
        return Table(self, {"environment": "from_path"}, (path,))

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return a table by its descriptor."""
        return Table(self, {"environment": "from_descriptor"}, (descriptor.recorded(),))

    def from_elements(self, elements: Any, schema: Any = None, verify_schema: bool = True) -> Table:
        """Return the table of rows of the program; their types are inferred unless they are given."""
        rows = list(elements)
        kind = schema_of(rows, schema)
        stream = self._environment.from_collection(changes_of(rows, kind))
        name = self._new_name("elements")
        self._streams[name] = StreamEnd(stream, kind, is_row=True, accepts_changes=True, are_changes=True)
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
        self._effect("create_temporary_table", name, descriptor.recorded())
        return self.from_path(name)

    def _new_name(self, kind: str) -> str:
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return f"{kind}_{number}"

    def _named(self, table: Table) -> str:
        name = self._new_name("unnamed_table")
        self._effect("create_temporary_view", name, table)
        return f"`{name}`"

    def create_statement_set(self) -> StatementSet:
        """Return an empty set of INSERTs."""
        return StatementSet(self)

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Return the planner's explanation of a statement."""
        step = Recorded({"environment": "explain_sql"}, (stmt, *extra_details))
        return str(self._ask({"value": step})["value"])

    def _listed(self, name: str) -> list[str]:
        return list(self._ask({"value": Recorded({"environment": name})})["value"])

    def list_tables(self) -> list[str]:
        """Return the names of tables and views."""
        return self._listed("list_tables")

    def list_views(self) -> list[str]:
        """Return the names of views."""
        return self._listed("list_views")

    def list_temporary_tables(self) -> list[str]:
        """Return the names of temporary tables."""
        return self._listed("list_temporary_tables")

    def list_temporary_views(self) -> list[str]:
        """Return the names of temporary views."""
        return self._listed("list_temporary_views")

    def list_functions(self) -> list[str]:
        """Return the names of all functions."""
        return self._listed("list_functions")

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of the program's functions."""
        return self._listed("list_user_defined_functions")

    def list_databases(self) -> list[str]:
        """Return the names of databases."""
        return self._listed("list_databases")

    def list_catalogs(self) -> list[str]:
        """Return the names of catalogs."""
        return self._listed("list_catalogs")

    def get_current_catalog(self) -> str:
        """Return the catalog of names without one."""
        return str(self._ask({"value": Recorded({"environment": "get_current_catalog"})})["value"])

    def get_current_database(self) -> str:
        """Return the database of names without one."""
        return str(self._ask({"value": Recorded({"environment": "get_current_database"})})["value"])

    # ---- plans and jobs

    def _request(self, target: Mapping[str, Any]) -> tuple[PlanRequest, dict[str, PythonFunction]]:
        steps = Steps()
        for effect in self._effects:
            steps.add(effect)
        form = steps.target(target)
        return PlanRequest(options=self._config.to_map(), calls=steps.steps, target=form), steps.functions

    def _ask(self, target: Mapping[str, Any]) -> Mapping[str, Any]:
        return ask_planner(self._request(target)[0])

    def _translated(self, target: Mapping[str, Any]) -> ProgramTables:
        """Add the operators of a plan to the stream environment."""
        request, functions = self._request(target)
        plan = read_plan(ask_planner(request)["plan"])
        tables = ProgramTables(self._streams)
        called: dict[str, Any] = {**functions, **self._functions}
        settings = TableSettings({"table.local-time-zone": "UTC", **self._config.to_map()}, called)
        translate(plan, tables, self._environment, settings)
        return tables

    def _result_of(self, target: Mapping[str, Any]) -> tuple[DataStream, TableEnd]:
        (result,) = self._translated(target).results
        return result

    def _schema_of(self, table: Table) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind in self._ask({"schema": table})["schema"]]

    def _explain(self, table: Table, details: Sequence[ExplainDetail]) -> str:
        step = Recorded({"on": table, "name": "explain"}, details)
        return str(self._ask({"value": step})["value"])

    def _explain_inserts(self, inserts: Sequence[Insert], details: Sequence[ExplainDetail]) -> str:
        target = {"inserts": _forms(inserts), "explain": [detail.name for detail in details]}
        return str(self._ask(target)["text"])

    def _execute_table(self, table: Table) -> TableResult:
        stream, end = self._result_of({"table": table})
        found = stream.map(ToRow(end.type)).execute_and_collect()
        columns = [(field.name, str(field.type)) for field in end.type.fields]
        return TableResult(columns, CloseableRows(found, getattr(found, "close", None)))

    def _attach(self, inserts: Sequence[Insert]) -> None:
        self._translated({"inserts": _forms(inserts)})

    def _execute_inserts(self, inserts: Sequence[Insert]) -> TableResult:
        self._attach(inserts)
        return TableResult(client=self._environment.execute_async("insert"))

    def _table_of(
        self, stream: DataStream, given: Sequence[Any], mode: str, *, accepts_changes: bool
    ) -> Table:
        """Return the table of a stream, with a schema or names of columns."""
        kind = stream.get_type()
        if kind is None:
            raise InvalidJob("the stream has no declared type: give its last operation an output_type")
        row = columns_of(kind)
        is_row = bool(getattr(kind, "fields", ()))
        name = self._new_name("stream")
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
        self._streams[name] = StreamEnd(stream, row, is_row, accepts_changes)
        table: Table = self._declared(name, schema, mode)
        if names:
            shown = [each._arguments[0] if isinstance(each, Recorded) else str(each) for each in names]
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
        stream, end = self._result_of({"stream": table, "method": "to_data_stream"})
        return stream.map(ToRow(end.type))

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
        stream, end = self._result_of(target)
        return stream.map(ToRow(end.type))

    def to_append_stream(self, table: Table, type_info: Any) -> DataStream:
        """Return the stream of the rows of a table that only adds rows."""
        stream, end = self._result_of({"stream": table, "method": "to_append_stream"})
        return stream.map(ToRow(end.type))

    def to_retract_stream(self, table: Table, type_info: Any) -> DataStream:
        """Return the stream of pairs: whether a row is added, and the row."""
        stream, end = self._result_of({"table": table})
        return stream.map(ToRow(end.type)).map(_retraction)


def _retraction(row: Row) -> tuple[bool, Row]:
    return row.get_row_kind().value in (KIND_OF["+I"], KIND_OF["+U"]), row


def _forms(inserts: Sequence[Insert]) -> list[dict[str, Any]]:
    return [
        {"text": each.text} if each.text else {"table": each.table, "sink": each.sink} for each in inserts
    ]
