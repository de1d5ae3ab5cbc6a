"""The rows of a script's tables, drawn from their types or taken from a sample.

Rules:

- Values are those of `drawn_values.py`; NULL where a column may be; rows that come twice.
- Event times advance by steps of one of the plan's own windows and intervals and by less, so each of them
  holds several rows in some workloads; some times lie at such a boundary or next to it. Rows are out of
  order as far as the watermark allows.
- If a plan drops late rows, a row is ahead of the watermark of all before it in its split, and so never late.
  In half of the workloads a few rows are behind it, if it is known what becomes of them (`late_rows.py`).
- A table that sends changes has a current row for each key: it is inserted, updated and deleted. All changes
  of a key are in one split, in order. In half of the workloads a key has none behind one that may be late.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any, Final

from onceproof.engine.table.expressions.registry import compile_expression
from onceproof.engine.table.nodes.windows import iso_duration_ms
from onceproof.engine.table.operators import Moment
from onceproof.engine.table.plans import InvalidPlan, Node, Plan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.types import INTEGERS, LogicalType
from onceproof.engine.table.values import (
    DELETE,
    INSERT,
    NANOS_PER_MS,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Row,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.split_names import split_name
from onceproof.harness.scripts.sql.drawn_values import (
    FIRST_MS,
    MILLISECONDS,
    NULL,
    TIMESTAMPS,
    Constants,
    Drawing,
    Path,
    time_value,
)
from onceproof.harness.scripts.sql.late_rows import Lateness, Mark
from onceproof.harness.scripts.sql.sql_ends import SourceTable

_MOST_ROWS: Final = 30
_STEPS_MS: Final = (0, 0, 1, 1000, 7000)
_LATE: Final = 0.5
"""The share of workloads in which rows may be late, if any may."""
_PARTLY_LATE: Final = 0.25
"""The same where it is not known of each sink what becomes of them: the others are judged."""
_UNITS: Final = (MILLISECONDS, Fraction(1, 1000), Fraction(1000))
"""How many units a millisecond has, in a column of integers that says the event time."""


def durations_of(plan: Plan) -> list[int]:
    """Return the lengths of the windows and intervals of a plan in milliseconds, in order."""
    found: set[int] = set()
    for node in plan.nodes:
        found.update(_durations_in(node))
    return sorted(each for each in found if each > 0)


def _durations_in(node: Node) -> Iterator[int]:
    waiting: list[Any] = [node.attributes]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            for key in ("leftLowerBound", "leftUpperBound"):
                if isinstance(bound := value.get(key), int):
                    yield abs(bound)
            if "INTERVAL" in str(value.get("type")) and str(value.get("value", "")).isdigit():
                yield int(value["value"])
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and value.startswith("P"):
            with suppress(InvalidPlan):
                yield iso_duration_ms(value)


class RowDrawer:
    """Draws the changes of one table.

    Args:
        table: the table.
        settings: those of the session.
        durations: those of the plan.
        constants: what the plan compares columns with.
        stays_on_time: whether no row may be late.
        sample: rows of the user's to take values from.
    """

    def __init__(
        self,
        table: SourceTable,
        settings: TableSettings,
        durations: Sequence[int],
        constants: Constants,
        stays_on_time: bool,
        sample: Sequence[Row] = (),
    ) -> None:
        self.table = table
        self.never_null: set[int] = set()
        """Columns in which a NULL fails the job."""
        self._types = table.end.type.types
        self._key = table.end.primary_key
        self._durations, self._constants, self._stays_on_time = durations, constants, stays_on_time
        self._sample = sample
        self.lateness: Mapping[str, Lateness | None] = {}
        """By sink, what becomes of late rows where some may be drawn; None: it is not known of this sink."""
        self.mattering_to: frozenset[str] = frozenset()
        """The sinks to which it matters that a change is late."""
        self.most_inputs = 0
        """In how many ways they may be late for a sink."""
        self._times: frozenset[Path] = frozenset()
        """The columns and fields that say the event time."""
        self._rowtime: Callable[[Row], Any] = _no_time
        self._watermark: Callable[[Row], Any] = _no_time
        self.origin = "rows drawn from the types of its columns"
        """Where they come from."""
        if table.watermark is not None:
            scope = settings.scope(Moment())
            self._rowtime = compile_expression(table.rowtime, scope)
            self._watermark = compile_expression(table.watermark, scope)
            self._times = self._paths_of_time()
        names = table.end.type.names
        self._time_columns = sorted({names.index(str(path[0])) for path in self._times})
        self._units = self._units_per_ms()

    @property
    def nullable_columns(self) -> list[int]:
        """The columns that may be NULL."""
        return [
            column
            for column, kind in enumerate(self._types)
            if kind.nullable and column not in self._key and [column] != self._time_columns
        ]

    @property
    def may_be_late(self) -> bool:
        """Whether it sends changes to a plan that drops late rows: none can be left out of a changelog."""
        return self._stays_on_time and self.table.is_changing and bool(self._times)

    @property
    def stays_on_time(self) -> bool:
        """Whether rows that may be late are left out."""
        return self._stays_on_time and self.has_watermarks and not self.lateness

    @property
    def has_watermarks(self) -> bool:
        """Whether it only adds rows, with watermarks."""
        return bool(self._times) and not self.table.is_changing

    def splits(self, random: Random, nulls: Collection[int] | None = None) -> dict[str, list[InputRecord]]:
        """Draw the splits of the table.

        Args:
            nulls: the columns that have NULLs; None: all that may.
        """
        chance = Chance(random)
        columns = self.nullable_columns if nulls is None else nulls
        allowed = frozenset(columns) - self.never_null
        count = chance.weighted(((1, 4), (2, 4), (3, 2)))
        rows = self._rows(chance, allowed)
        found: list[list[Change]] = [[] for _ in range(count)]
        if self.table.is_changing:
            self._change(chance, rows, found)
            if self.may_be_late and chance.chance(1 - _LATE):
                found = [list(self._until_late(own)) for own in found]
        else:
            for row in rows:
                chance.choice(found).append((INSERT, row))
            if self._stays_on_time and self._times:
                share = _PARTLY_LATE if None in self.lateness.values() else _LATE
                found = self._on_time(found, chance.chance(share) and bool(self.lateness))
        return {
            split_name(self.table.name, number): [
                (self._timestamp(change[1], place), self.table.held(change))
                for place, change in enumerate(own)
            ]
            for number, own in enumerate(found)
        }

    def _rows(self, chance: Chance, nulls: frozenset[int]) -> list[Row]:
        """Draw rows in the order of arrival."""
        if self._sample:
            begin = chance.integer(0, max(0, len(self._sample) - _MOST_ROWS))
            taken = list(self._sample[begin : begin + _MOST_ROWS])
            return [each for each in taken for _ in range(chance.weighted(((1, 6), (2, 1))))]
        rows: list[Row] = []
        time_ms = FIRST_MS
        scale = chance.choice((self._durations[-1], *self._durations)) if self._durations else 60_000
        for _ in range(chance.weighted(((0, 1), (3, 1), (12, 3), (20, 3), (_MOST_ROWS, 2)))):
            time_ms += chance.choice((*_STEPS_MS, scale // 7, scale // 3, scale))
            at_ms = self._near(chance, time_ms)
            if rows and chance.chance(0.1):
                rows.append(chance.choice(rows[-3:]))
            else:
                rows.append(self._row(chance, at_ms, nulls))
        return rows

    def _near(self, chance: Chance, time_ms: int) -> int:
        """Return a time, one at a boundary near it, or one before it."""
        kind, number = chance.unit(), chance.integer(-1, 1)
        duration = chance.choice(self._durations) if self._durations else 10_000
        if kind < (0.25 if self._delay_ms else 0.3):
            return time_ms - time_ms % duration + number
        if kind < (0.45 if self._delay_ms else 0.6):
            return time_ms - int(chance.unit() * duration)
        if self._delay_ms and kind < 0.65:
            return time_ms - int(chance.unit() * self._delay_ms)
        return time_ms

    def _row(self, chance: Chance, at_ms: int, nulls: frozenset[int]) -> Row:
        drawing = Drawing(at_ms, self._constants, self._durations, self._times, self._units)
        full, row = [], []
        for column, field in enumerate(self.table.end.type.fields):
            is_null = chance.chance(NULL) and column in nulls
            value = drawing.value(chance, field.type, (field.name,), column in nulls)
            full.append(value)
            row.append(None if is_null else value)
        if self._times and self._rowtime(tuple(row)) is None:
            row = [
                full[column] if column in self._time_columns else row[column] for column in range(len(row))
            ]
        return tuple(row)

    def _paths_of_time(self) -> frozenset[Path]:
        """Return what says the event time: times, else the first column of its expression."""
        fields = {field.name: field.type for field in self.table.end.type.fields}
        paths = list(_paths_in(self.table.rowtime, self.table.end.type.names))
        times = [path for path in paths if _type_at(fields[path[0]], path[1:]) in TIMESTAMPS]
        return frozenset(times or paths[:1])

    def _units_per_ms(self) -> Fraction:
        """Return in which units the column of event time is, if it has integers."""
        column = self._time_columns[0] if self._time_columns else 0
        if not self._times or self._types[column].root not in INTEGERS:
            return MILLISECONDS
        for units in _UNITS:
            value = time_value(self._types[column], FIRST_MS, units)
            with suppress(ArithmeticError, ValueError):
                time = self._rowtime(
                    tuple([value if each == column else None for each in range(len(self._types))])
                )
                if time == FIRST_MS * NANOS_PER_MS:
                    return units
        return MILLISECONDS

    def _until_late(self, changes: Sequence[Change]) -> Iterator[Change]:
        """Yield the changes of each row up to the first that may be late."""
        mark = self.mark()
        ended: set[Row] = set()
        for change in changes:
            row = change[1]
            identity = tuple([row[column] for column in self._key]) if self._key else row
            if identity in ended or mark.behind(row) is not None:
                ended.add(identity)
            else:
                mark.take(row)
                yield change

    @cached_property
    def _delay_ms(self) -> int:
        """How far the watermark is behind the event time of a row."""
        row = self._row(Chance(Random(0)), FIRST_MS, frozenset())
        time, watermark = self._rowtime(row), self._watermark(row)
        return 0 if time is None or watermark is None else max(0, (time - watermark) // NANOS_PER_MS)

    def _on_time(self, splits: Sequence[Sequence[Change]], may_be_late: bool) -> list[list[Change]]:
        """Return splits without the changes that may be late, or with a few of them."""
        most, kinds = (self.most_inputs if may_be_late else 1), set(self.lateness.values())
        # None stands for a sink that no row behind the watermark may reach otherwise.
        known = [each for each in kinds if each is not None] if may_be_late or None not in kinds else []
        ways = [1] * len(known)
        found: list[list[Change]] = []
        for own in splits:
            kept: list[Change] = []
            mark = self.mark()
            for change in own:
                if self._rowtime(change[1]) is None:
                    continue
                if (behind := mark.behind(change[1])) is not None:
                    then = [
                        count * (1 + len(each.ends(*behind))) for count, each in zip(ways, known, strict=True)
                    ]
                    if not then or max(then) > most:
                        continue
                    ways = then
                kept.append(change)
                mark.take(change[1])
            found.append(kept)
        return found

    def mark(self) -> Mark:
        """Return the watermark of a split that has begun."""
        return Mark(self._rowtime, self._watermark)

    def _change(self, chance: Chance, rows: Sequence[Row], found: list[list[Change]]) -> None:
        """Make changes of rows: an insert, an update of the row with the key, or its deletion."""
        is_retract = self.table.mode == "retract"
        there: dict[Row, Row] = {}
        for number, row in enumerate(rows):
            key = tuple([row[column] for column in self._key]) if self._key else (number,)
            split = found[sum(map(ord, repr(key))) % len(found)]
            before = there.get(key)
            if chance.chance(0.25) and there and not self._key:
                key = chance.choice(tuple(there))
                split = found[sum(map(ord, repr(key))) % len(found)]
                split.append((DELETE, there.pop(key)))
            elif before is None:
                there[key] = row
                split.append((INSERT, row))
            elif chance.chance(0.3):
                split.append((DELETE, there.pop(key)))
            else:
                if is_retract:
                    split.append((UPDATE_BEFORE, before))
                there[key] = row
                split.append((UPDATE_AFTER, row))

    def _timestamp(self, row: Row, place: int) -> int:
        time = self._rowtime(row)
        return place if time is None else int(time // NANOS_PER_MS)


def rows_left(changes: Sequence[Change], mode: str, key: Sequence[int]) -> list[Row] | None:
    """Return the rows that the changes of a split leave; None where no table has such changes.

    Args:
        mode: which changes the table sends: append, upsert or retract.
        key: its primary key.
    """
    there: dict[Row, list[Row]] = {}
    updated: Row | None = None
    for kind, row in changes:
        identity = tuple([row[column] for column in key]) if key else () if mode == "append" else row
        same = there.setdefault(identity, [])
        if updated is not None and (kind != UPDATE_AFTER or identity != updated):
            return None
        if kind == UPDATE_AFTER and mode == "retract" and updated is None:
            return None
        updated = None
        if kind in (UPDATE_BEFORE, DELETE):
            if not same or (mode == "retract" and row not in same):
                return None
            same.remove(row if row in same else same[0])
            updated = identity if kind == UPDATE_BEFORE else None
        elif mode != "append" and key and same:
            if mode == "retract":
                return None
            same[:] = [row]
        else:
            same.append(row)
    return None if updated is not None else [row for own in there.values() for row in own]


def _no_time(row: Row) -> None:
    return None


def _paths_in(expression: Any, names: Sequence[str]) -> Iterator[Path]:
    """Yield the columns that an expression reads, and the fields of columns."""
    if isinstance(expression, list):
        for each in expression:
            yield from _paths_in(each, names)
    elif isinstance(expression, Mapping):
        match expression.get("kind"):
            case "INPUT_REF":
                yield (names[expression["inputIndex"]],)
            case "FIELD_ACCESS":
                for path in _paths_in(expression["expr"], names):
                    yield (*path, expression["name"])
            case _:
                yield from _paths_in(expression.get("operands"), names)


def _type_at(kind: LogicalType, fields: Sequence[str]) -> str:
    """Return the root of the type of a field within others."""
    for name in fields:
        kind = kind.types[kind.names.index(name)]
    return kind.root
