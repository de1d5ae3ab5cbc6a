"""The rows that a table of the connector ``datagen`` has: random ones and sequences, at a rate.

The rules this module lives by:

- Row i is made of its number alone: the same rows come again after a failure. Flink's random rows do not.
- Options, their defaults and the bounds of types are Flink's: ``fields.<name>.kind`` is ``random`` with
  ``min``, ``max``, ``max-past``, ``length``, ``var-len`` and ``null-rate``, or ``sequence`` with ``start``
  and ``end``; ``rows-per-second``, ``number-of-rows``. Options of what is in a column follow its name:
  ``fields.<name>.<field>.min``, ``.element``, ``.key`` and ``.value``.
- Times are those at which the rate has the row come, counted from the start of the program, less a random
  part of ``max-past``.
- A table ends where its shortest sequence does. An option that no column reads is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

from onceproof.engine.configuration.parsing import parse_duration_ms
from onceproof.engine.connectors.sequence_source import DataGeneratorSource, RateLimiterStrategy
from onceproof.engine.connectors.source import SourceIdentity
from onceproof.engine.types import Row, TypeInformation, Types
from onceproof.engine.types.composite import ListType, MapType
from onceproof.engine.types.row import RowType

ROWS_PER_SECOND: Final = 10_000
STRING_LENGTH: Final = 100
COLLECTION_LENGTH: Final = 3

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
        rate = left.number("rows-per-second", ROWS_PER_SECOND)
        if rate < 1:
            raise InvalidTable(f"table {name!r}: rows-per-second is {rate}: give at least 1")
        left.row_ms = 1000 / rate
        makers = [_maker(left, column, kind) for column, kind in columns]
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
        return self.drawn(Random(number), number)

    def drawn(self, random: Random, number: int) -> Row:
        """Return a row within another one."""
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
        self.row_ms = 0.0
        """The milliseconds from row to row."""
        self.begun_ms = int(time.time() * 1000)

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
    make = _NUMBERED.get(kind.name)
    if make is None:
        raise InvalidTable(
            f"table {options.table!r}: column {column!r} of type {kind.name} is not a sequence"
        )
    return lambda random, number: make(start + number)


_NUMBERED: Final[Mapping[str, Callable[[int], Any]]] = {
    **dict.fromkeys(_BITS, int),
    **dict.fromkeys(_LARGEST, float),
    "STRING": str,
    "BIG_DEC": Decimal,
}


def _random_field(options: _Options, prefix: str, column: str, kind: TypeInformation) -> MakeField:
    make = _random_value(options, prefix, column, kind)
    nulls = options.number(f"{prefix}null-rate", 0, float)
    if not 0 <= nulls <= 1:
        raise InvalidTable(f"table {options.table!r}: {prefix}null-rate is {nulls}: give 0 to 1")
    if not nulls:
        return make
    return lambda random, number: None if random.random() < nulls else make(random, number)


def _random_value(options: _Options, prefix: str, column: str, kind: TypeInformation) -> MakeField:
    if kind.name == "BOOLEAN":
        return lambda random, number: random.random() < 0.5
    if kind.name == "STRING":
        length = _length(options, prefix, STRING_LENGTH)
        return lambda random, number: _hexadecimal(random, length(random))
    if kind.name == "BYTES":
        length = _length(options, prefix, STRING_LENGTH)
        return lambda random, number: random.randbytes(length(random))
    if kind.name in _BITS:
        half = 1 << (_BITS[kind.name] - 1)
        least, most = _bounds(options, prefix, -half, half - 1, int)
        return lambda random, number: random.randint(int(least), int(most))
    if kind.name in _LARGEST or kind.name == "BIG_DEC":
        largest = _LARGEST.get(kind.name, 1e18)
        low, high = _bounds(options, prefix, -largest, largest, float)
        convert = Decimal if kind.name == "BIG_DEC" else float

        def between(random: Random, number: int) -> Any:
            # The difference of the bounds may be beyond the largest number.
            part = random.random()
            return convert(low * (1 - part) + high * part)

        return between
    if kind.name in _TIMES:
        return _past_time(options, prefix, kind)
    return _nested(options, prefix, column, kind)


def _bounds(
    options: _Options, prefix: str, least: float, most: float, parse: Callable[[str], float]
) -> tuple[float, float]:
    low = options.number(f"{prefix}min", least, parse)
    high = options.number(f"{prefix}max", most, parse)
    if low > high:
        raise InvalidTable(f"table {options.table!r}: {prefix}min is {low}, above its max {high}")
    return low, high


def _length(options: _Options, prefix: str, default: int) -> Callable[[Random], int]:
    """Return what says how long a value is."""
    length = int(options.number(f"{prefix}length", default))
    if length < 1:
        raise InvalidTable(f"table {options.table!r}: {prefix}length is {length}: give at least 1")
    if options.text(f"{prefix}var-len", "false").lower() == "true":
        return lambda random: random.randint(1, length)
    return lambda random: length


def _hexadecimal(random: Random, length: int) -> str:
    return f"{random.getrandbits(4 * length):0{length}x}"


_TIMES: Final[Mapping[str, Callable[[datetime], Any]]] = {
    "SQL_DATE": datetime.date,
    "SQL_TIME": lambda moment: moment.time().replace(microsecond=0),
    "SQL_TIMESTAMP": lambda moment: moment,
}


def _past_time(options: _Options, prefix: str, kind: TypeInformation) -> MakeField:
    convert, begun_ms, row_ms = _TIMES[kind.name], options.begun_ms, options.row_ms
    text = options.text(f"{prefix}max-past", "0")
    try:
        past_ms = parse_duration_ms(text)
    except ValueError:
        raise InvalidTable(
            f"table {options.table!r}: {prefix}max-past is {text!r}: give a duration such as 10 s"
        ) from None

    def make(random: Random, number: int) -> Any:
        at_ms = begun_ms + int(number * row_ms) - (random.randint(0, past_ms) if past_ms else 0)
        return convert(_EPOCH + timedelta(milliseconds=at_ms))

    return make


_EPOCH: Final = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


def _nested(options: _Options, prefix: str, column: str, kind: TypeInformation) -> MakeField:
    def inner(name: str, of: TypeInformation) -> MakeField:
        return _random_field(options, f"{prefix}{name}.", column, of)

    if isinstance(kind, RowType) and kind.names is not None:
        names = kind.names
        return _Rows(names, tuple(map(inner, names, kind.fields))).drawn
    if isinstance(kind, ListType):
        element, length = inner("element", kind.element), _length(options, prefix, COLLECTION_LENGTH)
        return lambda random, number: [element(random, number) for _ in range(length(random))]
    if isinstance(kind, MapType):
        key, item = inner("key", kind.key), inner("value", kind.value)
        length = _length(options, prefix, COLLECTION_LENGTH)
        return lambda random, number: {
            key(random, number): item(random, number) for _ in range(length(random))
        }
    raise InvalidTable(f"table {options.table!r}: datagen makes no column {column!r} of type {kind.name}")
