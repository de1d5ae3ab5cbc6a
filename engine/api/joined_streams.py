"""Joins over windows (Flink: JoinedStreams, CoGroupedStreams).

PyFlink lacks them, so the names are Flink's Java API in snake_case::

    orders.join(payments).where(order_id).equal_to(paid_order).window(a_window_assigner).apply(Pair())

The rules this module lives by:

- As in Flink, nothing of it is an operator of its own: the values of both streams are tagged with their side,
  go through one keyed window, and a window function sorts them by side again. So windows, triggers, evictors
  and lateness mean what they mean anywhere.
- A join is a co-group whose function makes all pairs: a key that one side lacks in a window gives nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from onceproof.engine.api.adapters import key_of
from onceproof.engine.api.connected_streams import check_one_environment
from onceproof.engine.connected_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from onceproof.engine.functions import Function, KeySelector, MapFunction, RuntimeContext
from onceproof.engine.graph import InvalidJob
from onceproof.engine.types import Types
from onceproof.engine.types.wrapped import nullable
from onceproof.engine.windows.functions import WindowFunction

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream
    from onceproof.engine.api.windowed_stream import WindowedStream
    from onceproof.engine.types import TypeInformation
    from onceproof.engine.windows.assigners import WindowAssigner
    from onceproof.engine.windows.evictors import Evictor
    from onceproof.engine.windows.triggers import Trigger

Selector = Callable[[Any], Any]
FIRST, SECOND = 0, 1


class _WithWindow:
    """Two streams by key and window; what is said about the windows is as of any windowed stream."""

    def __init__(self, windowed: WindowedStream) -> None:
        self._windowed = windowed

    def trigger(self, trigger: Trigger) -> Self:
        """Work windows out when this says so, instead of the assigner's own trigger."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Leave some of the values out; they are of both streams, in the order in which they came."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep windows so many milliseconds longer, for values that come late."""
        self._windowed.allowed_lateness(time_ms)
        return self


class CoGroupedWindows(_WithWindow):
    """Two streams by key and window (Flink: CoGroupedStreams.WithWindow)."""

    def apply(self, function: CoGroupFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Work windows out from the values of both streams."""
        if not isinstance(function, CoGroupFunction):
            raise InvalidJob(f"apply of co_group takes a CoGroupFunction, not {function!r}")
        return self._windowed.apply(_CoGroup(function), output_type)


class JoinedWindows(_WithWindow):
    """Two streams by key and window (Flink: JoinedStreams.WithWindow)."""

    def apply(
        self, function: JoinFunction | FlatJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Make values of all pairs in a window."""
        if isinstance(function, JoinFunction):
            return self._windowed.apply(_Join(function), output_type)
        if isinstance(function, FlatJoinFunction):
            return self._windowed.apply(_FlatJoin(function), output_type)
        raise InvalidJob(f"apply of join takes a JoinFunction or a FlatJoinFunction, not {function!r}")


class _BothStreams:
    """Two streams of which nothing more is said yet."""

    _method: str
    _windows: Callable[[WindowedStream], Any]

    def __init__(self, first: DataStream, second: DataStream) -> None:
        if not hasattr(second, "_upstreams"):
            raise InvalidJob(f"{self._method} takes a DataStream, not {second!r}")
        check_one_environment(self._method, first, second)
        self._streams = (first, second)

    def where(self, key_selector: Selector | KeySelector, key_type: TypeInformation | None = None) -> Where:
        """Say how the first stream is keyed; the type is that of the keys of both."""
        return Where(self._streams, key_of(key_selector), key_type, type(self)._windows)


class CoGroupedStreams(_BothStreams):
    """Two streams that are to be grouped together (Flink: CoGroupedStreams)."""

    _method = "co_group"
    _windows = CoGroupedWindows


class JoinedStreams(_BothStreams):
    """Two streams that are to be joined (Flink: JoinedStreams)."""

    _method = "join"
    _windows = JoinedWindows


class Where:
    """Two streams, the first of them keyed (Flink: JoinedStreams.Where)."""

    def __init__(
        self,
        streams: tuple[DataStream, DataStream],
        selector: Selector,
        key_type: TypeInformation | None,
        windows: Callable[[WindowedStream], Any],
    ) -> None:
        self._streams = streams
        self._selector = selector
        self._key_type = key_type
        self._windows = windows

    def equal_to(self, key_selector: Selector | KeySelector) -> EqualTo:
        """Say how the second stream is keyed."""
        selectors = (self._selector, key_of(key_selector))
        return EqualTo(self._streams, selectors, self._key_type, self._windows)


class EqualTo:
    """Two keyed streams (Flink: JoinedStreams.Where.EqualTo)."""

    def __init__(
        self,
        streams: tuple[DataStream, DataStream],
        selectors: tuple[Selector, Selector],
        key_type: TypeInformation | None,
        windows: Callable[[WindowedStream], Any],
    ) -> None:
        self._streams = streams
        self._selectors = selectors
        self._key_type = key_type
        self._windows = windows

    def window(self, assigner: WindowAssigner) -> Any:
        """Cut both streams into windows; gives JoinedWindows or CoGroupedWindows."""
        first, second = self._streams
        types = [nullable(each.get_type() or Types.DYNAMIC()) for each in self._streams]
        tagged_type = Types.TUPLE([Types.BYTE(), *types])
        both = first.map(_Tag(FIRST), tagged_type).union(second.map(_Tag(SECOND), tagged_type))
        return self._windows(both.key_by(_KeyOfTagged(self._selectors), self._key_type).window(assigner))


class _Tag(MapFunction):
    """Puts a value into the place of its side: (side, first, second)."""

    def __init__(self, side: int) -> None:
        self._side = side

    def map(self, value: Any) -> tuple[int, Any, Any]:
        return (FIRST, value, None) if self._side == FIRST else (SECOND, None, value)


class _KeyOfTagged(KeySelector):
    """The key of a tagged value, as its own side says."""

    def __init__(self, selectors: tuple[Selector, Selector]) -> None:
        self._selectors = selectors

    def get_key(self, value: tuple[int, Any, Any]) -> Any:
        side = value[0]
        return self._selectors[side](value[1 + side])


class _CoGroup(WindowFunction):
    """Sorts the values of a window by side, and hands them to a function of the user's."""

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
        return self.work_out(*sides)

    def work_out(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self._function.co_group(first, second)
        return results


class _Join(_CoGroup):
    """Makes one value of each pair."""

    def work_out(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        join = self._function.join
        return (join(one, other) for one in first for other in second)


class _FlatJoin(_CoGroup):
    """Makes any number of values of each pair."""

    def work_out(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        join = self._function.join
        return (result for one in first for other in second for result in join(one, other) or ())
