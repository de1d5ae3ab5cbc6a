"""A file of trials: written whole, acknowledged by its task, and verified whenever it is read.

A task writes one Parquet file, whatever families it has run: their rows follow one another. Outcomes have the
same columns for all; columns whose type differs by family have its place in their names, and null in the rows
of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from onceproof.harness.campaign.file_stores import FileStore
from onceproof.harness.campaign.trial_tables import COLUMNS_OF_A_FAMILY
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.reports.text import counted

WRITTEN: Final = pa.struct(
    [
        ("name", pa.string()),
        ("place", pa.int64()),
        ("first", pa.int64()),
        ("rows", pa.int64()),
        ("digest", pa.string()),
    ]
)
"""The fields of WrittenFile."""


class WrittenFile(msgspec.Struct, frozen=True):
    """The trials of one family in a file, as their task acknowledged them."""

    name: str
    place: int
    """The place of the family in the campaign."""
    first: int
    """The number of their first row, counted from 0; they follow one another."""
    rows: int
    digest: str
    """That of the whole file."""


class TrialsLost(Exception):
    """Trials that were written are not there, or are not those that were written; the message is one line."""


def digest_of(data: bytes) -> str:
    """Return the digest by which a file of trials is acknowledged."""
    return blake2b(data, digest_size=16).hexdigest()


def written_files(folder: FileStore, tables: Mapping[int, pa.Table]) -> list[WrittenFile]:
    """Write the trials of families, by their places, to a new file.

    Returns:
        What is acknowledged of it, by family. Raises OutputUnwritable.
    """
    named = [
        table.rename_columns([_name_in_file(name, place) for name in table.column_names])
        for place, table in tables.items()
    ]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.concat_tables(named, promote_options="default"), sink)
    data: bytes = sink.getvalue().to_pybytes()
    digest = digest_of(data)
    # Named by its content: no attempt of a task replaces what another one has acknowledged, and a damaged
    # file is known without its acknowledgement.
    name = f"part-{named[0].column('scenario_id')[0].as_py():08d}-{digest}.parquet"
    try:
        folder.write(name, data)
    except OSError as error:
        raise unwritable(folder.place, error) from None
    firsts = accumulate([table.num_rows for table in named], initial=0)
    return [
        WrittenFile(name, place, first, table.num_rows, digest)
        for (place, table), first in zip(tables.items(), firsts, strict=False)
    ]


def _name_in_file(column: str, place: int) -> str:
    return f"{column}_{place}" if column in COLUMNS_OF_A_FAMILY else column


def unwritable(place: str, error: OSError) -> OutputUnwritable:
    """Return the error for a store that cannot be written to."""
    return OutputUnwritable(f"{place}: cannot be written to: {error.strerror or error}")


def verified_table(folder: FileStore, written: WrittenFile, columns: Sequence[str]) -> pa.Table:
    """Return some columns of the trials of a family that were acknowledged.

    Raises:
        TrialsLost: it is gone, or has another content.
    """
    place = f"{folder.place}/{written.name}"
    try:
        data = folder.read(written.name)
    except FileNotFoundError:
        raise TrialsLost(
            f"{place}: was written and is gone; its {counted(written.rows, 'scenario')} cannot be judged:"
            " repeat the command, which runs them again; executors on several machines need a --store that"
            " all of them reach"
        ) from None
    except (OSError, ValueError) as error:
        raise TrialsLost(f"{place}: cannot be read: {' '.join(str(error).split())}") from None
    if digest_of(data) != written.digest:
        raise TrialsLost(
            f"{place}: is not the file that was written; its {counted(written.rows, 'scenario')} cannot be"
            " judged: delete it and repeat the command, which runs them again"
        )
    names = [_name_in_file(column, written.place) for column in columns]
    table: pa.Table = parquet.read_table(pa.BufferReader(data), columns=names)
    return table.select(names).rename_columns(list(columns)).slice(written.first, written.rows)
