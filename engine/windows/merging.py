"""Windows that become one, and where their contents stay meanwhile (Flink: MergingWindowSet).

A window that grows would have to carry its contents along each time. Instead each window of the set has a
*state window*, one of those it was made of, under which its contents are kept: growing changes the mapping
only, and merging moves the contents of all but one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from onceproof.engine.windows.assigners import MergingWindowAssigner
from onceproof.engine.windows.windows import WindowMergeCallback

OnMerge: TypeAlias = Callable[[Any, list[Any], Any, list[Any]], None]
"""Called with the new window, those it is made of, its state window, and those to empty into that one."""


class MergingWindowSet:
    """The windows of one key. ``has_changed`` says that ``pairs`` are to be stored anew."""

    __slots__ = ("_assigner", "_state_windows", "has_changed")

    def __init__(self, assigner: MergingWindowAssigner, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._assigner = assigner
        self._state_windows: dict[Any, Any] = dict(pairs)
        self.has_changed = False

    def pairs(self) -> list[tuple[Any, Any]]:
        """Each window with its state window."""
        return list(self._state_windows.items())

    def state_window(self, window: Any) -> Any:
        """Where the contents of a window are kept; None where there is no such window (any more)."""
        return self._state_windows.get(window)

    def retire(self, window: Any) -> None:
        """A window is over."""
        if self._state_windows.pop(window, None) is None:
            raise KeyError(f"window {window} is not in the set of windows in flight")
        self.has_changed = True

    def add(self, new: Any, on_merge: OnMerge) -> Any:
        """Add a window; give the one that it is part of now."""
        state_windows = self._state_windows
        if new in state_windows:
            return new
        groups = _Groups()
        self._assigner.merge_windows([*state_windows, new], groups)
        self.has_changed = True
        result = new
        merged_new = False
        for members, merged in groups.merged:
            if new in members:
                merged_new = True
                result = merged
            old = [window for window in members if window != new]
            kept = [state_windows.pop(window) for window in old]
            state_windows[merged] = kept[0]
            # A window that only swallows the new one, and stays as it is, has nothing to be told.
            if old != [merged]:
                on_merge(merged, old, kept[0], kept[1:])
        if not merged_new:
            state_windows[new] = new
        return result


class _Groups(WindowMergeCallback):
    """Remembers what is to be merged."""

    def __init__(self) -> None:
        self.merged: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merged.append((list(to_be_merged), merge_result))
