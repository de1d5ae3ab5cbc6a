"""The rows that a script writes: what reaches a sink, as plain data that can be compared.

The client of Flink reads this file in Flink's own Python, where the one name of the engine is PyFlink's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from onceproof.engine.types import Row

_DEEPEST: Final = 8


def row_of(tag: str | None, value: Any) -> tuple[Any, ...]:
    """Return what reaches a sink as a row."""
    cell = comparable(value)
    cells = cell if type(value) in (tuple, Row) or is_dataclass(value) else (cell,)
    return cells if tag is None else (tag, *cells)


def comparable(value: Any, depth: int = 0) -> Any:
    """Return a value as one of plain data that can be hashed, compared and written as JSON."""
    make = _PLAIN.get(type(value))
    if make is not None:
        return make(value)
    if depth == _DEEPEST:
        return type(value).__name__
    if isinstance(value, list | tuple | Row):
        return tuple([comparable(each, depth + 1) for each in value])
    if isinstance(value, dict):
        return tuple([(comparable(key, depth + 1), comparable(value[key], depth + 1)) for key in value])
    if isinstance(value, set | frozenset):
        return tuple(sorted([comparable(each, depth + 1) for each in value], key=repr))
    if is_dataclass(value):
        return tuple([comparable(getattr(value, field.name), depth + 1) for field in fields(value)])
    attributes = getattr(value, "__dict__", None)
    if attributes is not None:
        return (type(value).__name__, comparable(attributes, depth + 1))
    return repr(value)


def _same(value: Any) -> Any:
    return value


_PLAIN: Final[Mapping[type, Callable[[Any], Any]]] = {
    **dict.fromkeys((str, bool, type(None)), _same),
    int: lambda value: value if -(2**63) <= value < 2**63 else repr(value),
    # Floats that differ in their last digits only, as sums in another order do, are one number.
    float: lambda value: float(f"{value:.12g}") if value - value == 0 else repr(value),
}
