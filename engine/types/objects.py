"""The self-describing forms of values that msgpack has no form for: a number for each class, and the parts.

Rules:

- A form takes a value apart into values that describe themselves, and makes an equal one of such parts. It
  takes exact classes: an object of a subclass may hold more than the class knows.
- Of classes that the job defines there are three forms: dataclasses and named tuples by field, enums by name.
  Their data names the class. A class is looked up in the modules that the process has loaded, and among
  those that the driver has sent along (``give_classes``). Nothing is imported, and neither ``__init__`` nor
  ``__new__`` nor ``__setstate__`` of the class is called, so data decides no more than the values of fields.
- An object whose class could not be found again in this way has no form, nor has one that says itself how it
  is pickled, or that keeps values outside of its fields where no form would find them.
- The numbers are stored in checkpoints: none is ever given to another class.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct


class Form(Struct, frozen=True):
    """How values of a class are taken apart and made; ``is_immutable``: a copy may share the value."""

    code: int
    parts_of: Callable[[Any], list[Any]]
    made_of: Callable[[list[Any]], Any]
    is_immutable: bool = False


class UnknownClass(ValueError):
    """Stored data names a class that this process has not loaded."""


_DATACLASS: Final = 22
_NAMED_TUPLE: Final = 23
_ENUM: Final = 24
_FACTORIES: Final[dict[str, Any]] = {
    kind.__name__: kind for kind in (list, dict, set, tuple, int, float, str, bytes, bool, bytearray, deque)
}
"""What may make the missing values of a defaultdict."""
_GIVEN: Final[dict[tuple[str, str], type]] = {}


def _pairs(values: dict[Any, Any]) -> list[Any]:
    return [part for pair in values.items() for part in pair]


def _dict_of(parts: list[Any]) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _clock_parts(value: datetime | time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _datetime(parts: list[Any]) -> datetime:
    year, month, day, hour, minute, second, microsecond, fold, zone = parts
    return datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)


def _time(parts: list[Any]) -> time:
    hour, minute, second, microsecond, fold, zone = parts
    return time(hour, minute, second, microsecond, zone, fold=fold)


def _zone(parts: list[Any]) -> timezone:
    offset, name = parts
    return timezone(offset) if name is None else timezone(offset, name)


def _default_dict(parts: list[Any]) -> defaultdict[Any, Any]:
    factory, *pairs = parts
    return defaultdict(None if factory is None else _FACTORIES[factory], _dict_of(pairs))


def _bytes(parts: list[Any]) -> bytes:
    (data,) = parts
    if type(data) is not bytes:
        raise TypeError("it is not bytes")
    return data


FORMS: Final[dict[type, Form]] = {
    bytearray: Form(26, lambda value: [bytes(value)], lambda parts: bytearray(_bytes(parts))),
    set: Form(9, list, set),
    frozenset: Form(10, list, frozenset),
    date: Form(5, lambda each: [each.year, each.month, each.day], lambda parts: date(*parts), True),
    time: Form(6, _clock_parts, _time, True),
    datetime: Form(7, lambda each: [each.year, each.month, each.day, *_clock_parts(each)], _datetime, True),
    timedelta: Form(
        11, lambda each: [each.days, each.seconds, each.microseconds], lambda parts: timedelta(*parts), True
    ),
    timezone: Form(12, lambda each: [*each.__getinitargs__(), None][:2], _zone, True),
    ZoneInfo: Form(13, lambda value: [value.key], lambda parts: ZoneInfo(*parts), True),
    Decimal: Form(8, lambda value: [str(value)], lambda parts: Decimal(*parts), True),
    complex: Form(15, lambda value: [value.real, value.imag], lambda parts: complex(*parts), True),
    Fraction: Form(16, lambda each: [each.numerator, each.denominator], lambda parts: Fraction(*parts), True),
    UUID: Form(17, lambda each: [each.bytes], lambda parts: UUID(bytes=_bytes(parts)), True),
    deque: Form(18, lambda each: [each.maxlen, *each], lambda parts: deque(parts[1:], parts[0])),
    OrderedDict: Form(19, _pairs, lambda parts: OrderedDict(_dict_of(parts))),
    Counter: Form(20, _pairs, lambda parts: Counter(_dict_of(parts))),
    bytes: Form(25, lambda value: [value], _bytes, True),
}
"""The forms by class; other modules add theirs with ``describe``."""

_DEFAULT_DICT: Final = 21


def describe(
    kind: type, code: int, parts_of: Callable[[Any], list[Any]], made_of: Callable[[list[Any]], Any]
) -> None:
    """Give a class a form.

    Args:
        made_of: makes an object of the parts; raises TypeError or ValueError where they do not fit.
    """
    FORMS[kind] = Form(code, parts_of, made_of)
    _MADE_OF[code] = made_of


def form_of(value: Any) -> Form | None:
    """Return the form of a value that msgpack does not carry as it is; None if it has none."""
    kind = type(value)
    found = FORMS.get(kind)
    if found is not None:
        return None if kind is ZoneInfo and value.key is None else found
    if kind is defaultdict:
        factory = value.default_factory
        is_known = factory is None or _FACTORIES.get(getattr(factory, "__name__", "")) is factory
        return _OF_DEFAULT_DICT if is_known else None
    if _loaded(kind.__module__, kind.__qualname__) is not kind:
        return None
    if _is_dataclass(kind):
        return _OF_DATACLASS
    if _is_named_tuple(kind):
        return None if getattr(value, "__dict__", None) else _OF_NAMED_TUPLE
    if issubclass(kind, enum.Enum) and kind.__members__.get(value.name) is value:
        return _OF_ENUM
    return None


def made_of(code: int, parts: list[Any]) -> Any:
    """Return the value of a form with these parts. Raises ValueError where they are none of the form's."""
    make = _MADE_OF.get(code)
    if make is None:
        raise ValueError(f"unknown extension {code} in a stored value")
    try:
        return make(parts)
    except UnknownClass:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise ValueError(f"a stored value of extension {code} cannot be made: {error}") from error


