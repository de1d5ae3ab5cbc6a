"""The tables of a program on trial: what stands for those that its connectors would reach.

Rules:

- A source is not connected. Its records are those of the user's sample, of the table itself where it is
  generated or in files, else drawn from the columns.
- A table in which rows are looked up has rows that never change: drawn once from its columns.
- A retracting table sends INSERTs only, unless a sample says otherwise: a part of its changes would be no
  table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from onceproof.engine.connectors.source import Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.table.connectors.console import DiscardingSink
from onceproof.engine.table.connectors.lookups import HeldRows
from onceproof.engine.table.connectors.registry import CONNECTOR, StandIns
from onceproof.engine.table.table_ends import MakeLookup, TableEnd
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.values import INSERT, Row
from onceproof.harness.model.sample_records import MOST_RECORDS
from onceproof.harness.scripts.records import Pool, local_records
from onceproof.harness.scripts.sql.drawn_rows import RowDrawer
from onceproof.harness.scripts.sql.drawn_values import TIMESTAMPS, Constants
from onceproof.harness.scripts.sql.samples import sampled_rows
from onceproof.harness.scripts.sql.sql_ends import SourceTable
from onceproof.harness.scripts.sql.statements import changes_of
from onceproof.harness.scripts.variations import MOST_RECORDS as FIRST_RECORDS

_WITH_NULLS: Final = 24
_LOCAL: Final = ("datagen", "filesystem")
_LOOKED_UP: Final = 12


class TableSource(Source):
    """The source of a table, not connected; of some connectors there is none."""

    def __init__(self, end: TableEnd, own: Source | None) -> None:
        self.end, self.own = end, own
        self.is_bounded = own is not None and own.is_bounded

    def splits(self) -> Sequence[str]:
        """Return none: on trial the splits are those of a scenario."""
        return ()

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        raise NotImplementedError(f"table {self.end.name!r} is on trial, and its splits are the scenario's")

    def identity(self) -> SourceIdentity:
        """Return that of the table's own source."""
        return SourceIdentity(f"table {self.end.name}") if self.own is None else self.own.identity()


class TrialTables(StandIns):
    """Puts sources and lookups without a server to the tables of a program."""

    def source(self, end: TableEnd, made: Source | None) -> Source:
        """Return a source that is replaced later."""
        return TableSource(end, made)

    def sink(self, end: TableEnd) -> Any:
        """Return a sink that is replaced later."""
        return DiscardingSink()

    def lookup(self, end: TableEnd, keys: Sequence[int]) -> MakeLookup:
        """Return lookups of rows that are drawn."""
        return partial(HeldRows, looked_up_rows(end), tuple(keys))


def looked_up_rows(
    end: TableEnd, sample: Path | None = None, constants: Constants = MappingProxyType({})
) -> Sequence[Row]:
    """Return the rows of a table in which rows are looked up: those of a sample, or drawn ones.

    Of rows with the same primary key the last one counts. Some that were drawn are left out, so that not
    every key is found.

    Args:
        sample: a file of rows; None: there is none.
        constants: what the plan compares columns with.
    """
    table = SourceTable(replace(end, options={}))
    rows = (
        [table.change_of(held)[1] for held in _held(table, _LOOKED_UP, constants)]
        if sample is None
        else list(sampled_rows(sample, table))
    )
    if end.primary_key:
        rows = list({tuple([row[place] for place in end.primary_key]): row for row in rows}.values())
    return rows if sample is not None else [row for number, row in enumerate(rows) if number % 3 != 2]


def table_pool(source: TableSource, sample: Path | None, *, has_splits: bool) -> Pool:
    """Return the records of a table. Raises FamilyError.

    Args:
        sample: a file of rows; None: there is none.
        has_splits: whether the source may have several splits.
    """
    mode = changes_of(source.end.options, has_key=bool(source.end.primary_key))["mode"]
    table = SourceTable(replace(source.end, options={"mode": "append" if mode == "retract" else mode}))
    if sample is not None:
        held = [table.held((INSERT, row)) for row in sampled_rows(sample, table)]
        origin = f"of {sample.name}"
    elif source.own is not None and source.end.options.get(CONNECTOR) in _LOCAL:
        table = SourceTable(replace(source.end, options={"mode": mode}))
        found = local_records(source.end.name, source.own) or ()
        held, origin = [table.held(value) for value, _ in found], "of the table itself"
    else:
        # The first records are those of calm runs, which a NULL may fail.
        held = [*_held(table, FIRST_RECORDS, has_nulls=False), *_held(table, _WITH_NULLS)]
        origin = "drawn from the types of its columns"
    held = held[:MOST_RECORDS]
    records: list[Record] = [(table.change_of(each), None) for each in held]
    return Pool(tuple(records), tuple(held), table.change_of, False, has_splits, origin)


def _held(
    table: SourceTable,
    enough: int,
    constants: Constants = MappingProxyType({}),
    *,
    has_nulls: bool = True,
) -> list[Any]:
    """Draw changes, as scenarios hold them; times are never NULL."""
    drawer = RowDrawer(table, TableSettings(), (), constants, False)
    kinds = table.end.type.types
    nulls = [
        column for column in drawer.nullable_columns if has_nulls and kinds[column].root not in TIMESTAMPS
    ]
    held: list[Any] = []
    seed = 0
    while len(held) < enough:
        seed += 1
        for own in drawer.splits(Random(seed), nulls).values():
            held += [value for _, value in own]
    return held[:enough]
