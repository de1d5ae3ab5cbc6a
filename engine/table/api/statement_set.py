"""Several INSERTs as one job, under PyFlink's names (pyflink.table.statement_set)."""

from __future__ import annotations

from typing import Any

from onceproof.engine.table.api.descriptors import ExplainDetail, recorded_form
from onceproof.engine.table.api.result import TableResult
from onceproof.engine.table.api.session import Insert, Session
from onceproof.engine.table.api.table import Table, TablePipeline


class StatementSet:
    """INSERTs that run as one job (PyFlink: StatementSet)."""

    def __init__(self, session: Session) -> None:
        self._session = session
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
        self._inserts.append(Insert(table=table, sink=recorded_form(target_path_or_descriptor)))
        return self

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the planner's explanation."""
        return self._session.explain_inserts(self._inserts, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the planner's explanation."""
        print(self.explain(*extra_details))

    def execute(self) -> TableResult:
        """Run the job, and forget the INSERTs."""
        inserts, self._inserts = self._inserts, []
        return self._session.execute_inserts(inserts)

    def attach_as_datastream(self) -> None:
        """Add the INSERTs to the job of the stream environment, and forget them."""
        inserts, self._inserts = self._inserts, []
        self._session.attach(inserts)
