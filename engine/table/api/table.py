"""Tables and what is grouped or windowed of them, under PyFlink's names (pyflink.table.table)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from onceproof.engine.table.api.descriptors import ExplainDetail, recorded_form
from onceproof.engine.table.api.expression import Expression, col
from onceproof.engine.table.api.recorded import Recorded
from onceproof.engine.table.api.result import TableResult, TableSchema
from onceproof.engine.table.api.session import Insert, Session
from onceproof.engine.table.api.udf import UserFunction


class Relation(Recorded):
    """What belongs to an environment and has columns."""

    def __init__(
        self,
        session: Session,
        step: Mapping[str, Any],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(step, arguments, named)
        self._session = session


def _records(name: str, kind: str, takes_rows: bool = False) -> Callable[..., Any]:
    """Return a method that records its call.

    Args:
        name: that of the method.
        kind: the class of what it returns.
        takes_rows: whether a function among the arguments gets all columns as one row.
    """

    def record(self: Relation, *arguments: Any, **named: Any) -> Relation:
        if takes_rows:
            arguments = tuple(
                [each.taking_row() if isinstance(each, UserFunction) else each for each in arguments]
            )
        return _KINDS[kind](self._session, {"on": self, "name": name}, arguments, named)

    record.__name__ = record.__qualname__ = name
    record.__doc__ = f"Record a call of PyFlink's ``{name}``."
    return record


class Table(Relation):
    """A table that a query describes (PyFlink: Table).

    An attribute that is no method is a column.
    """

    select = _records("select", "Table")
    alias = _records("alias", "Table")
    filter = _records("filter", "Table")
    where = _records("where", "Table")
    distinct = _records("distinct", "Table")
    join = _records("join", "Table")
    left_outer_join = _records("left_outer_join", "Table")
    right_outer_join = _records("right_outer_join", "Table")
    full_outer_join = _records("full_outer_join", "Table")
    join_lateral = _records("join_lateral", "Table")
    left_outer_join_lateral = _records("left_outer_join_lateral", "Table")
    minus = _records("minus", "Table")
    minus_all = _records("minus_all", "Table")
    union = _records("union", "Table")
    union_all = _records("union_all", "Table")
    intersect = _records("intersect", "Table")
    intersect_all = _records("intersect_all", "Table")
    order_by = _records("order_by", "Table")
    offset = _records("offset", "Table")
    fetch = _records("fetch", "Table")
    limit = _records("limit", "Table")
    add_columns = _records("add_columns", "Table")
    add_or_replace_columns = _records("add_or_replace_columns", "Table")
    rename_columns = _records("rename_columns", "Table")
    drop_columns = _records("drop_columns", "Table")
    map = _records("map", "Table", takes_rows=True)
    flat_map = _records("flat_map", "Table", takes_rows=True)
    to_changelog = _records("to_changelog", "Table")
    from_changelog = _records("from_changelog", "Table")
    group_by = _records("group_by", "GroupedTable")
    aggregate = _records("aggregate", "AggregatedTable", takes_rows=True)
    flat_aggregate = _records("flat_aggregate", "FlatAggregateTable", takes_rows=True)
    window = _records("window", "GroupWindowedTable")
    over_window = _records("over_window", "OverWindowedTable")

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(f"'Table' object has no attribute {name!r}")
        return col(name)

    def __str__(self) -> str:
        """Name the table, so that it can stand in the text of a statement."""
        return self._session.name_of(self)

    def get_schema(self) -> TableSchema:
        """Return names and types of the columns, as the planner finds them."""
        return TableSchema(self._session.schema_of(self))

    get_resolved_schema = get_schema

    def print_schema(self) -> None:
        """Print names and types of the columns."""
        print(self.get_schema())

    def execute(self) -> TableResult:
        """Run a job that reads the table."""
        return self._session.execute_table(self)

    def to_pandas(self) -> Any:
        """Run a job that reads the table, and return its rows as a DataFrame."""
        import pandas

        names = [name for name, _ in self._session.schema_of(self)]
        with self.execute().collect() as rows:
            return pandas.DataFrame([list(row) for row in rows], columns=names)

    def insert_into(self, table_path_or_descriptor: Any, overwrite: bool = False) -> TablePipeline:
        """Describe that the rows go into a table."""
        return TablePipeline(self._session, self, recorded_form(table_path_or_descriptor))

    def execute_insert(self, table_path_or_descriptor: Any, overwrite: bool = False) -> TableResult:
        """Run a job that writes the rows into a table."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the planner's explanation of the query."""
        return str(self._session.value_of(Recorded({"on": self, "name": "explain"}, extra_details)))

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the planner's explanation of the query."""
        print(self.explain(*extra_details))


class TablePipeline:
    """A table whose rows go into another one (PyFlink: TablePipeline)."""

    def __init__(self, session: Session, table: Table, sink: Any) -> None:
        self._session = session
        self.insert = Insert(table=table, sink=sink)

    def execute(self) -> TableResult:
        """Run the job."""
        return self._session.execute_inserts([self.insert])

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the planner's explanation."""
        return self._session.explain_inserts([self.insert], extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the planner's explanation."""
        print(self.explain(*extra_details))


class GroupedTable(Relation):
    """The groups of a table (PyFlink: GroupedTable)."""

    select = _records("select", "Table")
    aggregate = _records("aggregate", "AggregatedTable", takes_rows=True)
    flat_aggregate = _records("flat_aggregate", "FlatAggregateTable", takes_rows=True)


class GroupWindowedTable(Relation):
    """The windows of a table (PyFlink: GroupWindowedTable)."""

    group_by = _records("group_by", "WindowGroupedTable")


class WindowGroupedTable(Relation):
    """The groups of windows (PyFlink: WindowGroupedTable)."""

    select = _records("select", "Table")
    aggregate = _records("aggregate", "AggregatedTable", takes_rows=True)
    flat_aggregate = _records("flat_aggregate", "FlatAggregateTable", takes_rows=True)


class OverWindowedTable(Relation):
    """A table with windows around its rows (PyFlink: OverWindowedTable)."""

    select = _records("select", "Table")


class AggregatedTable(Relation):
    """A table with the columns of an aggregate function (PyFlink: AggregatedTable)."""

    select = _records("select", "Table")


class FlatAggregateTable(Relation):
    """A table with the rows of a table aggregate function (PyFlink: FlatAggregateTable)."""

    select = _records("select", "Table")


_KINDS: Final[Mapping[str, type[Relation]]] = {
    kind.__name__: kind
    for kind in (
        Table,
        GroupedTable,
        GroupWindowedTable,
        WindowGroupedTable,
        OverWindowedTable,
        AggregatedTable,
        FlatAggregateTable,
    )
}
