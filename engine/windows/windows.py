"""Windows as values (PyFlink: Window, TimeWindow, GlobalWindow), and how they are stored.

State and timers of a window are kept under it as a namespace. A namespace is plain data of a declared type,
so that a checkpoint can be read without running anything: a serializer turns a window into such data and
back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.types import TypeInformation, Types


class Window(Struct, frozen=True):
    """A set of records that are worked on together (PyFlink: Window). Equal if it is the same set."""

    def max_timestamp(self) -> int:
        """The greatest timestamp that still belongs to the window; its results carry it."""
        raise NotImplementedError(f"{type(self).__name__} must implement max_timestamp()")


class TimeWindow(Window, frozen=True, order=True):
    """All timestamps from ``start`` to just below ``end``, in milliseconds (PyFlink: TimeWindow)."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """The millisecond before the end."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two overlap, or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of a timestamp, where windows of a size begin at ``offset`` and repeat."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: WindowMergeCallback) -> None:
        """Tell the callback of each group of windows that overlap or touch, and of the window they become."""
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
    """The one window of everything (PyFlink: GlobalWindow)."""

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return _GLOBAL

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_WATERMARK


_GLOBAL = GlobalWindow()


class WindowMergeCallback(ABC):
    """Is told which windows become one (PyFlink: MergingWindowAssigner.MergeCallback)."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """These windows become this one."""


class WindowSerializer(ABC):
    """How windows of a kind are stored (ours; PyFlink: the serializers of windows)."""

    @property
    @abstractmethod
    def window_type(self) -> TypeInformation:
        """The type of what ``to_data`` gives; its values can be keys of a dict."""

    @abstractmethod
    def to_data(self, window: Any) -> Any:
        """The window as plain data."""

    @abstractmethod
    def from_data(self, data: Any) -> Any:
        """The window again."""


class TimeWindowSerializer(WindowSerializer):
    """A time window as (start, end) (PyFlink: TimeWindowSerializer)."""

    window_type = Types.TUPLE([Types.LONG(), Types.LONG()])

    def to_data(self, window: TimeWindow) -> tuple[int, int]:
        """Start and end."""
        return window.start, window.end

    def from_data(self, data: tuple[int, int]) -> TimeWindow:
        """From start and end."""
        return TimeWindow(*data)


class GlobalWindowSerializer(WindowSerializer):
    """The global window as 0, since there is only one (PyFlink: GlobalWindowSerializer)."""

    window_type = Types.BYTE()

    def to_data(self, window: GlobalWindow) -> int:
        """Always 0."""
        return 0

    def from_data(self, data: int) -> GlobalWindow:
        """The one there is."""
        return _GLOBAL
