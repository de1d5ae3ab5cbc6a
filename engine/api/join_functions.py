"""The functions by which two streams are joined in one keyed window (Flink: JoinedStreams, CoGroupedStreams).

Rules:

- As in Flink, a window join is no operator of its own. The values of both streams are tagged with their side
  and go through one keyed window; a window function then separates them by side. So windows, triggers,
  evictors and lateness mean what they mean anywhere.
- A join is a co-group whose function makes all pairs: a key that one side lacks in a window emits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from onceproof.engine.connected_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from onceproof.engine.functions import Function, KeySelector, MapFunction, RuntimeContext
from onceproof.engine.graph import InvalidJob
from onceproof.engine.types import Types
from onceproof.engine.types.wrapped import nullable
from onceproof.engine.windows.window_functions import WindowFunction

if TYPE_CHECKING:
    from onceproof.engine.types import TypeInformation

Selector: TypeAlias = Callable[[Any], Any]
FIRST, SECOND = 0, 1


def tagged_type(first: TypeInformation | None, second: TypeInformation | None) -> TypeInformation:
    """Return the type of a tagged value of two streams: (side, first, second)."""
    types = [nullable(each or Types.DYNAMIC()) for each in (first, second)]
    return Types.TUPLE([Types.BYTE(), *types])


class TagWithSide(MapFunction):
    """Makes (side, first, second) of a value, with None in the place of the other side."""

    def __init__(self, side: int) -> None:
        self._side = side

    def map(self, value: Any) -> tuple[int, Any, Any]:
        return (FIRST, value, None) if self._side == FIRST else (SECOND, None, value)


class KeyOfTagged(KeySelector):
    """Selects the key of a tagged value by the selector of its side."""

    def __init__(self, selectors: tuple[Selector, Selector]) -> None:
        self._selectors = selectors

    def get_key(self, value: tuple[int, Any, Any]) -> Any:
        side = value[0]
        return self._selectors[side](value[1 + side])


class _CoGroup(WindowFunction):
    """Separates the values of a window by side and calls a CoGroupFunction with both lists."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def set_runtime_context(self, runtime_context: RuntimeContext) -> None:
        super().set_runtime_context(runtime_context)
        function: Function = self._function
        function.set_runtime_context(runtime_context)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function.open(runtime_context)

    def close(self) -> None:
        self._function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[tuple[int, Any, Any]]) -> Iterable[Any] | None:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for value in inputs:
            side = value[0]
            sides[side].append(value[1 + side])
        return self.evaluate(*sides)

    def evaluate(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self._function.co_group(first, second)
        return results


class _Join(_CoGroup):
    """Makes one value of each pair with a JoinFunction."""

    def evaluate(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        join = self._function.join
        return (join(one, other) for one in first for other in second)


class _FlatJoin(_CoGroup):
    """Makes any number of values of each pair with a FlatJoinFunction."""

    def evaluate(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        join = self._function.join
        return (result for one in first for other in second for result in join(one, other) or ())


def co_group_function(function: object) -> WindowFunction:
    """Return the window function that calls a CoGroupFunction."""
    if not isinstance(function, CoGroupFunction):
        raise InvalidJob(f"apply of co_group takes a CoGroupFunction, not {function!r}")
    return _CoGroup(function)


def join_function(function: object) -> WindowFunction:
    """Return the window function that calls a JoinFunction or a FlatJoinFunction for each pair."""
    if isinstance(function, JoinFunction):
        return _Join(function)
    if isinstance(function, FlatJoinFunction):
        return _FlatJoin(function)
    raise InvalidJob(f"apply of join takes a JoinFunction or a FlatJoinFunction, not {function!r}")
