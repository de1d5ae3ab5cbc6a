"""From stored tables back to values: what must fit, and what is made of bytes.

What does not fit is told in one line that names the state, what was stored, what the job declares, and the
mend. Pickled state is refused unless the job allows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from engine.state.files import StateError
from engine.state.snapshot import EncodedTable, check_restored_type, describe, entry_type
from engine.types import TypeInformation

if TYPE_CHECKING:
    from engine.state.keyed import Registered


def check_stored(
    stored: EncodedTable, registered: Registered, key_type: TypeInformation, allow_pickle: bool
) -> None:
    """Refuse a stored table that is not what the job declares."""
    what = f"state {registered.name!r}"
    if stored.kind != registered.kind:
        raise StateError(f"{what} was stored as {stored.kind} state but the job declares {registered.kind}")
    check_restored_type(f"the key of {what}", stored.key_type, key_type, allow_pickle)
    declared = registered.namespace_type
    if (stored.namespace_type is None) != (declared is None):
        was = "without namespaces" if declared is not None else f"by {describe(stored.namespace_type)}"
        now = "without namespaces" if declared is None else f"by {declared.name}"
        raise StateError(f"{what} was stored {was} but the job declares it {now}: choose another name")
    if declared is not None:
        check_restored_type(f"the namespace of {what}", stored.namespace_type, declared, allow_pickle)
    check_restored_type(what, stored.value_type, registered.stored_type, allow_pickle)


def decode_groups(
    stored: EncodedTable, registered: Registered, key_type: TypeInformation
) -> Iterator[tuple[int, list[tuple[Any, Any]]]]:
    """Give the pairs of (entry, what is held for it), key group by key group."""
    entries, values = entry_type(key_type, registered.namespace_type), registered.stored_type
    decoder = values.entry_decoder(entries)
    unpack_entry, unpack_value = entries.unpacker(), values.unpacker()
    for group, data in stored.groups.items():
        try:
            pairs = decoder.decode(data)
            if unpack_entry is not None:
                pairs = [(unpack_entry(entry), value) for entry, value in pairs]
            if unpack_value is not None:
                pairs = [(entry, unpack_value(value)) for entry, value in pairs]
        except (msgspec.DecodeError, ValueError) as error:
            raise StateError(
                f"state {registered.name!r}, key group {group}: the stored bytes cannot be read ({error})"
            ) from error
        yield group, pairs
