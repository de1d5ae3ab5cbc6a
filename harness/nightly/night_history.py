"""The history of nights: Parquet files in a folder or at an address, one per night, each with one row.

The rules this module lives by:

- A night writes one new file, which appears whole (`file_stores.py`). Concurrent and interrupted nights
  therefore leave only complete files.
- Any Parquet reader reads the folder as one table. Nested figures (families, properties, signatures) are
  lists of structs.
- A damaged file is renamed so that Parquet readers ignore it, and reported in one line; it is never deleted.
  A file of a newer onceproof is reported and left as it is.
- A file may come from a stranger: what is no regular file is not opened, and no more is read or unpacked of
  one than a night can have.
- The name of a file ends with the digest of its content, which is compared before the library sees a byte:
  some damaged files end the process inside of it ("terminate called after throwing ParquetException").
- The history keeps a fixed number of nights and deletes the oldest. File names begin with the time of the
  night, so that their order is that of the nights.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from onceproof.harness.campaign.file_stores import store_of
from onceproof.harness.trials.output_files import OutputUnwritable

FORMAT_VERSION: Final = 1
VERSION_KEY: Final = b"onceproof.night.version"
SUFFIX: Final = ".parquet"
_DIGEST_BYTES: Final = 8
_NAME: Final = re.compile(rf".*-([0-9a-f]{{{2 * _DIGEST_BYTES}}}){re.escape(SUFFIX)}")
ASIDE: Final = "_damaged-"
MOST_VALUES: Final = 1_000_000
"""The most values of a night, over all columns."""
MOST_BYTES: Final = 1 << 24
"""Of a file."""
MOST_UNPACKED_BYTES: Final = 1 << 26
"""Of all values, which are compressed in the file."""


class PropertyFigures(msgspec.Struct, frozen=True):
    """In how many scenarios of a family a property held and failed."""

    property: str
    passed: int
    failed: int
    known: int
    """Failed scenarios with a known signature."""


class FamilyFigures(msgspec.Struct, frozen=True):
    """The results of one family."""

    family: str
    scenarios: int
    failed: int
    known: int
    properties: tuple[PropertyFigures, ...]


class SignatureFigures(msgspec.Struct, frozen=True):
    """One signature of a night's failures."""

    family: str
    property: str
    anomaly: str
    scenarios: int
    known: bool
    """The settings list it."""
    new: bool
    """The settings do not list it, and no earlier night of the history had it."""


class RealFigures(msgspec.Struct, frozen=True):
    """The result of one real input, such as the year of flights."""

    name: str
    records: int
    kills: int
    rows_different: int
    failed: bool
    recovery_seconds: float | None
    """Seconds of the longest recovery."""


class NightRow(msgspec.Struct, frozen=True, kw_only=True):
    """One night."""

    started: datetime
    seed: int | None
    revision: str
    status: str
    """The verdict of its report."""
    scenarios: int
    failed: int
    known: int
    """Failed scenarios with a known signature."""
    seconds: float
    """Duration of the campaign."""
    night_seconds: float
    """Duration of the whole night."""
    records_replayed_median: float | None
    """This and the next three cover the scenarios in which the job restarted."""
    records_replayed_percentile_95: float | None
    recovery_steps_median: float | None
    recovery_steps_percentile_95: float | None
    mutants_tried: int
    mutants_killed: int
    families: tuple[FamilyFigures, ...]
    signatures: tuple[SignatureFigures, ...]
    real_inputs: tuple[RealFigures, ...]


_PROPERTY: Final = pa.struct(
    [("property", pa.string()), ("passed", pa.int64()), ("failed", pa.int64()), ("known", pa.int64())]
)
_FAMILY: Final = pa.struct(
    [
        ("family", pa.string()),
        ("scenarios", pa.int64()),
        ("failed", pa.int64()),
        ("known", pa.int64()),
        ("properties", pa.list_(_PROPERTY)),
    ]
)
_SIGNATURE: Final = pa.struct(
    [
        ("family", pa.string()),
        ("property", pa.string()),
        ("anomaly", pa.string()),
        ("scenarios", pa.int64()),
        ("known", pa.bool_()),
        ("new", pa.bool_()),
    ]
)
_REAL: Final = pa.struct(
    [
        ("name", pa.string()),
        ("records", pa.int64()),
        ("kills", pa.int64()),
        ("rows_different", pa.int64()),
        ("failed", pa.bool_()),
        ("recovery_seconds", pa.float64()),
    ]
)

SCHEMA: Final = pa.schema(
    [
        ("started", pa.timestamp("us", "UTC")),
        # A seed may exceed 64 bits.
        ("seed", pa.string()),
        ("revision", pa.string()),
        ("status", pa.string()),
        ("scenarios", pa.int64()),
        ("failed", pa.int64()),
        ("known", pa.int64()),
        ("seconds", pa.float64()),
        ("night_seconds", pa.float64()),
        ("records_replayed_median", pa.float64()),
        ("records_replayed_percentile_95", pa.float64()),
        ("recovery_steps_median", pa.float64()),
        ("recovery_steps_percentile_95", pa.float64()),
        ("mutants_tried", pa.int64()),
        ("mutants_killed", pa.int64()),
        ("families", pa.list_(_FAMILY)),
        ("signatures", pa.list_(_SIGNATURE)),
        ("real_inputs", pa.list_(_REAL)),
    ],
    {VERSION_KEY: str(FORMAT_VERSION).encode()},
)


