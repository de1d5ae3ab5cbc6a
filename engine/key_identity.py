"""Which keys are the same: what stands for a key in tables, timers and caches.

Flink compares keys by type and value: 1, 1.0 and True are three keys, 0.0 and -0.0 are two, NaN is one, and
so are Decimal("1.0") and Decimal("1.00") two. Python's dicts compare otherwise. So operators identify a key
before they look it up, and functions get its value:

- Most keys stand for themselves: text, integers, bytes, dates, and tuples of them.
- A key that equals one of another type, or not itself, is a ``Distinct`` in tables: a tuple of its class and
  of what tells it apart. It is compared and hashed in C, and does not change when a mutable key does.
- Stored keys are always values, so what a snapshot holds does not depend on this module.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timezone
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from onceproof.engine.java_hashes import InvalidKey

PLAIN: Final = (str, int)
"""The classes of undeclared keys that stand for themselves and are common."""

_LONGEST_SHOWN: Final = 60


class Distinct(tuple[Any, ...]):
    """A key that Python would take for another one: its class, then what tells it apart."""

    __slots__ = ()


Identifier = Callable[[Any], Any]

_IDENTIFIERS: Final[dict[type, Identifier]] = {}
_VALUES: Final[dict[type, Callable[[Distinct], Any]]] = {}


def distinguish(kind: type, value_of_parts: Callable[[Distinct], Any], identifier: Identifier | None) -> None:
    """Say how keys of a class are identified and built again.

    ``identifier`` None: only a declared type identifies them.
    """
    _VALUES[kind] = value_of_parts
    if identifier is not None:
        _IDENTIFIERS[kind] = identifier


def value_of(identity: Any) -> Any:
    """Return the key that an identity stands for."""
    return _VALUES[identity[0]](identity) if type(identity) is Distinct else identity


def identity_of(key: Any) -> Any:
    """Return the identity of a key of no declared type; raises InvalidKey."""
    identify = _IDENTIFIERS.get(type(key))
    if identify is None:
        raise invalid_key(key, remedy_of(key))
    return identify(key)


def float_identity(key: float) -> Any:
    """Return the identity of a float among floats: -0.0 and NaN have one of their own."""
    if key:
        return key if key == key else _NAN
    return key if repr(key) == "0.0" else _NEGATIVE_ZERO


def invalid_key(key: Any, remedy: str) -> InvalidKey:
    """Return the error that a value cannot be a key."""
    shown = repr(key)
    if len(shown) > _LONGEST_SHOWN:
        shown = shown[: _LONGEST_SHOWN - 3] + "..."
    return InvalidKey(f"{shown} of type {type(key).__qualname__} cannot be a key: {remedy}")


def remedy_of(key: Any) -> str:
    """Return what to do about a key whose class cannot be one."""
    kind = type(key)
    if hasattr(key, "__dataclass_fields__"):
        mend = (
            "" if kind.__dataclass_params__.frozen else "declare its class with @dataclass(frozen=True), and "
        )
        name = kind.__qualname__
        return f"{mend}declare the type of the key: Types.DATACLASS({name}), or give a tuple of its fields"
    if isinstance(key, list | set | frozenset | dict | bytearray):
        return "it may change: give a tuple or bytes of its elements"
    if isinstance(key, str | int | float | bytes | tuple | date | time | Decimal):
        base = next(base for base in kind.__mro__ if base in _IDENTIFIERS)
        return f"give a plain {base.__name__}, not an object of a subclass"
    return "give text, a number, bytes, a date or time, a Decimal, a Row, or a tuple of them"


def _itself(key: Any) -> Any:
    return key


def _float(key: float) -> Any:
    if key.is_integer() or key != key:
        return Distinct((float, "nan" if key != key else repr(key)))
    return key


def _bool(key: bool) -> Any:
    return _TRUE if key else _FALSE


def _decimal(key: Decimal) -> Any:
    return Distinct((Decimal, str(key)))


def _moment(key: Any) -> Any:
    """Return the identity of a time or timestamp: equal moments at other offsets are other keys."""
    zone = key.tzinfo
    if key.fold or not (zone is None or type(zone) is timezone):
        raise invalid_key(key, "its zone is not a fixed offset: convert it to UTC")
    return key if zone is None else Distinct((type(key), key.replace(tzinfo=None), zone))


def _tuple(key: tuple[Any, ...]) -> Any:
    parts = [identity_of(part) for part in key]
    for part, field in zip(parts, key, strict=True):
        if part is not field:
            return Distinct((tuple, *parts))
    return key


def values_of(parts: tuple[Any, ...]) -> list[Any]:
    """Return the values of the parts of a composite key."""
    return [value_of(part) for part in parts]


_NAN: Final = Distinct((float, "nan"))
_NEGATIVE_ZERO: Final = Distinct((float, "-0.0"))
_TRUE: Final = Distinct((bool, True))
_FALSE: Final = Distinct((bool, False))

for _kind in (str, int, bytes, date, NoneType):
    _IDENTIFIERS[_kind] = _itself
distinguish(time, lambda parts: parts[1].replace(tzinfo=parts[2]), _moment)
distinguish(datetime, lambda parts: parts[1].replace(tzinfo=parts[2]), _moment)
distinguish(float, lambda parts: float(parts[1]), _float)
distinguish(bool, lambda parts: parts[1], _bool)
distinguish(Decimal, lambda parts: Decimal(parts[1]), _decimal)
distinguish(tuple, lambda parts: tuple(values_of(parts[1:])), _tuple)
