"""Which connectors there are, and how their options are read.

Rules:

- A connector is found by the name in ``connector``: ``@source``, ``@sink`` and ``@lookup`` register what
  makes a source, a sink and a lookup of a table. ``CONNECTOR_MODULES`` lists the modules that register.
- Names, defaults and words of options are those of Flink's connectors. An option that is missing, wrong or
  that no connector reads is a WrongTable before the job starts: one line with the table, the option and what
  is possible.
- A source gives changes, a sink takes them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from onceproof.engine.configuration.parsing import at_least, parse_boolean, parse_duration_ms
from onceproof.engine.connectors.source import Source
from onceproof.engine.table.registration import registering
from onceproof.engine.table.table_ends import MakeLookup, TableEnd

CONNECTOR_MODULES: Final = ("avro", "console", "datagen", "filesystem", "kafka", "jdbc")
CONNECTOR: Final = "connector"
PARALLELISM: Final = "sink.parallelism"

Value = TypeVar("Value")


class WrongTable(ValueError):
    """A table whose declaration its connector refuses; the message is one line."""


class Options:
    """The options of a table, of which each must be read."""

    def __init__(self, end: TableEnd) -> None:
        self.table = end.name
        self._given = end.options
        self._known = {CONNECTOR}

    def text(self, key: str, default: str | None = None) -> str | None:
        """Return the text of an option."""
        self._known.add(key)
        return self._given.get(key, default)

    def required(self, key: str) -> str:
        """Return the text of an option that must be there."""
        found = self.text(key)
        if found is None:
            connector = self._given.get(CONNECTOR, "")
            raise self.wrong(f"the connector {connector!r} misses the required option {key!r}")
        return found

    def read(self, key: str, parse: Callable[[Any], Value], default: Value) -> Value:
        """Return an option as a parser reads it, which raises ValueError."""
        found = self.text(key)
        if found is None:
            return default
        try:
            return parse(found)
        except ValueError as error:
            raise self.wrong_value(key, str(error)) from None

    def flag(self, key: str, default: bool = False) -> bool:
        """Return whether an option is true."""
        return self.read(key, parse_boolean, default)

    def number(self, key: str, default: int, least: int = 0) -> int:
        """Return the whole number of an option."""
        return self.read(key, at_least(least), default)

    def milliseconds(self, key: str, default_ms: int) -> int:
        """Return the milliseconds of a duration, such as ``1 min``."""
        return self.read(key, parse_duration_ms, default_ms)

    def choice(self, key: str, default: str, words: Iterable[str]) -> str:
        """Return one of some words."""
        found = self.text(key, default) or ""
        known = {word.lower(): word for word in words}
        if found.lower() not in known:
            raise self.wrong_value(key, f"one of {', '.join(known.values())} is needed")
        return known[found.lower()]

    def below(self, prefix: str) -> dict[str, str]:
        """Return the options that begin with a prefix, without it."""
        found = {key: value for key, value in self._given.items() if key.startswith(prefix)}
        self._known.update(found)
        return {key.removeprefix(prefix): value for key, value in found.items()}

    def ignored(self, *keys: str) -> None:
        """Accept options that change neither rows nor guarantees."""
        self._known.update(keys)

    def check_all_read(self) -> None:
        """Raise WrongTable for an option that nothing has read."""
        known = sorted(self._known - {CONNECTOR})
        for key in sorted(set(self._given) - self._known):
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            raise self.wrong(f"the connector {self._given.get(CONNECTOR)!r} has no option {key!r}: {hint}")

    def wrong_value(self, key: str, wanted: str) -> WrongTable:
        """Return the error for a value of an option."""
        return self.wrong(f"invalid value {self._given.get(key)!r} for option {key!r}: {wanted}")

    def wrong(self, what: str) -> WrongTable:
        """Return an error that names the table."""
        return WrongTable(f"table {self.table!r}: {what}")


class ConnectedSource(Source):
    """A source that asks its server before the job starts."""

    @abstractmethod
    def connect(self) -> None:
        """Ask what there is to read. Raises WrongTable."""


MakeSource: TypeAlias = Callable[[TableEnd, Options], Source]
MakeSink: TypeAlias = Callable[[TableEnd, Options], Any]
MakesLookup: TypeAlias = Callable[[TableEnd, Sequence[int], Options], MakeLookup]
_Maker = TypeVar("_Maker")

SOURCES: Final[dict[str, MakeSource]] = {}
SINKS: Final[dict[str, MakeSink]] = {}
LOOKUPS: Final[dict[str, MakesLookup]] = {}


def source(*names: str) -> Callable[[MakeSource], MakeSource]:
    """Register what makes the source of a table: a Source of changes."""
    return registering(SOURCES, names)


def sink(*names: str) -> Callable[[MakeSink], MakeSink]:
    """Register what makes the sink of a table: a Sink or SinkFunction that takes changes."""
    return registering(SINKS, names)


def lookup(*names: str) -> Callable[[MakesLookup], MakesLookup]:
    """Register what makes the lookup of a table by key columns."""
    return registering(LOOKUPS, names)


class StandIns(Protocol):
    """What stands for the tables of a program that is not to reach its servers."""

    def source(self, end: TableEnd, made: Source | None) -> Source:
        """Return what is read in place of the source of a table.

        Args:
            end: the table.
            made: its source, which is not connected; None: there is no such connector here.
        """
        ...

    def sink(self, end: TableEnd) -> Any:
        """Return what is written in place of a table whose connector is not here."""
        ...

    def lookup(self, end: TableEnd, keys: Sequence[int]) -> MakeLookup:
        """Return what makes lookups in place of those of a table."""
        ...


_STAND_INS: Final[list[StandIns]] = []


@contextmanager
def standing_in(stand_ins: StandIns) -> Iterator[None]:
    """Give stand-ins to the tables of programs that run inside the block."""
    _STAND_INS.append(stand_ins)
    try:
        yield
    finally:
        _STAND_INS.remove(stand_ins)


@cache
def load_connectors() -> None:
    """Import the modules of connectors."""
    for name in CONNECTOR_MODULES:
        import_module(f"{__package__}.{name}")


def source_of(end: TableEnd) -> Source:
    """Return the source of a table. Raises WrongTable."""
    options = Options(end)
    if _STAND_INS and _is_missing(SOURCES, end):
        return _STAND_INS[-1].source(end, None)
    made = _found(SOURCES, end, "source")(end, options)
    options.check_all_read()
    if _STAND_INS:
        return _STAND_INS[-1].source(end, made)
    if isinstance(made, ConnectedSource):
        made.connect()
    return made


def sink_of(end: TableEnd) -> tuple[Any, int | None]:
    """Return the sink of a table, and its parallelism. Raises WrongTable."""
    if _STAND_INS and _is_missing(SINKS, end):
        return _STAND_INS[-1].sink(end), None
    options = Options(end)
    parallelism = options.read(PARALLELISM, at_least(1), 0)
    made = _found(SINKS, end, "sink")(end, options)
    options.check_all_read()
    return made, parallelism or None


def lookup_of(end: TableEnd, keys: Sequence[int]) -> MakeLookup:
    """Return what makes lookups of a table by columns. Raises WrongTable."""
    options = Options(end)
    made = _found(LOOKUPS, end, "table to look rows up in")(end, keys, options)
    options.check_all_read()
    return _STAND_INS[-1].lookup(end, keys) if _STAND_INS else made


def _is_missing(table: Mapping[str, Any], end: TableEnd) -> bool:
    load_connectors()
    return end.options.get(CONNECTOR, "") not in table


def _found(table: Mapping[str, _Maker], end: TableEnd, use: str) -> _Maker:
    if _is_missing(table, end):
        known = ", ".join(sorted(table))
        raise WrongTable(
            f"table {end.name!r}: the connector {end.options.get(CONNECTOR)!r} is no {use} here; these are:"
            f" {known}"
        )
    return table[end.options[CONNECTOR]]
