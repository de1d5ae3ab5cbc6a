"""Views of lists and maps in the accumulators of the user's aggregate functions (PyFlink: data_view).

In state an accumulator is plain data, so a view is put around its list or dict while a function is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final


class ListView:
    """A list in an accumulator (PyFlink: ListView)."""

    def __init__(self, content: Any = None) -> None:
        self.content: list[Any] = [] if content is None else content

    def get(self) -> Iterable[Any]:
        """Return the values."""
        return self.content

    def add(self, value: Any) -> None:
        """Add a value."""
        self.content.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Add values."""
        self.content.extend(values)

    def clear(self) -> None:
        """Remove all values."""
        self.content.clear()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListView) and self.content == other.content

    __hash__ = None  # type: ignore[assignment]


class MapView:
    """A map in an accumulator (PyFlink: MapView)."""

    def __init__(self, content: Any = None) -> None:
        self.content: dict[Any, Any] = {} if content is None else content

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return self.content.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self.content[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set the values of keys."""
        self.content.update(dict_value)

    def remove(self, key: Any) -> None:
        """Remove a key, if it is there."""
        self.content.pop(key, None)

    def contains(self, key: Any) -> bool:
        """Return whether a key is there."""
        return key in self.content

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return keys and values."""
        return self.content.items()

    def keys(self) -> Iterable[Any]:
        """Return the keys."""
        return self.content.keys()

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return self.content.values()

    def is_empty(self) -> bool:
        """Return whether there are no keys."""
        return not self.content

    def clear(self) -> None:
        """Remove all keys."""
        self.content.clear()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapView) and self.content == other.content

    __hash__ = None  # type: ignore[assignment]
    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[Any]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


_VIEWS: Final = (ListView, MapView)


def views_in(accumulator: Any) -> dict[int, type]:
    """Return the classes of the views in a new accumulator, by their place."""
    if not hasattr(accumulator, "__getitem__") or isinstance(accumulator, str | bytes | dict | MapView):
        return {}
    return {place: type(each) for place, each in enumerate(accumulator) if isinstance(each, _VIEWS)}


def put_views(accumulator: Any, views: Mapping[int, type]) -> None:
    """Put views around the plain data of an accumulator."""
    for place, view in views.items():
        accumulator[place] = view(accumulator[place])


def take_views(accumulator: Any, views: Mapping[int, type]) -> None:
    """Leave the plain data of an accumulator."""
    for place in views:
        accumulator[place] = accumulator[place].content
