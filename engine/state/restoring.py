"""Checks stored tables against the job's declarations, and decodes them.

The rules this module lives by:

- A type may change as far as ``types/evolution.py`` can migrate it.
- A state that does not match is an error of one line: the state, what was stored, what the job declares, and
  the mend.
- A pickle among the values is refused unless the job allows pickled state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from onceproof.engine.state.file_envelope import StateError, pickle_refused
from onceproof.engine.state.stored import EncodedTable, TableDescription
from onceproof.engine.types import PickleForbidden, TypeInformation, from_descriptor
from onceproof.engine.types.evolution import Incompatible, Migration, migration_of
from onceproof.engine.types.information import Descriptor
from onceproof.engine.types.wrapped import nullable

if TYPE_CHECKING:
    from onceproof.engine.state.keyed import Registered


def check_restored_type(what: str, stored: Descriptor, declared: TypeInformation) -> None:
    """Raise StateError if the types differ."""
    if stored != declared.descriptor:
        raise other_type(what, stored, declared)


def other_type(what: str, stored: Descriptor, declared: TypeInformation, why: str = "") -> StateError:
    """Return the error that stored state cannot be read as the declared type."""
    return StateError(
        f"{what} was stored as {describe(stored)} but the job declares {declared.name}"
        f"{f' ({why})' if why else ''}: declare the stored type, or start without this state"
    )


def describe(descriptor: Descriptor) -> str:
    """Return the readable name of a stored type."""
    try:
        return from_descriptor(descriptor).name
    except ValueError:
        return f"{descriptor} (a type that this onceproof does not know)"


class Reader(msgspec.Struct, frozen=True):
    """How to read stored values: decode them as ``kind``, then ``migrate`` them (None: nothing to do).

    ``allow_pickle``: whether a value may be a pickle.
    """

    kind: TypeInformation
    migrate: Migration | None
    allow_pickle: bool


def reader_of(
    what: str,
    stored: Descriptor,
    declared: TypeInformation,
    allow_pickle: bool,
    now: Callable[[], int] | None,
) -> Reader:
    """Return how to read values of the stored type as values of the declared one.

    Args:
        what: names the state in errors.
        stored: the type descriptor in the snapshot.
        declared: the type in the job.
        allow_pickle: whether the job allows pickled state.
        now: the clock in milliseconds, for state that gains a time to live.

    Raises:
        StateError: the stored type cannot be migrated.
    """
    if stored == declared.descriptor:
        return Reader(declared, None, allow_pickle)
    try:
        kind = from_descriptor(stored)
        migrate = migration_of(kind, declared, now or no_clock)
    except (ValueError, Incompatible) as error:
        why = str(error) if isinstance(error, Incompatible) else ""
        raise other_type(what, stored, declared, why) from error
    return Reader(kind, migrate, allow_pickle)


def no_clock() -> int:
    """Raise StateError: the clock of a backend that has none."""
    raise StateError("state gets a time to live, but its backend has no clock")


def check_stored(
    stored: EncodedTable | TableDescription,
    registered: Registered,
    key_type: TypeInformation,
    allow_pickle: bool,
    now: Callable[[], int] | None,
) -> Reader:
    """Check a stored table against the registered state, and return how to read its values.

    Raises StateError if they do not match.
    """
    declared = registered.namespace_type
    if (
        declared is None is stored.namespace_type
        and stored.kind == registered.kind
        and stored.key_type == key_type.descriptor
        and stored.value_type == registered.stored_type.descriptor
    ):
        # The usual case. It skips building the error texts below, which would dominate a restore.
        return Reader(registered.stored_type, None, allow_pickle)
    what = f"state {registered.name!r}"
    if stored.kind != registered.kind:
        raise StateError(f"{what} was stored as {stored.kind} state but the job declares {registered.kind}")
    check_restored_type(f"the key of {what}", stored.key_type, key_type)
    if (stored.namespace_type is None) != (declared is None):
        was = "without namespaces" if declared is not None else f"by {describe(stored.namespace_type)}"
        now_is = "without namespaces" if declared is None else f"by {declared.name}"
        raise StateError(f"{what} was stored {was} but the job declares it {now_is}: choose another name")
    if declared is not None:
        check_restored_type(f"the namespace of {what}", stored.namespace_type, declared)
    return reader_of(what, stored.value_type, registered.stored_type, allow_pickle, now)


def identities_of(keys: list[Any], key_type: TypeInformation) -> list[Any]:
    """Return the identities of keys."""
    plain, identify = key_type.key_rule()
    if set(map(type, keys)).issubset(plain):
        return keys
    return [identify(key) for key in keys]


def decode_blocks(
    stored: EncodedTable, registered: Registered, key_type: TypeInformation, reader: Reader
) -> Iterator[tuple[int, list[Any], list[Any] | None, list[Any]]]:
    """Yield the blocks of a table: the key group, the keys, the namespaces if there are any, the values."""
    namespace_type, migrate = registered.namespace_type, reader.migrate
    kinds = [nullable(key_type), reader.kind]
    if namespace_type is not None:
        kinds.insert(1, namespace_type)
    decoder = reader.kind.block_decoder(kinds[0], namespace_type)
    unpackers = [kind.unpacker(reader.allow_pickle) for kind in kinds]
    for group, data in stored.groups.items():
        try:
            blocks = [
                [
                    column if unpack is None else [unpack(item) for item in column]
                    for column, unpack in zip(columns, unpackers, strict=True)
                ]
                for columns in decoder.decode(data)
            ]
            if any(len(set(map(len, columns))) > 1 for columns in blocks):
                raise ValueError("the columns of a block differ in length")
        except PickleForbidden:
            raise pickle_refused(f"state {registered.name!r}") from None
        except (ValueError, RecursionError) as error:
            raise unreadable_group(registered.name, group, error) from error
        for keys, *namespaces, values in blocks:
            held = values if migrate is None else [migrate(value) for value in values]
            yield group, keys, namespaces[0] if namespaces else None, held


def unreadable_group(name: str, group: int, error: Exception) -> StateError:
    """Return the error that the stored bytes of a key group are not what a snapshot writes."""
    return StateError(f"state {name!r}, key group {group}: the stored bytes cannot be read ({error})")
