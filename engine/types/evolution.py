"""Schema evolution: migrates state from its stored type to the type that the job declares now.

The rules are those of Flink's POJOs:

- A dataclass or a row with names may gain fields (a dataclass field needs a default, a field of a row becomes
  None), lose fields, and change their order.
- The type of a field and the name of a class must stay.
- State may gain or lose a time to live.
- The same holds within lists, maps and tuples. Every other change is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from onceproof.engine.types.composite import ListType, MapType, TupleType
from onceproof.engine.types.dataclass import DataclassType
from onceproof.engine.types.information import TypeInformation
from onceproof.engine.types.row import RowType, make_row
from onceproof.engine.types.wrapped import LastAccessType, NullableType

Migration: TypeAlias = Callable[[Any], Any]
"""Converts a value read with the stored type into a value of the declared type."""


class Incompatible(TypeError):
    """The stored type cannot be migrated to the declared type. The message says why, in a few words."""


def migration_of(
    stored: TypeInformation, declared: TypeInformation, now: Callable[[], int]
) -> Migration | None:
    """Return the migration from a stored type to a declared one; None if the types are the same.

    Args:
        stored: the type in the snapshot.
        declared: the type in the job.
        now: the clock in milliseconds; the last access of values that gain a time to live.

    Raises:
        Incompatible: the stored type cannot be migrated.
    """
    if stored is declared:
        return None
    # Equal descriptors do not suffice: a stored dataclass is read as a row.
    if isinstance(stored, LastAccessType) or isinstance(declared, LastAccessType):
        return _with_last_access(stored, declared, now)
    if isinstance(stored, NullableType) or isinstance(declared, NullableType):
        return _nullable(stored, declared, now)
    way = _rebuilt(stored, declared, now)
    if way is None:
        raise Incompatible(f"it was {stored.name} and is {declared.name}")
    return way


def _rebuilt(stored: TypeInformation, declared: TypeInformation, now: Callable[[], int]) -> Migration | None:
    """Return the migration between containers of one kind; None if the types are not of one kind."""
    if isinstance(stored, ListType) and isinstance(declared, ListType) and stored.kind == declared.kind:
        return _of_list(migration_of(stored.element, declared.element, now))
    if isinstance(stored, MapType) and isinstance(declared, MapType):
        key = migration_of(stored.key, declared.key, now)
        if key is None:
            return _of_map(migration_of(stored.value, declared.value, now))
    elif isinstance(stored, TupleType) and isinstance(declared, TupleType):
        if len(stored.fields) == len(declared.fields):
            pairs = zip(stored.fields, declared.fields, strict=True)
            return _of_tuple([migration_of(one, other, now) for one, other in pairs])
    elif isinstance(stored, RowType) and isinstance(declared, RowType):
        if stored.names is not None and declared.names is not None:
            picks = _picks(stored.names, stored.fields, declared.names, declared.fields, _none, now)
            names = declared.names
            return lambda row: make_row(names, [pick(row) for pick in picks])
    elif isinstance(stored, DataclassType) and isinstance(declared, DataclassType):
        return _of_dataclass(stored, declared, now)
    return None


def _of_dataclass(stored: DataclassType, declared: DataclassType, now: Callable[[], int]) -> Migration | None:
    if stored.class_name != declared.class_name:
        return None
    default_of, build = declared.default_of, declared.build
    picks = _picks(stored.names, stored.fields, declared.names, declared.fields, default_of, now)
    return lambda row: build([pick(row) for pick in picks])


def _none(name: str) -> Callable[[], Any]:
    return lambda: None


def _picks(
    stored_names: tuple[str, ...],
    stored_fields: tuple[TypeInformation, ...],
    names: tuple[str, ...],
    fields: tuple[TypeInformation, ...],
    default_of: Callable[[str], Callable[[], Any] | None],
    now: Callable[[], int],
) -> list[Migration]:
    """Return for each declared field the function from the stored object to the field's value."""
    before = dict(zip(stored_names, stored_fields, strict=True))
    picks: list[Migration] = []
    for name, field in zip(names, fields, strict=True):
        if name in before:
            try:
                way = migration_of(before[name], field, now)
            except Incompatible as error:
                raise Incompatible(f"field {name!r}: {error}") from error
            picks.append(_picked(name, way))
        else:
            default = default_of(name)
            if default is None:
                raise Incompatible(f"field {name!r} is new and has no default: give it one")
            picks.append(_made(default))
    return picks


def _picked(name: str, way: Migration | None) -> Migration:
    if way is None:
        return lambda stored: getattr(stored, name)

    def pick(stored: Any) -> Any:
        value = getattr(stored, name)
        return None if value is None else way(value)

    return pick


def _made(default: Callable[[], Any]) -> Migration:
    return lambda stored: default()


def _of_list(way: Migration | None) -> Migration:
    return list if way is None else lambda values: [way(value) for value in values]


def _of_map(way: Migration | None) -> Migration:
    return dict if way is None else lambda values: {key: way(value) for key, value in values.items()}


def _of_tuple(ways: list[Migration | None]) -> Migration:
    return lambda values: tuple(
        [value if way is None else way(value) for value, way in zip(values, ways, strict=True)]
    )


def _with_last_access(
    stored: TypeInformation, declared: TypeInformation, now: Callable[[], int]
) -> Migration:
    before = stored.inner if isinstance(stored, LastAccessType) else stored
    after = declared.inner if isinstance(declared, LastAccessType) else declared
    way = migration_of(before, after, now) or _same
    if not isinstance(declared, LastAccessType):
        return lambda held: way(held[0])
    if isinstance(stored, LastAccessType):
        return lambda held: (way(held[0]), held[1])
    return lambda value: (way(value), now())


def _nullable(stored: TypeInformation, declared: TypeInformation, now: Callable[[], int]) -> Migration:
    before = stored.inner if isinstance(stored, NullableType) else stored
    after = declared.inner if isinstance(declared, NullableType) else declared
    if not isinstance(declared, NullableType):
        raise Incompatible(f"it was {stored.name} and is {declared.name}")
    way = migration_of(before, after, now) or _same
    return lambda value: None if value is None else way(value)


def _same(value: Any) -> Any:
    return value