def why_without_form(value: Any) -> str:
    """Return for a message why an object of a job's class has no form; empty where nothing is known."""
    kind = type(value)
    if not (_is_dataclass(kind) or _is_named_tuple(kind) or issubclass(kind, enum.Enum)):
        return ""
    if _loaded(kind.__module__, kind.__qualname__) is not kind:
        return f"module {kind.__module__} has no class {kind.__qualname__}: define it there by this name"
    return "it keeps more than its fields"


def give_classes(classes: Iterable[type]) -> None:
    """Make classes known under their names, where their module is not loaded: in the workers of Spark."""
    for kind in classes:
        _GIVEN[kind.__module__, kind.__qualname__] = kind


def classes_of_program() -> list[type]:
    """Return the classes with a form that the program itself defines, and its workers cannot import."""
    return list(_classes_within(vars(sys.modules["__main__"]), ""))


def _classes_within(space: Any, prefix: str) -> Iterable[type]:
    for name, kind in list(space.items()):
        if issubclass(type(kind), type) and (kind.__module__, kind.__qualname__) == (
            "__main__",
            prefix + name,
        ):
            if _is_dataclass(kind) or _is_named_tuple(kind) or issubclass(kind, enum.Enum):
                yield kind
            yield from _classes_within(vars(kind), f"{prefix}{name}.")


def _loaded(module: Any, name: Any) -> type | None:
    """Return the class of a name, if it is loaded. No attribute is asked for, because that can run code."""
    given = _GIVEN.get((module, name))
    if given is not None:
        return given
    found: Any = sys.modules.get(module)
    if not issubclass(type(found), ModuleType):
        return None
    space = object.__getattribute__(found, "__dict__")
    for part in name.split("."):
        found = space.get(part)
        if not issubclass(type(found), type):
            return None
        space = type.__getattribute__(found, "__dict__")
    return found  # type: ignore[no-any-return]


def _class_named(module: Any, name: Any) -> type:
    if type(module) is not str or type(name) is not str:
        raise ValueError("the name of a class is not text")
    kind = _loaded(module, name)
    if kind is None:
        raise UnknownClass(
            f"a stored value is of class {name} of module {module}, which this program has not loaded:"
            " import it at the top of the program, under the name that it had"
        )
    return kind


def _plain_construction(kind: type) -> bool:
    """Return whether the class leaves to Python how its objects are pickled."""
    return all(getattr(kind, each) is getattr(object, each) for each in ("__reduce__", "__reduce_ex__"))


