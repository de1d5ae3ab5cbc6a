"""What happens to a state in a trial: whether it expires, and whether what was restored is read.

Rules:

- An occurrence outlives the state: a trial asks for it at the end, and keeps no state of dead attempts.
- Reads are watched on the heap only, of states that functions use, and only where something was restored.
- A value that is replaced, or an entry that is removed, before it is read no longer counts as restored. After
  the first read none does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec


class Occurrence(msgspec.Struct, eq=False):
    """Whether something has happened."""

    happened: bool = False


class WatchedReads:
    """A table of any kind that notes when a restored entry is read."""

    __slots__ = ("_read", "_restored", "_table")

    def __init__(self, table: Any, restored: set[Any], read: Occurrence) -> None:
        self._table = table
        self._restored = restored
        self._read = read

    def _noted(self, entry: Any) -> Any:
        if entry in self._restored:
            self._read.happened = True
            self._restored.clear()
        return self._table

    def get(self, entry: Any, *key: Any) -> Any:
        return self._noted(entry).get(entry, *key)

    def contains(self, entry: Any, key: Any) -> bool:
        found: bool = self._noted(entry).contains(entry, key)
        return found

    def items(self, entry: Any) -> Any:
        return self._noted(entry).items(entry)

    def is_empty(self, entry: Any) -> bool:
        is_empty: bool = self._noted(entry).is_empty(entry)
        return is_empty

    def __getitem__(self, entry: Any) -> Any:
        return self._noted(entry)[entry]

    def __contains__(self, entry: Any) -> bool:
        return entry in self._noted(entry)

    def pop(self, entry: Any, default: Any) -> Any:
        self._restored.discard(entry)
        return self._table.pop(entry, default)

    def clear(self, entry: Any) -> None:
        self._restored.discard(entry)
        self._table.clear(entry)

    def __setitem__(self, entry: Any, value: Any) -> None:
        self._restored.discard(entry)
        self._table[entry] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __getattr__(self, name: str) -> Any:
        # Writes of lists and maps, which leave other elements of the entry as they were restored.
        return getattr(self._table, name)
