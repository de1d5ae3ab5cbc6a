"""A quick check of whole buffers: whether all values already fit a simple type, so that none is converted.

Rules:

- Simple types are scalars, and tuples of simple types. For them the check is one loop over the buffer that
  calls nothing, written out for the type; the converters call functions for each value and each of its parts.
- The loop is made of the texts in this module and of whole numbers only. Nothing of a job's gets into it.
- It may say no to a value that fits; then the converter decides. It never says yes to one that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from onceproof.engine.elements import Record
from onceproof.engine.types.composite import TupleType
from onceproof.engine.types.information import TypeInformation
from onceproof.engine.types.scalars import PACK_FLOAT, UNPACK_FLOAT, IntegerType

Fits: TypeAlias = Callable[[list[Record]], bool]

_ALWAYS: Final = ""
_CONDITIONS: Final[dict[str, str]] = {
    "STRING": "type({0}) is str or {0} is None",
    "BOOLEAN": "type({0}) is bool",
    "BIG_INT": "type({0}) is int or {0} is None",
    "FLOAT": "type({0}) is float and unpack_float(pack_float({0}))[0] == {0}",
    "DOUBLE": "type({0}) is float",
    "CHAR": "type({0}) is str and len({0}) == 1",
    "BIG_DEC": "type({0}) is Decimal or {0} is None",
    "SQL_DATE": "type({0}) is date or {0} is None",
    "SQL_TIME": "type({0}) is time or {0} is None",
    "SQL_TIMESTAMP": "(type({0}) is datetime and {0}.tzinfo is None) or {0} is None",
    "BYTES": "type({0}) is bytes",
    "VOID": "{0} is None",
    "DYNAMIC": _ALWAYS,
    "PICKLED_BYTE_ARRAY": _ALWAYS,
}
_NAMES: Final[dict[str, Any]] = {
    "Decimal": Decimal,
    "date": date,
    "datetime": datetime,
    "pack_float": PACK_FLOAT,
    "time": time,
    "unpack_float": UNPACK_FLOAT,
}
_LOOP: Final = """
def fits(records):
    try:
        for v, _ in records:
{checks}
    except (OverflowError, ValueError):
        return False
    return True
"""
_FIELDS: Final = """
def fits(items):
    try:
        {variables} = items
{checks}
    except (OverflowError, ValueError):
        return False
    return True
"""
_CHECK: Final = "            if not ({}): return False"
_FIELD_CHECK: Final = "        if not ({}): return False"
_UNPACK: Final = "            {} = {}"


@lru_cache(maxsize=1024)
def quick_check(kind: TypeInformation) -> Fits | None:
    """Return the check of buffers for a type; None for one that is not simple, or that takes every value."""
    lines: list[str] = []
    if not _add_checks(kind, "v", lines) or not lines:
        return None
    fits: Fits = _made(_LOOP.format(checks="\n".join(lines)))
    return fits


def settled_kind(kind: TypeInformation | None) -> type | None:
    """Return the class of a declared type's values if none of them can change: scalars, or tuples of them.

    A tuple with a field of BYTES may hold a bytearray, which becomes bytes only when its buffer is checked.
    """
    if kind is None:
        return None
    is_tuple = isinstance(kind, TupleType)
    fields = kind.fields if isinstance(kind, TupleType) else (kind,)
    if not all(_condition(field, "v") and not (is_tuple and field.name == "BYTES") for field in fields):
        return None
    python_type: type = kind.python_type
    return python_type


def fields_check(fields: Sequence[TypeInformation]) -> Callable[[Sequence[Any]], bool] | None:
    """Return the check of the fields of one row, any of which may be None; None if one is not scalar."""
    lines = []
    variables = [f"v_{place}" for place in range(len(fields))]
    for variable, field in zip(variables, fields, strict=True):
        condition = _condition(field, variable)
        if condition is None:
            return None
        if condition:
            lines.append(_FIELD_CHECK.format(f"{variable} is None or {condition}"))
    if not variables:
        return None
    fits: Callable[[Sequence[Any]], bool] = _made(
        _FIELDS.format(variables=", ".join(variables) + ",", checks="\n".join(lines))
    )
    return fits


def _made(text: str) -> Any:
    made: dict[str, Any] = {}
    exec(compile(text, "<quick check>", "exec"), _NAMES.copy(), made)
    return made["fits"]


def _condition(kind: TypeInformation, variable: str) -> str | None:
    """Return the condition under which a value fits a scalar type; None for another type."""
    if isinstance(kind, IntegerType):
        smallest, largest = kind.limits
        return f"type({variable}) is int and {variable} >= {smallest} and {variable} <= {largest}"
    condition = _CONDITIONS.get(kind.name)
    return None if condition is None else condition.format(variable)


def _add_checks(kind: TypeInformation, variable: str, lines: list[str]) -> bool:
    """Append the lines that check ``variable``; return False if the type is not simple."""
    if isinstance(kind, TupleType):
        lines.append(_CHECK.format(f"type({variable}) is tuple and len({variable}) == {len(kind.fields)}"))
        parts = [f"{variable}_{place}" for place in range(len(kind.fields))]
        if parts:
            lines.append(_UNPACK.format(", ".join(parts) + ",", variable))
        return all(_add_checks(field, part, lines) for field, part in zip(kind.fields, parts, strict=True))
    condition = _condition(kind, variable)
    if condition:
        lines.append(_CHECK.format(condition))
    return condition is not None