# Dataclasses: the class, the names and the values of the fields that are set, and what else is set.


def _is_dataclass(kind: type) -> bool:
    return (
        dataclasses.is_dataclass(kind)
        and kind.__new__ is object.__new__
        and _plain_construction(kind)
        and _slots(kind) <= {field.name for field in dataclasses.fields(kind)}
    )


def _slots(kind: type) -> set[str]:
    found: set[str] = set()
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        found.update((slots,) if isinstance(slots, str) else slots)
    return found - {"__dict__", "__weakref__"}


def _parts_of_dataclass(value: Any) -> list[Any]:
    kind = type(value)
    names = [field.name for field in dataclasses.fields(kind) if hasattr(value, field.name)]
    others = {name: each for name, each in getattr(value, "__dict__", {}).items() if name not in names}
    return [kind.__module__, kind.__qualname__, names, [getattr(value, name) for name in names], others]


def _dataclass_of(parts: list[Any]) -> Any:
    module, name, names, values, others = parts
    kind: Any = _class_named(module, name)
    if not _is_dataclass(kind):
        raise TypeError(f"{name} is not the dataclass that it was")
    stored = dict(zip(names, values, strict=True))
    made = object.__new__(kind)
    fields = dataclasses.fields(kind)
    for field in fields:
        if field.name in stored:
            object.__setattr__(made, field.name, stored[field.name])
        elif field.default_factory is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default_factory())
        elif field.default is not dataclasses.MISSING:
            object.__setattr__(made, field.name, field.default)
        elif field.init:
            raise TypeError(f"field {field.name!r} of {name} is new and has no default: give it one")
    if others:
        known = {field.name for field in fields}
        vars(made).update({str(each): value for each, value in others.items() if each not in known})
    return made


# Named tuples: the class, and names and values of the fields.


def _is_named_tuple(kind: type) -> bool:
    names = getattr(kind, "_fields", None)
    return issubclass(kind, tuple) and type(names) is tuple and _plain_construction(kind)


def _parts_of_named_tuple(value: Any) -> list[Any]:
    kind = type(value)
    return [kind.__module__, kind.__qualname__, list(kind._fields), list(value)]


def _named_tuple_of(parts: list[Any]) -> Any:
    module, name, names, values = parts
    kind: Any = _class_named(module, name)
    if not _is_named_tuple(kind):
        raise TypeError(f"{name} is not the named tuple that it was")
    stored = dict(zip(names, values, strict=True))
    defaults = getattr(kind, "_field_defaults", {})
    missing = [each for each in kind._fields if each not in stored and each not in defaults]
    if missing:
        raise TypeError(f"field {missing[0]!r} of {name} is new and has no default: give it one")
    return tuple.__new__(kind, [stored[each] if each in stored else defaults[each] for each in kind._fields])


# Enums: the class, and the name of the member.


def _parts_of_enum(value: Any) -> list[Any]:
    kind = type(value)
    return [kind.__module__, kind.__qualname__, value.name]


def _enum_of(parts: list[Any]) -> Any:
    module, name, member = parts
    kind: Any = _class_named(module, name)
    if not issubclass(kind, enum.Enum):
        raise TypeError(f"{name} is not the enum that it was")
    if member not in kind.__members__:
        raise TypeError(f"enum {name} has no member {member!r} any more")
    return kind.__members__[member]


_OF_DATACLASS: Final = Form(_DATACLASS, _parts_of_dataclass, _dataclass_of)
_OF_NAMED_TUPLE: Final = Form(_NAMED_TUPLE, _parts_of_named_tuple, _named_tuple_of)
_OF_ENUM: Final = Form(_ENUM, _parts_of_enum, _enum_of, True)
_OF_DEFAULT_DICT: Final = Form(
    _DEFAULT_DICT,
    lambda each: [each.default_factory and each.default_factory.__name__, *_pairs(each)],
    _default_dict,
)
_MADE_OF: Final[dict[int, Callable[[list[Any]], Any]]] = {
    form.code: form.made_of
    for form in (*FORMS.values(), _OF_DATACLASS, _OF_NAMED_TUPLE, _OF_ENUM, _OF_DEFAULT_DICT)
}
