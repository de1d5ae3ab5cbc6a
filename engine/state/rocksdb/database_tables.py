"""The tables of the database backend: values, lists and maps.

The rules this module lives by:

- A value is checked against its type when it is written (a hashmap backend checks in the snapshot).
- A read returns a new object: changing it has no effect until it is written.
- Appending to a list does not read it: each element is a key of its own, with an ascending number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from onceproof.engine.java_hashes import InvalidKey
from onceproof.engine.state.file_envelope import StateError, pickle_refused
from onceproof.engine.state.rocksdb.databases import OpenDatabase
from onceproof.engine.state.rocksdb.layout import (
    EntryLayout,
    after_prefix,
    canonical_form,
    pack_group,
    pack_sequence,
)
from onceproof.engine.types import NotDescribable, PickleForbidden, TypeInformation, WrongValue

_WRONG: Final = (WrongValue, NotDescribable, InvalidKey, UnicodeEncodeError)

FEW_KEYS: Final = 100
"""Up to this number keys are deleted one by one; more as a range, which slows later reads a little."""
REMEMBERED_ENTRIES: Final = 1 << 17
"""How many entries all tables of a backend together cache the bytes of: some tens of megabytes."""


class ElementNumbers:
    """Numbers the elements of all lists of a backend, in ascending order."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 0

    def take(self, count: int) -> range:
        """Return the next ``count`` numbers."""
        first = self.next
        self.next += count
        return range(first, first + count)


class DatabaseTable:
    """Base of the tables: the prefix of an entry, and iteration over all entries."""

    __slots__ = (
        "_allow_pickle",
        "_beginnings",
        "_database",
        "_decode",
        "_encode",
        "_key_groups",
        "_limit",
        "_round",
        "_unit",
        "layout",
    )

    def __init__(
        self,
        database: OpenDatabase,
        layout: EntryLayout,
        unit: TypeInformation,
        key_groups: range,
        limit: int = REMEMBERED_ENTRIES,
        allow_pickle: bool = False,
    ) -> None:
        self._database = database
        self.layout = layout
        self._unit = unit
        self._allow_pickle = allow_pickle
        self._encode = unit.encoder(allow_pickle)
        self._decode = self.decoder_of(unit)
        self._key_groups = key_groups
        self._limit = limit
        self._beginnings: dict[Any, bytes] = {}
        self._round = self._seek_entries()

    def decoder_of(self, kind: TypeInformation) -> Callable[[bytes], Any]:
        """Return the function that decodes a value of the state; it says what a job must allow."""
        decode = kind.decoder(self._allow_pickle)
        if not kind.contains_pickle:
            return decode

        def decode_any(data: bytes) -> Any:
            try:
                return decode(data)
            except PickleForbidden:
                raise pickle_refused(self._name) from None
            except (ValueError, RecursionError) as error:
                raise StateError(f"{self._name}: the stored bytes cannot be read ({error})") from error

        return decode_any

    def begin(self, entry: Any) -> bytes:
        """Return the prefix of all keys of an entry."""
        found = self._beginnings.get(entry)
        return self._remember(entry) if found is None else found

    def _remember(self, entry: Any) -> bytes:
        try:
            found = self.layout.begin(entry)
        except _WRONG as error:
            raise StateError(f"{self._name}, key {entry!r}: {error}") from error
        if len(self._beginnings) >= self._limit:
            self._beginnings.clear()
        self._beginnings[entry] = found
        return found

    @property
    def _name(self) -> str:
        return f"state {self.layout.state!r}"

    def _wrong(self, entry: Any, value: Any, error: Exception) -> StateError:
        """Return an error that names the entry and its value."""
        try:
            self._unit.encode(value, self._allow_pickle)
        except _WRONG as found:
            error = found
        return StateError(f"{self._name}, key {entry!r}: {error}")

    def _encoded(self, entry: Any, value: Any) -> bytes:
        try:
            return self._encode(value)
        except _WRONG as error:
            raise self._wrong(entry, value, error) from error

    def _prefixes(self) -> Iterator[bytes]:
        """Yield the prefix of the state in each key group."""
        for group in self._key_groups:
            yield pack_group(group) + self.layout.prefix

    def __iter__(self) -> Iterator[Any]:
        layout = self.layout
        for prefix in self._prefixes():
            last = b""
            for key, _ in self._database.scan(prefix):
                _, _, rest = layout.split(key)
                if key[:rest] != last:
                    last = key[:rest]
                    yield layout.entry(key)

    def next_entries(self, count: int) -> list[Any]:
        """Return the next entries after those of the last call, starting over at the end."""
        found = list(islice(self._round, count))
        if len(found) < count:
            self._round = self._seek_entries()
        return found

    def _seek_entries(self) -> Iterator[Any]:
        """Iterate over the entries with a seek for each: an open iterator would pin a database version."""
        layout, first_from = self.layout, self._database.first_from
        for prefix in self._prefixes():
            key = first_from(prefix)
            while key is not None and key.startswith(prefix):
                _, _, rest = layout.split(key)
                behind = key + b"\0" if rest == len(key) else after_prefix(key[:rest])
                yield layout.entry(key)
                key = None if behind is None else first_from(behind)

    def rewrite(self, decode: Callable[[bytes], Any], migrate: Callable[[Any], Any]) -> None:
        """Migrate every unit of the state to its new type."""
        for prefix in self._prefixes():
            scanned = self._database.scan(prefix)
            self._database.write((key, self._encode(migrate(decode(data)))) for key, data in scanned)

    def _clear(self, entry: Any) -> None:
        """Remove all keys of an entry."""
        found = [key for key, _ in self._database.scan(self.begin(entry))]
        if len(found) > FEW_KEYS:
            self._database.delete_range(found[0], found[-1])
            found = found[-1:]
        self._database.write((), found)


