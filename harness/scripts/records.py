"""The records of a script's sources: where they come from, and how a scenario holds them.

Rules:

- Records are those of a sample that the user gives, else the script's own (a collection, files, generated
  rows), else drawn from the declared type. A source that has none of these needs a sample: one line says so.
- A scenario holds strings, numbers and flat tuples as they are, and flat rows as tuples. Anything else that
  Python can write as a literal is held as this text, and the rest as the number of a record of the script.
- A text is read as a literal and never executed.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from onceproof.engine.connectors.source import ForwardingReader, Source, SourceIdentity, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.outside_files import read_at_most
from onceproof.engine.owned import own_records
from onceproof.engine.types import Row, TypeInformation
from onceproof.engine.types.composite import TupleType
from onceproof.engine.types.row import RowType, make_row
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.sample_records import DRAWN_RECORDS, MOST_BYTES, MOST_RECORDS, drawn_value
from onceproof.harness.model.scenario import RecordValue
from onceproof.harness.model.split_names import split_name

_SCALARS: Final = (str, int, float, bool, type(None))
_FAR: Final = ("kafka", "socket_source", "jdbc")
"""In the names of modules: their sources read what is not on this machine."""


class Pool(NamedTuple):
    """The records of a source, and how a scenario holds them."""

    records: tuple[Record, ...]
    """A value, and its timestamp in milliseconds or None."""
    held: tuple[RecordValue, ...]
    """The values as a scenario holds them."""
    restore: Callable[[RecordValue], Any]
    """Returns the value for what a scenario holds."""
    has_timestamps: bool
    has_splits: bool = False
    """Whether the source may have several splits."""
    origin: str = ""
    """Where the records come from, as the end of a sentence."""
    own_splits: Mapping[str, int] = MappingProxyType({})
    """By split of a source that runs for real, how many of the records are its; empty: it is replaced."""
    held_as: str = "same"
    """"same", "row", "literal" or "number": how another engine's client restores what is held."""
    names: tuple[str, ...] | None = None
    """Those of a row's fields."""


class UnknownRecords(FamilyError):
    """A source without known records; the message is one line that says what to give."""


def pool_of(
    records: Sequence[Record],
    origin: str,
    *,
    has_splits: bool,
    own_splits: Mapping[str, int] = MappingProxyType({}),
) -> Pool:
    """Return records with the simplest way to hold all of them."""
    values = [value for value, _ in records]
    held_as, names, hold, restore = _way(values)
    timestamps = all(timestamp is not None for _, timestamp in records)
    held = tuple(map(hold, values))
    return Pool(
        tuple(records),
        held,
        restore,
        timestamps and bool(records),
        has_splits,
        origin,
        own_splits,
        held_as,
        names,
    )


class _Way(NamedTuple):
    """How a scenario holds values, and how they are restored."""

    held_as: str
    names: tuple[str, ...] | None
    hold: Callable[[Any], RecordValue]
    restore: Callable[[Any], Any]


def _way(values: Sequence[Any]) -> _Way:
    if all(map(_is_flat, values)):
        return _Way("same", None, _same, _same)
    if all(isinstance(value, Row) and _is_flat(tuple(value)) for value in values):
        names = {_names_of(value) for value in values}
        if len(names) == 1:
            found = names.pop()
            return _Way("row", found, tuple, partial(make_row, found))
    if all(map(_is_literal, values)):
        return _Way("literal", None, repr, _read_literal)
    numbers = {id(value): number for number, value in enumerate(values)}
    return _Way(
        "number",
        None,
        lambda value: numbers[id(value)],
        lambda number: own_records([(values[number], None)])[0][0],
    )


def _same(value: Any) -> Any:
    return value


def _is_flat(value: Any) -> bool:
    items = value if type(value) is tuple else (value,)
    return all(
        type(item) in _SCALARS
        and (type(item) is not int or -(2**63) <= item < 2**63)
        and (type(item) is not float or item - item == 0)
        for item in items
    )


