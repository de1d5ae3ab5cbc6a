"""Windows as values (PyFlink: Window, TimeWindow, GlobalWindow), and their serializers.

State and timers of a window have the window as namespace. A namespace is plain data of a declared type, so
that a checkpoint can be read without running code; a serializer converts windows to such data and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.type_parameters import TypeParameters
from onceproof.engine.types import TypeInformation, Types


class Window(Struct, frozen=True):
    """A group of records that are processed together, compared by value (PyFlink: Window)."""

    def max_timestamp(self) -> int:
        """Return the greatest timestamp of the window in milliseconds; its results carry it."""
        raise NotImplementedError(f"{type(self).__name__} must implement max_timestamp()")


class TimeWindow(Window, frozen=True, order=True):
    """The timestamps from ``start`` (inclusive) to ``end`` (exclusive), in ms (PyFlink: TimeWindow)."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """Return ``end - 1``."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the two windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that covers both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window of a timestamp.

        Args:
            timestamp: in milliseconds.
            offset: the start of one of the windows, in milliseconds.
            window_size: the length of the windows, in milliseconds.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: WindowMergeCallback) -> None:
        """Call ``callback.merge`` for each group of windows that overlap or touch."""
        group: list[TimeWindow] = []
        cover: TimeWindow | None = None
        for window in sorted(set(windows)):
            if cover is not None and cover.intersects(window):
                group.append(window)
                cover = cover.cover(window)
                continue
            if cover is not None and len(group) > 1:
                callback.merge(group, cover)
            group, cover = [window], window
        if cover is not None and len(group) > 1:
            callback.merge(group, cover)


class GlobalWindow(Window, frozen=True):
    """The one window of all records (PyFlink: GlobalWindow)."""

    @staticmethod
    def get() -> GlobalWindow:
        """Return the global window."""
        return _GLOBAL

    def max_timestamp(self) -> int:
        """Return MAX_WATERMARK."""
        return MAX_WATERMARK


_GLOBAL = GlobalWindow()


class CountWindow(Window, frozen=True, order=True):
    """The window of a number of records of a key; ``id`` counts from 0 (PyFlink: CountWindow)."""

    id: int

    def max_timestamp(self) -> int:
        """Return MAX_WATERMARK."""
        return MAX_WATERMARK


class WindowMergeCallback(TypeParameters, ABC):
    """Receives the windows to merge (PyFlink: MergingWindowAssigner.MergeCallback)."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Merge these windows into ``merge_result``."""


class WindowSerializer(TypeParameters, ABC):
    """Converts windows of a kind to plain data and back (PyFlink: the serializers of windows)."""

    @property
    @abstractmethod
    def window_type(self) -> TypeInformation:
        """The type of the data; its values must be hashable."""

    @abstractmethod
    def to_data(self, window: Any) -> Any:
        """Return the window as plain data."""

    @abstractmethod
    def from_data(self, data: Any) -> Any:
        """Return the window of plain data."""


class TimeWindowSerializer(WindowSerializer):
    """A time window as (start, end) (PyFlink: TimeWindowSerializer)."""

    window_type = Types.TUPLE([Types.LONG(), Types.LONG()])

    def to_data(self, window: TimeWindow) -> tuple[int, int]:
        """Return (start, end)."""
        return window.start, window.end

    def from_data(self, data: tuple[int, int]) -> TimeWindow:
        """Return the window of (start, end)."""
        return TimeWindow(*data)


class GlobalWindowSerializer(WindowSerializer):
    """The global window as 0 (PyFlink: GlobalWindowSerializer)."""

    window_type = Types.BYTE()

    def to_data(self, window: GlobalWindow) -> int:
        """Return 0."""
        return 0

    def from_data(self, data: int) -> GlobalWindow:
        """Return the global window."""
        return _GLOBAL


class CountWindowSerializer(WindowSerializer):
    """A count window as its number (PyFlink: CountWindowSerializer)."""

    window_type = Types.LONG()

    def to_data(self, window: CountWindow) -> int:
        """Return the number of the window."""
        return window.id

    def from_data(self, data: int) -> CountWindow:
        """Return the window of a number."""
        return CountWindow(data)
