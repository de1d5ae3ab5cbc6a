"""The rows that a table of the connector ``datagen`` has: random ones and sequences, at a rate.

The rules this module lives by:

- Row i is made of its number alone: the same rows come again after a failure. Flink's random rows do not.
- Options, their defaults and the bounds of types are Flink's: ``fields.<name>.kind`` is ``random`` with
  ``min``, ``max`` and ``length``, or ``sequence`` with ``start`` and ``end``; ``rows-per-second``,
  ``number-of-rows``.
- A table ends where its shortest sequence does. An option that no column reads is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from onceproof.engine.connectors.sequence_source import DataGeneratorSource, RateLimiterStrategy
from onceproof.engine.connectors.source import SourceIdentity
from onceproof.engine.types import Row, TypeInformation, Types

ROWS_PER_SECOND: Final = 10_000
STRING_LENGTH: Final = 100

_BITS: Final = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
_LARGEST: Final = {"FLOAT": 3.4028234663852886e38, "DOUBLE": 1.7976931348623157e308}

Columns = Sequence[tuple[str, TypeInformation]]
MakeField = Callable[[Random, int], Any]
"""Returns a field of row i, drawn from the row's own random numbers."""


class InvalidTable(ValueError):
    """A table that cannot be generated. The message is one line."""


class GeneratedTableSource(DataGeneratorSource):
    """The rows of a table (Flink: DataGenTableSource)."""

    def __init__(self, name: str, columns: Columns, options: Mapping[str, str]) -> None:
        """Read the options; raises InvalidTable for one that is wrong.

        Args:
            name: the name of the table, for messages.
            columns: name and type of each.
            options: by key, without the name of the connector.
        """
        left = _Options(name, options)
        makers = [_maker(left, column, kind) for column, kind in columns]
        rate = left.number("rows-per-second", ROWS_PER_SECOND)
        if rate < 1:
            raise InvalidTable(f"table {name!r}: rows-per-second is {rate}: give at least 1")
        ends = [*left.ends, *left.given_number("number-of-rows")]
        left.check_all_read()
        self.row_type = Types.ROW_NAMED([column for column, _ in columns], [kind for _, kind in columns])
        self._name = name
        self._described = repr((sorted(options.items()), self.row_type.name))
        rows = _Rows(tuple(column for column, _ in columns), tuple(makers))
        super().__init__(rows, min(ends, default=None), RateLimiterStrategy.per_second(rate))

    def identity(self) -> SourceIdentity:
        """Return the table's name, columns and options, which decide what is in its rows."""
        return SourceIdentity(f"table {self._name} with {self._described}")


class _Rows:
    """Makes the row of a number."""

    def __init__(self, names: tuple[str, ...], makers: tuple[MakeField, ...]) -> None:
        self._names = names
        self._makers = makers

    def __call__(self, number: int) -> Row:
        random = Random(number)
        row = Row(*[make(random, number) for make in self._makers])
        row.set_field_names(self._names)
        return row


class _Options:
    """The options of a table, of which each must be read."""

    def __init__(self, table: str, options: Mapping[str, str]) -> None:
        self.table = table
        self._options = options
        self._read: set[str] = set()
        self.ends: list[int] = []
        """How many rows each sequence has."""

    def text(self, key: str, default: str) -> str:
        self._read.add(key)
        return self._options.get(key, default)

    def given_number(self, key: str) -> list[int]:
        """Return the number of an option, or nothing if it is not set."""
        return [int(self.number(key, 0))] if key in self._options else []

    def number(self, key: str, default: float, parse: Callable[[str], float] = int) -> float:
        text = self.text(key, str(default))
        try:
            return parse(text)
        except ValueError:
            raise InvalidTable(f"table {self.table!r}: {key} is {text!r}: give a number") from None

    def check_all_read(self) -> None:
        for key in sorted(set(self._options) - self._read):
            known = ", ".join(sorted(self._read))
            raise InvalidTable(f"table {self.table!r} has no option {key!r} of datagen: it reads {known}")


def _maker(options: _Options, column: str, kind: TypeInformation) -> MakeField:
    prefix = f"fields.{column}."
    how = options.text(f"{prefix}kind", "random")
    if how == "random":
        return _random_field(options, prefix, column, kind)
    if how == "sequence":
        return _sequence(options, prefix, column, kind)
    raise InvalidTable(f"table {options.table!r}: {prefix}kind is {how!r}: give random or sequence")


def _sequence(options: _Options, prefix: str, column: str, kind: TypeInformation) -> MakeField:
    start, end = [int(options.number(f"{prefix}{name}", -1)) for name in ("start", "end")]
    if not 0 <= start <= end:
        raise InvalidTable(
            f"table {options.table!r}: the sequence {column!r} goes from {start} to {end}: set"
            f" {prefix}start and {prefix}end, both from 0 on"
        )
    options.ends.append(end - start + 1)
    if kind.name == "STRING":
        return lambda random, number: str(start + number)
    if kind.name not in _BITS:
        raise InvalidTable(
            f"table {options.table!r}: column {column!r} of type {kind.name} is not a sequence"
        )
    return lambda random, number: start + number


def _random_field(options: _Options, prefix: str, column: str, kind: TypeInformation) -> MakeField:
    if kind.name == "BOOLEAN":
        return lambda random, number: random.random() < 0.5
    if kind.name == "STRING":
        length = int(options.number(f"{prefix}length", STRING_LENGTH))
        if length < 1:
            raise InvalidTable(f"table {options.table!r}: {prefix}length is {length}: give at least 1")
        return lambda random, number: f"{random.getrandbits(4 * length):0{length}x}"
    if kind.name in _BITS:
        half = 1 << (_BITS[kind.name] - 1)
        least = int(options.number(f"{prefix}min", -half))
        most = int(options.number(f"{prefix}max", half - 1))
        if least > most:
            raise InvalidTable(f"table {options.table!r}: {prefix}min is {least}, above its max {most}")
        return lambda random, number: random.randint(least, most)
    if kind.name in _LARGEST:
        low = options.number(f"{prefix}min", -_LARGEST[kind.name], float)
        high = options.number(f"{prefix}max", _LARGEST[kind.name], float)
        if low > high:
            raise InvalidTable(f"table {options.table!r}: {prefix}min is {low}, above its max {high}")

        def between(random: Random, number: int) -> float:
            # The difference of the bounds may be beyond the largest number.
            part = random.random()
            return low * (1 - part) + high * part

        return between
    raise InvalidTable(f"table {options.table!r}: datagen makes no column {column!r} of type {kind.name}")
