"""The values of columns, drawn from their types and from what a plan compares them with.

Rules:

- Few distinct values, so keys meet.
- A column is often equal to a constant that a plan has beside its name, or next to it. So conditions hold,
  and fail. Fields within rows have names, too.
- A text is a word, such a constant, or words joined by the longest part of one that means itself in a
  pattern: so texts have separators, and match regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.table.plans import Node, Plan
from onceproof.engine.table.types import INTEGERS, TEXTS, LogicalType
from onceproof.engine.table.values import NANOS_PER_DAY, NANOS_PER_MS, timestamp_text
from onceproof.harness.model.chance import Chance

FIRST_MS: Final = 1_704_067_200_000
"""Where event time begins: midnight of 2024-01-01."""
NULL: Final = 0.1
TIMESTAMPS: Final = ("TIMESTAMP", "TIMESTAMP_LTZ")
ROWS: Final = ("ROW", "STRUCTURED")
MILLISECONDS: Final = Fraction(1)
"""How many units a millisecond has in a column of integers that says the event time."""
_WORDS: Final = ("ada", "bob", "cy", "dora")
_JOINED: Final = ("", *_WORDS)
_CONSTANT: Final = 0.75
_OF_PATTERNS: Final = re.compile(r"[\\^$.|?*+()\[\]{}%]+")
_BEYOND: Final = {"TINYINT": 1 << 7, "SMALLINT": 1 << 15, "INT": 1 << 31, "BIGINT": 1 << 63}
"""The first number beyond a type of integers."""
_BRANCHES: Final = ("$AND$1", "$OR$1", "$CASE$1")
"""The calls whose operands are not compared with each other."""

Constants: TypeAlias = Mapping[str, Sequence[Any]]
"""By the name of a column or field, what a plan compares it with."""
Path: TypeAlias = tuple[str, ...]
"""The name of a column, and those of the fields within it."""


class Drawing(Struct, frozen=True):
    """What the values of a row depend on."""

    at_ms: int
    """The event time."""
    constants: Constants
    durations: Sequence[int]
    """The lengths of windows and intervals in milliseconds, in order."""
    times: Collection[Path]
    """The paths of columns and fields that say the event time."""
    units_per_ms: Fraction = MILLISECONDS

    def value(self, chance: Chance, kind: LogicalType, path: Path, has_nulls: bool) -> Any:
        """Draw the value of a column or field, which the end of its path names."""
        if path in self.times:
            return time_value(kind, self.at_ms, self.units_per_ms)
        if kind.root in TIMESTAMPS:
            return time_value(kind, self.at_ms + (self._later(chance) if self.times else 0))
        if kind.root in ROWS:
            cells = []
            for field in kind.fields:
                place = (*path, field.name)
                may_be_null = has_nulls and field.type.nullable and place not in self.times
                is_null = chance.chance(NULL) and may_be_null
                value = self.value(chance, field.type, place, has_nulls)
                cells.append(None if is_null else value)
            return tuple(cells)
        return drawn_value(chance, kind, self.constants.get(path[-1], ()))

    def _later(self, chance: Chance) -> int:
        """Draw how much later than the event another time of a row is."""
        duration = chance.choice(self.durations) if self.durations else 10_000
        return chance.choice((0, 1, -1, duration, *[10 * duration] * 3, 30 * duration))


def constants_of(plan: Plan) -> Constants:
    """Return what a plan compares columns with, by their names."""
    rows = {node.id: node.output for node in plan.nodes}
    found: dict[str, dict[Any, None]] = {}
    for node in plan.nodes:
        for name, value in _constants_in(node, [rows[each] for each in node.inputs if each in rows]):
            found.setdefault(name, {})[value] = None
    return {name: tuple(values) for name, values in found.items()}


def _constants_in(node: Node, inputs: Sequence[LogicalType]) -> Iterator[tuple[str, Any]]:
    names = [name for each in inputs for name in each.names]
    waiting: list[Any] = [node.attributes] if inputs else []
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, Mapping):
            waiting += value.values()
            operands = value.get("operands")
            if isinstance(operands, list) and value.get("internalName") not in _BRANCHES:
                for name in _names_in(operands, names):
                    yield from ((name, constant) for constant in _literals(operands))


def _names_in(expression: Any, names: Sequence[str]) -> Iterator[str]:
    """Yield the names of the columns and fields that an expression reads."""
    if isinstance(expression, list):
        for each in expression:
            yield from _names_in(each, names)
    elif isinstance(expression, Mapping):
        match expression.get("kind"):
            case "FIELD_ACCESS":
                yield str(expression["name"])
            case "INPUT_REF" | "PATTERN_INPUT_REF" if expression["inputIndex"] < len(names):
                yield names[expression["inputIndex"]]
            case _:
                yield from _names_in(expression.get("operands"), names)


def _literals(operands: Sequence[Any]) -> Iterator[Any]:
    """Yield the constants among operands, and the ends of the ranges of such a constant."""
    for operand in operands:
        if not isinstance(operand, Mapping) or operand.get("kind") != "LITERAL":
            continue
        ranges = operand.get("sarg", {}).get("ranges", ())
        ends = [each.get(end, {}).get("value") for each in ranges for end in ("lower", "upper")]
        for value in (operand.get("value"), *ends):
            if isinstance(value, int | float | str) and not isinstance(value, bool):
                yield value


def time_value(kind: LogicalType, at_ms: int, units_per_ms: Fraction = MILLISECONDS) -> Any:
    """Return a time in a column of some type.

    Args:
        units_per_ms: of a column of integers.
    """
    if kind.root in TEXTS:
        return timestamp_text(at_ms * NANOS_PER_MS, 3, " ")
    return at_ms * NANOS_PER_MS if kind.root in TIMESTAMPS else int(at_ms * units_per_ms)


def drawn_value(chance: Chance, kind: LogicalType, constants: Sequence[Any] = ()) -> Any:
    """Draw a value of a type: one of few, or one like a constant."""
    number = chance.integer(0, 4)
    root = kind.root
    if constants and (root in TEXTS or root in INTEGERS):
        like = _like(chance, chance.choice(constants), kind)
        if like is not None and chance.chance(_CONSTANT):
            return like
    if root in TEXTS:
        return _WORDS[number % len(_WORDS)][: kind.precision]
    if root in INTEGERS:
        return number
    if root == "ARRAY":
        return tuple([drawn_value(chance, kind.element) for _ in range(number % 3)])
    if root == "MAP":
        pairs = [[drawn_value(chance, each) for each in kind.arguments] for _ in range(number % 3)]
        return tuple(dict(pairs).items())
    if root in ROWS:
        return tuple([drawn_value(chance, each) for each in kind.types])
    return _VALUES[root](number, kind) if root in _VALUES else None


def _like(chance: Chance, constant: Any, kind: LogicalType) -> Any:
    """Draw a value that is a constant, or is like it; None: a column of the type has none such."""
    if kind.root in INTEGERS:
        step = chance.choice((0, 0, 0, 0, 0, 0, -1, 1))
        with suppress(InvalidOperation, ValueError, OverflowError):
            value = int(Decimal(constant)) + step
            return value if -_BEYOND[kind.root] <= value < _BEYOND[kind.root] else None
        return None
    if not isinstance(constant, str):
        return None
    if chance.chance(0.5):
        return constant[: kind.precision]
    separator = max(_OF_PATTERNS.split(constant), key=len)
    return separator.join([chance.choice(_JOINED) for _ in range(chance.integer(1, 7))])[: kind.precision]


_VALUES: Final[Mapping[str, Callable[[int, LogicalType], Any]]] = {
    "BOOLEAN": lambda number, kind: number % 2 == 0,
    "FLOAT": lambda number, kind: number / 4,
    "DOUBLE": lambda number, kind: number / 4,
    "DECIMAL": lambda number, kind: Decimal(number * 25).scaleb(-2).quantize(Decimal(1).scaleb(-kind.scale)),
    "DATE": lambda number, kind: FIRST_MS * NANOS_PER_MS // NANOS_PER_DAY + number,
    "TIME": lambda number, kind: number * 3_600_000,
    "BINARY": lambda number, kind: bytes([number]),
    "VARBINARY": lambda number, kind: bytes([number]),
    "INTERVAL_MS": lambda number, kind: number * 1000,
    "INTERVAL_MONTHS": lambda number, kind: number,
}
