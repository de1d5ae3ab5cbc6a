"""A file of trials: written whole, acknowledged by its task, and verified whenever it is read."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from onceproof.harness.campaign.file_stores import FileStore
from onceproof.harness.trials.output_files import OutputUnwritable
from onceproof.reports.text import counted

WRITTEN: Final = pa.struct([("name", pa.string()), ("rows", pa.int64()), ("digest", pa.string())])
"""The fields of WrittenFile."""


class WrittenFile(msgspec.Struct, frozen=True):
    """A file of trials, as its task acknowledged it."""

    name: str
    rows: int
    digest: str


class TrialsLost(Exception):
    """Trials that were written are not there, or are not those that were written; the message is one line."""


def digest_of(data: bytes) -> str:
    """Return the digest by which a file of trials is acknowledged."""
    return blake2b(data, digest_size=16).hexdigest()


def written_file(folder: FileStore, table: pa.Table) -> WrittenFile:
    """Write trials to a new file, and return what is acknowledged of it. Raises OutputUnwritable."""
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    data: bytes = sink.getvalue().to_pybytes()
    digest = digest_of(data)
    # Named by its content: no attempt of a task replaces what another one has acknowledged, and a damaged
    # file is known without its acknowledgement.
    name = f"part-{table.column('scenario_id')[0].as_py():08d}-{digest}.parquet"
    try:
        folder.write(name, data)
    except OSError as error:
        raise unwritable(folder.place, error) from None
    return WrittenFile(name, table.num_rows, digest)


def unwritable(place: str, error: OSError) -> OutputUnwritable:
    """Return the error for a store that cannot be written to."""
    return OutputUnwritable(f"{place}: cannot be written to: {error.strerror or error}")


def verified_table(folder: FileStore, written: WrittenFile, columns: Sequence[str]) -> pa.Table:
    """Return some columns of a file that was acknowledged.

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
    table: pa.Table = parquet.read_table(pa.BufferReader(data), columns=list(columns))
    return table
