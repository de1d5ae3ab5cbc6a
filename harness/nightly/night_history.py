"""The history of nights: a folder of Parquet files, one for each night, each with one row.

The rules this module lives by:

- A night adds a file of its own and touches no other's. It is written beside its name, made durable and then
  renamed, so nights that end at the same time, or in the middle of writing, leave whole files only.
- Any tool reads the folder as one table: what is nested (families, properties, signatures) is lists of
  structs.
- A file that holds no night is set aside under a name that readers of Parquet pass over, and told in one
  line, never deleted: the other nights are there all the same. One of a newer onceproof is told and left.
- Only so many nights are kept; the oldest go first. A file's name begins with the night's time, so that the
  order of the names is that of the nights.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import parquet

from onceproof.harness.trials.runner import OutputUnwritable

FORMAT_VERSION: Final = 1
VERSION_KEY: Final = b"onceproof.night.version"
SUFFIX: Final = ".parquet"
ASIDE: Final = "_damaged-"


class PropertyFigures(msgspec.Struct, frozen=True):
    """How often one property held and failed in one family."""

    property: str
    passed: int
    failed: int
    known: int
    """How many of those that failed did so with a known signature."""


class FamilyFigures(msgspec.Struct, frozen=True):
    """What became of one family."""

    family: str
    scenarios: int
    failed: int
    known: int
    properties: tuple[PropertyFigures, ...]


class SignatureFigures(msgspec.Struct, frozen=True):
    """One way in which a night failed."""

    family: str
    property: str
    anomaly: str
    scenarios: int
    known: bool
    """The settings listed it."""
    new: bool
    """They did not, and no night that was kept then had it."""


class RealFigures(msgspec.Struct, frozen=True):
    """What became of one real input."""

    name: str
    records: int
    kills: int
    rows_different: int
    failed: bool
    recovery_seconds: float | None
    """The longest recovery."""


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
    """How many of those that failed did so with a known signature."""
    seconds: float
    """What the campaign took."""
    night_seconds: float
    """What the whole night took."""
    records_replayed_median: float | None
    """Of the scenarios in which the job had to start again; so are the next three."""
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
        # A seed may be any whole number.
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


class _Newer(Exception):
    """A file of a newer format than this onceproof reads."""


class NightHistory:
    """The nights in a folder."""

    def __init__(self, folder: Path, keep: int, warn: Callable[[str], None]) -> None:
        """``keep`` is how many nights stay; ``warn`` is told in one line of each file that cannot be read."""
        self.folder = folder
        self._keep = keep
        self._warn = warn

    def prepare(self) -> None:
        """Make the folder, and see that it can be written to; raises OutputUnwritable.

        For the beginning of a night, when nothing has been done yet that could be lost.
        """
        trial = self.folder / f".{os.getpid()}.trial"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            trial.touch()
            trial.unlink()
        except OSError as error:
            raise OutputUnwritable(
                f"{self.folder}: the history of nights cannot be written to: {error.strerror or error}"
            ) from None

    def read(self) -> list[NightRow]:
        """Return the nights, the oldest first; files that hold none are set aside."""
        rows = []
        for path in self._files():
            try:
                rows.append(_read(path))
            except FileNotFoundError:
                # Another night that ends just now has made room for itself.
                continue
            except _Newer as newer:
                self._warn(f"{path}: {newer}")
            except (pa.ArrowException, OSError, ValueError) as error:
                self._tell_of(path, error)
        return sorted(rows, key=lambda row: row.started)

    def add(self, row: NightRow) -> Path:
        """Write a night down, and let go of the oldest ones beyond those that are kept; raises OSError."""
        # Of two nights that begin at once, one must not take the other's name.
        name = f"{row.started:%Y%m%dT%H%M%S%fZ}-{os.urandom(4).hex()}{SUFFIX}"
        path = self.folder / name
        hidden = self.folder / f".{name}.part"
        try:
            with hidden.open("wb") as file:
                parquet.write_table(pa.Table.from_pylist([_to_columns(row)], SCHEMA), file)
                file.flush()
                os.fsync(file.fileno())
            hidden.rename(path)
        finally:
            hidden.unlink(missing_ok=True)
        for old in self._files()[: -self._keep]:
            old.unlink(missing_ok=True)
        return path

    def _files(self) -> list[Path]:
        """Return the files of nights, the oldest first."""
        return sorted(path for path in self.folder.glob(f"*{SUFFIX}") if path.name[0] not in "._")

    def _tell_of(self, path: Path, error: Exception) -> None:
        """Tell of a file that could not be read, and set it aside if that is for what is in it."""
        said = " ".join(str(error).split())
        if isinstance(error, OSError) and error.errno is not None:
            self._warn(f"{path}: cannot be read, the night is left out: {error.strerror}")
            return
        aside = path.with_name(ASIDE + path.name)
        try:
            path.rename(aside)
        except OSError as failure:
            self._warn(f"{path}: holds no night, and cannot be set aside ({failure.strerror}): {said}")
        else:
            self._warn(f"{path}: holds no night, set aside as {aside.name}: {said}")


def _read(path: Path) -> NightRow:
    # Not by name: the library would take an equals sign in the path for a partition.
    with path.open("rb") as file:
        content = parquet.ParquetFile(file)
        version = int((content.schema_arrow.metadata or {}).get(VERSION_KEY, b"0"))
        if version > FORMAT_VERSION:
            raise _Newer(
                f"of format version {version}, but this onceproof reads up to {FORMAT_VERSION};"
                " the night is left out"
            )
        rows = content.read().to_pylist()
    if not version or len(rows) != 1:
        raise ValueError("a Parquet file, but not of a night")
    return msgspec.convert(rows[0] | {"seed": _seed(rows[0].get("seed"))}, NightRow)


def _to_columns(row: NightRow) -> dict[str, Any]:
    columns: dict[str, Any] = msgspec.to_builtins(row, builtin_types=(datetime,))
    return columns | {"seed": None if row.seed is None else str(row.seed)}


def _seed(text: str | None) -> int | None:
    return None if text is None else int(text)
