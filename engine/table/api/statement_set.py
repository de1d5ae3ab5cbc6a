"""Several INSERTs as one job, under PyFlink's names (pyflink.table.statement_set)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from onceproof.engine.table.api.descriptors import ExplainDetail
from onceproof.engine.table.api.table import Table, _sink

if TYPE_CHECKING:
    from onceproof.engine.table.api.environment import TableEnvironment
    from onceproof.engine.table.api.result import TableResult


class Insert(Struct, frozen=True):
    """An INSERT: its text, or a table and where its rows go."""

    text: str = ""
    table: Any = None
    sink: Any = None


class TablePipeline:
    """A table whose rows go into another one (PyFlink: TablePipeline)."""

    def __init__(self, environment: TableEnvironment, table: Table, sink: Any) -> None:
        self._environment = environment
        self.insert = Insert(table=table, sink=sink)

    def execute(self) -> TableResult:
        """Run the job."""
        return self._environment._execute_inserts([self.insert])

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the planner's explanation."""
        return self._environment._explain_inserts([self.insert], extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the planner's explanation."""
        print(self.explain(*extra_details))


class StatementSet:
    """INSERTs that run as one job (PyFlink: StatementSet)."""

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._inserts: list[Insert] = []

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Add a table and its sink."""
        self._inserts.append(table_pipeline.insert)
        return self

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT."""
        self._inserts.append(Insert(text=stmt))
        return self

    def add_insert(
        self, target_path_or_descriptor: Any, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Add a table and its sink."""
        self._inserts.append(Insert(table=table, sink=_sink(target_path_or_descriptor)))
        return self

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the planner's explanation."""
        return self._environment._explain_inserts(self._inserts, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the planner's explanation."""
        print(self.explain(*extra_details))

    def execute(self) -> TableResult:
        """Run the job, and forget the INSERTs."""
        inserts, self._inserts = self._inserts, []
        return self._environment._execute_inserts(inserts)

    def attach_as_datastream(self) -> None:
        """Add the INSERTs to the job of the stream environment, and forget them."""
        inserts, self._inserts = self._inserts, []
        self._environment._attach(inserts)
