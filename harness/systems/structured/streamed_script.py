"""A script of Flink SQL as one streaming query of Spark: plain data, which the driver of a run gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct

from onceproof.harness.model.family import Rows
from onceproof.harness.model.history import Row

Mode: TypeAlias = Literal["append", "update", "complete"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
"""All output modes, in the order in which they are tried."""


class StreamedSource(Struct, frozen=True):
    """A table that is read."""

    cells: Sequence[str]
    """The types of the columns c0, c1, ... of its records, in Spark's words."""
    columns: Sequence[tuple[str, str]]
    """By name, what makes its own columns of those."""
    computed: Sequence[tuple[str, str]]
    """By name, all that a query sees, over its own columns."""
    time: str = ""
    """The column of its event time; "": it has none."""
    delay_ms: int = 0
    """By how much its watermark is behind."""


class StreamedView(Struct, frozen=True):
    """A view of the script."""

    name: str
    query: str
    line: int


class StreamedInsert(Struct, frozen=True):
    """What is written into a sink."""

    sink: str
    query: str
    types: Sequence[str]
    is_distinct: bool
    """Whether each of its rows comes once."""
    modes: Sequence[Mode]
    """The output modes in which its rows are the changes of the sink."""
    line: int


class StreamedScript(Struct, frozen=True):
    """A script."""

    path: str
    """As it is shown."""
    sources: Mapping[str, StreamedSource]
    views: Sequence[StreamedView]
    """In the order in which one reads another."""
    inserts: Sequence[StreamedInsert]


class ScriptEnds(Protocol):
    """The ends of a script's query."""

    @property
    def script(self) -> StreamedScript:
        """The query."""

    def changes(
        self, sink: str, before: Iterable[Row], rows: Iterable[Sequence[Any]], *, is_complete: bool
    ) -> Rows:
        """Return the changes by which the rows of a batch reach a sink.

        Args:
            sink: the name of its table.
            before: all rows of the run that the batches before have written.
            rows: those of the batch.
            is_complete: whether they are all rows that the sink should have.
        """
