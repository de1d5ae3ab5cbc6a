"""Keyed state on the heap as its users see it: what they hold and what is stored are never the same object.

RocksDB encodes what is stored and decodes what is read. Here the heap does the same for its users, with
copies of what can change (``engine/owned.py``):

- A value that was read and then modified in place is not stored before ``update``, ``put`` or ``add``.
- A value that was stored and then modified stays as it was stored.

So a job has the same rows on every backend, and those of PyFlink, whose state holds bytes. In Java, Flink's
heap state differs: a function gets the stored object itself. State whose declared type cannot change is used
without copies, and so are the tables of operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from onceproof.engine.owned import ValueWatch, own
from onceproof.engine.state.descriptors import LIST, MAP
from onceproof.engine.state.tables import ListTable, MapTable, ValueTable


class IsolatedValues:
    """A table of values (see ``ValueTable``)."""

    __slots__ = ("_table",)

    def __init__(self, table: ValueTable) -> None:
        self._table = table

    def get(self, entry: Any) -> Any:
        return own(self._table.get(entry))

    def pop(self, entry: Any, default: Any) -> Any:
        return self._table.pop(entry, default)

    def __getitem__(self, entry: Any) -> Any:
        return own(self._table[entry])

    def __setitem__(self, entry: Any, value: Any) -> None:
        self._table[entry] = own(value)

    def __contains__(self, entry: Any) -> bool:
        return entry in self._table

    def __iter__(self) -> Iterator[Any]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class IsolatedLists:
    """A table of lists (see ``ListTable``)."""

    __slots__ = ("_table",)

    def __init__(self, table: ListTable) -> None:
        self._table = table

    def get(self, entry: Any) -> list[Any]:
        elements: list[Any] = own(self._table.get(entry))
        return elements

    def append(self, entry: Any, element: Any) -> None:
        self._table.append(entry, own(element))

    def extend(self, entry: Any, elements: list[Any]) -> None:
        self._table.extend(entry, own(elements))

    def put(self, entry: Any, elements: list[Any]) -> None:
        self._table.put(entry, own(elements))

    def clear(self, entry: Any) -> None:
        self._table.clear(entry)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._table)


class IsolatedMaps:
    """A table of maps (see ``MapTable``)."""

    __slots__ = ("_table",)

    def __init__(self, table: MapTable) -> None:
        self._table = table

    def get(self, entry: Any, key: Any) -> Any:
        return own(self._table.get(entry, key))

    def contains(self, entry: Any, key: Any) -> bool:
        return self._table.contains(entry, key)

    def put(self, entry: Any, key: Any, value: Any) -> None:
        self._table.put(entry, key, own(value))

    def put_all(self, entry: Any, values: Mapping[Any, Any]) -> None:
        self._table.put_all(entry, {key: own(value) for key, value in values.items()})

    def remove(self, entry: Any, key: Any) -> None:
        self._table.remove(entry, key)

    def items(self, entry: Any) -> list[tuple[Any, Any]]:
        items: list[tuple[Any, Any]] = own(self._table.items(entry))
        return items

    def is_empty(self, entry: Any) -> bool:
        return self._table.is_empty(entry)

    def clear(self, entry: Any) -> None:
        self._table.clear(entry)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._table)


class _LastRead:
    """What a function read last from a state, beside what is stored."""

    _handed: Any = None
    _stored: Any = None
    _watch: ValueWatch
    _where: str

    def watched_by(self, watch: ValueWatch, where: str) -> Self:
        """Tell ``watch`` of values that were modified in place and not stored; ``where`` names the state."""
        self._watch, self._where = watch, where
        watch.add(self)
        return self

    def handed(self, handed: Any, stored: Any) -> None:
        """Remember what a function holds from now on."""
        self.look()
        if handed == stored:
            self._handed, self._stored = handed, stored

    def written(self) -> None:
        """Forget it: the state has another value."""
        self._handed = self._stored = None

    def look(self) -> None:
        """Note it if what the function holds was modified."""
        if self._handed != self._stored:
            self._watch.note(f"{self._where} in place and did not update the state")
        self.written()


class _WatchedValues(IsolatedValues, _LastRead):
    def get(self, entry: Any) -> Any:
        handed = super().get(entry)
        self.handed(handed, self._table.get(entry))
        return handed

    def pop(self, entry: Any, default: Any) -> Any:
        self.written()
        return super().pop(entry, default)

    def __setitem__(self, entry: Any, value: Any) -> None:
        self.written()
        super().__setitem__(entry, value)


class _WatchedLists(IsolatedLists, _LastRead):
    def get(self, entry: Any) -> list[Any]:
        handed = super().get(entry)
        # The list itself is the function's; its elements are those of the state.
        self.handed(tuple(handed), tuple(self._table.get(entry)))
        return handed

    def put(self, entry: Any, elements: list[Any]) -> None:
        self.written()
        super().put(entry, elements)

    def clear(self, entry: Any) -> None:
        self.written()
        super().clear(entry)


class _WatchedMaps(IsolatedMaps, _LastRead):
    def get(self, entry: Any, key: Any) -> Any:
        handed = super().get(entry, key)
        self.handed(handed, self._table.get(entry, key))
        return handed

    def items(self, entry: Any) -> list[tuple[Any, Any]]:
        handed = super().items(entry)
        self.handed(tuple(handed), tuple(self._table.items(entry)))
        return handed

    def put(self, entry: Any, key: Any, value: Any) -> None:
        self.written()
        super().put(entry, key, value)

    def put_all(self, entry: Any, values: Mapping[Any, Any]) -> None:
        self.written()
        super().put_all(entry, values)

    def remove(self, entry: Any, key: Any) -> None:
        self.written()
        super().remove(entry, key)

    def clear(self, entry: Any) -> None:
        self.written()
        super().clear(entry)


def isolated(kind: str, table: Any, watch: ValueWatch | None = None, where: str = "") -> Any:
    """Return the table of a state of this kind as the functions of a job may use it.

    ``watch`` gets what functions modify in place; ``where`` begins its sentences.
    """
    plain, watched = _TABLES.get(kind, (IsolatedValues, _WatchedValues))
    return plain(table) if watch is None else watched(table).watched_by(watch, where)


_TABLES: Final[dict[str, tuple[Any, Any]]] = {
    LIST: (IsolatedLists, _WatchedLists),
    MAP: (IsolatedMaps, _WatchedMaps),
}