class _NewerFormat(Exception):
    """A file of a newer format than this onceproof reads."""


class NightHistory:
    """The history of nights in a folder, or at an address that several machines share."""

    def __init__(self, place: Path | str, keep: int, warn: Callable[[str], None]) -> None:
        """Open the history: ``keep`` nights are kept; ``warn`` gets one line for each unreadable file."""
        self._store = store_of(place)
        self.folder = place
        self._keep = keep
        self._warn = warn

    def prepare(self) -> None:
        """Make the folder and check that it is writable. Raises OutputUnwritable.

        Called at the beginning of a night, before any work could be lost.
        """
        try:
            self._store.prepare()
        except OSError as error:
            raise OutputUnwritable(
                f"{self.folder}: the history of nights cannot be written to: {error.strerror or error}"
            ) from None

    def read(self) -> list[NightRow]:
        """Return the nights, the oldest first. Damaged files are renamed and skipped."""
        rows = []
        for name in self._files():
            try:
                rows.append(_night_in(name, self._store.read(name, MOST_BYTES)))
            except FileNotFoundError:
                # A concurrent night has just deleted its oldest file.
                continue
            except _NewerFormat as newer:
                self._warn(f"{self.folder}/{name}: {newer}")
            except (pa.ArrowException, OSError, ValueError) as error:
                self._report_unreadable(name, error)
        return sorted(rows, key=lambda row: row.started)

    def add(self, row: NightRow) -> Path | str:
        """Write a night, delete the oldest ones beyond ``keep``, and return its file. Raises OSError."""
        buffer = pa.BufferOutputStream()
        parquet.write_table(pa.Table.from_pylist([_to_columns(row)], SCHEMA), buffer)
        data = buffer.getvalue().to_pybytes()
        # The random part keeps the names of nights apart that start at the same time.
        name = f"{row.started:%Y%m%dT%H%M%S%fZ}-{os.urandom(4).hex()}-{_new_digest(data).hexdigest()}{SUFFIX}"
        self._store.write(name, data)
        for old in self._files()[: -self._keep]:
            self._store.delete(old)
        return self.folder / name if isinstance(self.folder, Path) else f"{self.folder}/{name}"

    def _files(self) -> list[str]:
        """Return the names of the files of nights, the oldest first."""
        return [name for name in self._store.names() if name.endswith(SUFFIX) and name[0] not in "._"]

    def _report_unreadable(self, name: str, error: Exception) -> None:
        """Report a file that could not be read, and rename it if its content is damaged."""
        reason, path = " ".join(str(error).split()), f"{self.folder}/{name}"
        if isinstance(error, OSError) and error.errno is not None:
            self._warn(f"{path}: cannot be read, the night is skipped: {error.strerror}")
            return
        aside = ASIDE + name
        try:
            self._store.rename(name, aside)
        except OSError as failure:
            self._warn(f"{path}: damaged, and cannot be renamed ({failure.strerror}): {reason}")
        else:
            self._warn(f"{path}: damaged, renamed to {aside}: {reason}")


def _night_in(name: str, data: bytes) -> NightRow:
    """Return the night in a file of the history."""
    # Files of earlier versions have no digest.
    if (named := _NAME.fullmatch(name)) is not None and _new_digest(data).hexdigest() != named[1]:
        raise ValueError("its content has changed since it was written")
    # Read in memory: of a path the library takes an equals sign for a partition.
    content = parquet.ParquetFile(pa.BufferReader(data))
    version = int((content.schema_arrow.metadata or {}).get(VERSION_KEY, b"0"))
    if version > FORMAT_VERSION:
        raise _NewerFormat(
            f"format version {version}, but this onceproof reads up to {FORMAT_VERSION}; the night is skipped"
        )
    # A few bytes can stand for any number of equal values, or for a long one.
    values, unpacked_bytes = _size_of(content)
    if not version or content.metadata.num_rows != 1 or values > MOST_VALUES:
        raise ValueError("a Parquet file, but not one of a night")
    if unpacked_bytes > MOST_UNPACKED_BYTES:
        raise ValueError(f"its values take {unpacked_bytes:,} bytes, and those of a night are few")
    rows = content.read().to_pylist()
    if len(rows) != 1:
        raise ValueError("a Parquet file, but not one of a night")
    night = msgspec.convert(rows[0] | {"seed": _seed(rows[0].get("seed"))}, NightRow)
    if night.started.tzinfo is None:
        raise ValueError("the time of the night has no time zone")
    return night


_new_digest = partial(hashlib.blake2b, digest_size=_DIGEST_BYTES)


def _size_of(content: parquet.ParquetFile) -> tuple[int, int]:
    """Return how many values there are, and how many bytes they take once they are unpacked."""
    groups = [content.metadata.row_group(place) for place in range(content.metadata.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    return sum(each.num_values for each in columns), sum(each.total_uncompressed_size for each in columns)


def _to_columns(row: NightRow) -> dict[str, Any]:
    columns: dict[str, Any] = msgspec.to_builtins(row, builtin_types=(datetime,))
    return columns | {"seed": None if row.seed is None else str(row.seed)}


def _seed(text: str | None) -> int | None:
    return None if text is None else int(text)
