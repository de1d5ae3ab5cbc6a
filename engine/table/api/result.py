"""What statements return, under PyFlink's names (pyflink.table.table_result)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onceproof.engine.api.job_client import JobClient
from onceproof.engine.table.api.descriptors import ResultKind
from onceproof.engine.table.values import KINDS
from onceproof.engine.types.row import Row


class TableSchema:
    """Names and types of columns (PyFlink: TableSchema)."""

    def __init__(self, columns: Sequence[tuple[str, str]]) -> None:
        self._columns = [tuple(column) for column in columns]

    def get_field_names(self) -> list[str]:
        """Return the names."""
        return [name for name, _ in self._columns]

    get_column_names = get_field_names

    def get_field_data_types(self) -> list[str]:
        """Return the types, as text."""
        return [kind for _, kind in self._columns]

    get_column_data_types = get_field_data_types

    def get_field_count(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __str__(self) -> str:
        columns = ",\n".join(f"  `{name}` {kind}" for name, kind in self._columns)
        return f"(\n{columns}\n)"


class CloseableRows:
    """The rows of a result, in order; a context manager."""

    def __init__(self, rows: Iterable[Row], close: Any = None) -> None:
        self._rows = iter(rows)
        self._close = close

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        return next(self._rows)

    next = __next__

    def __enter__(self) -> CloseableRows:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """End the job, if it is still running."""
        if self._close is not None:
            self._close()


class TableResult:
    """The result of a statement (PyFlink: TableResult).

    Args:
        columns: names and types of its columns.
        rows: iterates over its rows; None: it has none.
        client: the job that was started, if there is one.
    """

    def __init__(
        self,
        columns: Iterable[tuple[str, str]] = (),
        rows: CloseableRows | None = None,
        client: JobClient | None = None,
    ) -> None:
        self._schema = TableSchema(list(columns))
        self._rows = rows
        self._client = client

    def get_job_client(self) -> JobClient | None:
        """Return the job that was started, or None."""
        return self._client

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the job has ended."""
        if self._client is not None:
            self._client.get_job_execution_result().result()

    def get_table_schema(self) -> TableSchema:
        """Return names and types of the columns."""
        return self._schema

    get_resolved_schema = get_table_schema

    def get_result_kind(self) -> ResultKind:
        """Return whether the result has rows."""
        return ResultKind.SUCCESS if self._rows is None else ResultKind.SUCCESS_WITH_CONTENT

    def collect(self) -> CloseableRows:
        """Return the rows, each with its kind."""
        return CloseableRows(()) if self._rows is None else self._rows

    def print(self) -> None:
        """Print the rows as a table; a job has to end before."""
        if self._rows is None:
            print("OK")
            return
        head = ["op", *self._schema.get_field_names()]
        with self.collect() as rows:
            lines = [[KINDS[row.get_row_kind().value], *map(_shown, row)] for row in rows]
        widths = [max(len(line[place]) for line in [head, *lines]) for place in range(len(head))]
        rule = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
        print(rule, _line(head, widths), rule, *[_line(line, widths) for line in lines], rule, sep="\n")
        print(f"{len(lines)} row{'' if len(lines) == 1 else 's'} in set")


def _shown(value: Any) -> str:
    return "<NULL>" if value is None else str(value)


def _line(cells: list[str], widths: list[int]) -> str:
    return f"|{'|'.join(f' {cell:>{width}} ' for cell, width in zip(cells, widths, strict=True))}|"