class ValueTable(DatabaseTable):
    """One value for each entry; operators use it like a dict."""

    __slots__ = ("_get", "_put")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._get = self._database.get
        self._put = self._database.put

    def get(self, entry: Any, default: Any = None, /) -> Any:
        """Return the value, or the default."""
        begin = self._beginnings.get(entry)
        data = self._get(self._remember(entry) if begin is None else begin)
        return default if data is None else self._decode(data)

    def pop(self, entry: Any, default: Any = None, /) -> Any:
        """Remove the value and return it, or return the default."""
        found = self.get(entry)
        if found is None:
            return default
        self._database.delete(self.begin(entry))
        return found

    def __getitem__(self, entry: Any, /) -> Any:
        found = self.get(entry)
        if found is None:
            raise KeyError(entry)
        return found

    def __setitem__(self, entry: Any, value: Any, /) -> None:
        begin = self._beginnings.get(entry)
        try:
            data = self._encode(value)
        except _WRONG as error:
            raise self._wrong(entry, value, error) from error
        self._put(self._remember(entry) if begin is None else begin, data)

    def __delitem__(self, entry: Any, /) -> None:
        begin = self.begin(entry)
        if self._get(begin) is None:
            raise KeyError(entry)
        self._database.delete(begin)

    def __contains__(self, entry: Any, /) -> bool:
        return self._get(self.begin(entry)) is not None

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ListTable(DatabaseTable):
    """A list for each entry; the unit is an element."""

    __slots__ = ("_sequence",)

    def __init__(self, sequence: ElementNumbers, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sequence = sequence

    def get(self, entry: Any) -> list[Any]:
        decode = self._decode
        return [decode(data) for _, data in self._database.scan(self.begin(entry))]

    def append(self, entry: Any, element: Any) -> None:
        (number,) = self._sequence.take(1)
        self._database.put(self.begin(entry) + pack_sequence(number), self._encoded(entry, element))

    def extend(self, entry: Any, elements: list[Any]) -> None:
        self._database.write(self._numbered(entry, elements))

    def put(self, entry: Any, elements: list[Any]) -> None:
        added = self._numbered(entry, elements)
        self._clear(entry)
        self._database.write(added)

    def clear(self, entry: Any) -> None:
        self._clear(entry)

    def _numbered(self, entry: Any, elements: list[Any]) -> list[tuple[bytes, bytes]]:
        begin, numbers = self.begin(entry), self._sequence.take(len(elements))
        return [
            (begin + pack_sequence(number), self._encoded(entry, element))
            for number, element in zip(numbers, elements, strict=True)
        ]


class MapTable(DatabaseTable):
    """A map for each entry; the unit is the value of a key."""

    __slots__ = ("_canonical", "_decode_key", "_encode_key")

    def __init__(self, map_key: TypeInformation, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._canonical = canonical_form(map_key)
        self._encode_key = map_key.encoder(self._allow_pickle)
        self._decode_key = self.decoder_of(map_key)

    def get(self, entry: Any, key: Any) -> Any:
        data = self._database.get(self._place(entry, key))
        return None if data is None else self._decode(data)

    def contains(self, entry: Any, key: Any) -> bool:
        return self._database.get(self._place(entry, key)) is not None

    def put(self, entry: Any, key: Any, value: Any) -> None:
        self._database.put(self._place(entry, key), self._encoded(entry, value))

    def put_all(self, entry: Any, values: Mapping[Any, Any]) -> None:
        self._database.write(
            [(self._place(entry, key), self._encoded(entry, value)) for key, value in values.items()]
        )

    def remove(self, entry: Any, key: Any) -> None:
        self._database.delete(self._place(entry, key))

    def items(self, entry: Any) -> list[tuple[Any, Any]]:
        begin = self.begin(entry)
        decode_key, decode, length = self._decode_key, self._decode, len(begin)
        return [(decode_key(key[length:]), decode(data)) for key, data in self._database.scan(begin)]

    def is_empty(self, entry: Any) -> bool:
        return next(self._database.scan(self.begin(entry)), None) is None

    def clear(self, entry: Any) -> None:
        self._clear(entry)

    def _place(self, entry: Any, key: Any) -> bytes:
        canonical = self._canonical
        try:
            data = self._encode_key(key if canonical is None else canonical(key))
        except _WRONG as error:
            raise StateError(f"{self._name}, key {entry!r}: the map's key {key!r}: {error}") from error
        return self.begin(entry) + data