def _is_literal(value: Any) -> bool:
    try:
        return bool(_read_literal(repr(value)) == value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _read_literal(text: Any) -> Any:
    return ast.literal_eval(text)


def _names_of(row: Row) -> tuple[str, ...] | None:
    try:
        return tuple(row.as_dict())
    except TypeError:
        return None


# Where records come from.


def local_records(name: str, source: Source) -> list[Record] | None:
    """Return the first records that a source of this machine has; None where it reads something far away."""
    if any(word in type(source).__module__ for word in _FAR) or not source.can_be_replayed:
        return None
    found: list[Record] = []
    try:
        for split in sorted(source.splits()):
            reader = source.open_split(split, None)
            while len(found) < MOST_RECORDS and not reader.exhausted:
                records = reader.read(MOST_RECORDS - len(found))
                if not records:
                    break
                found += records
            reader.close()
    except OSError as error:
        raise UnknownRecords(f"source {name!r} cannot be read: {error}") from None
    return found


def drawn_records(kind: TypeInformation | None) -> list[Record] | None:
    """Return records of a declared type; None if the type does not say enough, as a text does not."""
    if not isinstance(kind, RowType | TupleType):
        return None
    random = Random(1)
    drawn = [_drawn(kind, random) for _ in range(DRAWN_RECORDS)]
    return None if None in drawn else [(value, None) for value in drawn]


def known_records(
    path: Path, name: str, source: Source, kind: TypeInformation | None
) -> tuple[list[Record], str]:
    """Return the records that a source of a script has without a sample, and where they are from.

    Raises UnknownRecords.
    """
    if (found := local_records(name, source)) is not None:
        return found, "of the program itself"
    if (found := drawn_records(kind)) is not None:
        return found, "drawn from its type"
    raise UnknownRecords(
        f"{path}: the records of the source {name!r} are not on this machine: give some with"
        f" --sample {name}=FILE, lines of JSON, CSV or text"
    )


def _drawn(kind: TypeInformation, random: Random) -> Any:
    if isinstance(kind, RowType | TupleType):
        fields = [_drawn(field, random) for field in kind.fields]
        if None in fields:
            return None
        return make_row(kind.names, fields) if isinstance(kind, RowType) else tuple(fields)
    return drawn_value(kind.python_type, random)


def sampled_records(path: Path, kind: TypeInformation | None) -> list[Record]:
    """Return the first records of a user's file: lines of JSON, a table of CSV or Parquet, or lines of text.

    Columns become the fields of a declared row or tuple, by name if they have names. Raises FamilyError.
    """
    try:
        rows = _READERS.get(path.suffix, _read_text)(path)
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        raise FamilyError(f"{path}: cannot be read as a sample: {error}") from None
    values = [_fitted(row, kind) for row in rows[:MOST_RECORDS]]
    if not values:
        raise FamilyError(f"{path}: a sample needs at least one record")
    return [(value, None) for value in values]


def _read_text(path: Path) -> list[Any]:
    return read_at_most(path, MOST_BYTES).decode().splitlines()


def _read_json(path: Path) -> list[Any]:
    return [_Line(json.loads(line), line) for line in _read_text(path) if line.strip()]


def _read_csv(path: Path) -> list[Any]:
    rows = list(csv.DictReader(_read_text(path)))
    return [
        _Line({name: _number(cell) for name, cell in row.items()}, ",".join(row.values())) for row in rows
    ]


def _read_parquet(path: Path) -> list[Any]:
    from onceproof.engine.extras import PARQUET, require

    require(f"the sample {path}", PARQUET)
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(path).slice(0, MOST_RECORDS).to_pylist()
    return [_Line(row, json.dumps(row, default=str)) for row in rows]


_READERS: Final[Mapping[str, Callable[[Path], list[Any]]]] = {
    ".jsonl": _read_json,
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}


class _Line(NamedTuple):
    """A record of a sample: what it says, and its text."""

    content: Any
    text: str


def _number(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _fitted(row: Any, kind: TypeInformation | None) -> Any:
    """Return a record as the declared type has it; without a type a table's rows are tuples."""
    if not isinstance(row, _Line):
        return row
    content, text = row
    if isinstance(kind, RowType | TupleType):
        names = getattr(kind, "names", None)
        cells = content
        if isinstance(content, dict):
            cells = [content.get(name) for name in names] if names else list(content.values())
        if len(cells) != len(kind.fields):
            raise FamilyError(f"a sample has {len(cells)} columns: {text}, but the source makes {kind.name}")
        return make_row(names, cells) if isinstance(kind, RowType) else tuple(cells)
    if kind is not None and kind.python_type is str:
        return text
    return content


# How they are given to the job.


class PooledSource(Source):
    """Reads the splits of a scenario that belong to one source of a script.

    Args:
        source: all splits.
        name: the name of the script's source.
        pool: its records.
        open_own: opens a split of the script's own source, where that runs for real.
    """

    def __init__(
        self, source: Source, name: str, pool: Pool, open_own: Callable[..., SplitReader] | None
    ) -> None:
        self._source = source
        self._open_own = open_own
        self._prefix = split_name(name, "")
        self._pool = pool
        self.is_bounded = source.is_bounded

    def __deepcopy__(self, memo: object) -> PooledSource:
        return self

    def splits(self) -> Sequence[str]:
        return [split for split in self._source.splits() if split.startswith(self._prefix)]

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        inner = self._source.open_split(split, position)
        if self._open_own is None:
            return _PooledReader(inner, self._pool)
        own_split = list(self._pool.own_splits)[int(split.removeprefix(self._prefix))]
        return self._open_own(inner, own_split, position)

    def identity(self) -> SourceIdentity:
        what, extent = self._source.identity()
        return SourceIdentity(f"{self._prefix} of {what}", extent)


class _PooledReader(ForwardingReader):
    """Makes the values of a script of what a scenario holds."""

    def __init__(self, reader: SplitReader, pool: Pool) -> None:
        super().__init__(reader)
        self._pool = pool

    def read(self, limit: int) -> list[Record]:
        restore, has_timestamps = self._pool.restore, self._pool.has_timestamps
        return [
            (restore(value), timestamp if has_timestamps else None)
            for value, timestamp in self._reader.read(limit)
        ]
