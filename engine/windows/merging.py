"""The set of merging windows of a key (Flink: MergingWindowSet).

Each window has a *state window*, one of the windows it was made of, under which its contents are stored. So
when a window grows only this mapping changes, and a merge moves the contents of all merged windows but one.

Flink takes the first of a hash set as that one, so it leaves open in which order the records of merged
windows stand. The choice here is PyFlink's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from onceproof.engine.windows.assigners import MergingWindowAssigner
from onceproof.engine.windows.windows import TimeWindow, WindowMergeCallback

OnMerge: TypeAlias = Callable[[Any, list[Any], Any, list[Any]], None]
"""Called with the merged window, the windows it is made of, its state window, and the state windows whose
contents are to be moved to that one."""


class MergingWindowSet:
    """The windows of one key. ``has_changed``: the operator must store ``pairs`` again."""

    __slots__ = ("_assigner", "_state_windows", "has_changed")

    def __init__(self, assigner: MergingWindowAssigner, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._assigner = assigner
        self._state_windows: dict[Any, Any] = dict(pairs)
        self.has_changed = False

    def pairs(self) -> list[tuple[Any, Any]]:
        """Return each window with its state window."""
        return list(self._state_windows.items())

    def state_window(self, window: Any) -> Any:
        """Return the state window of a window; None if the window is not in the set."""
        return self._state_windows.get(window)

    def retire(self, window: Any) -> None:
        """Remove a window; raises KeyError if it is not in the set."""
        if self._state_windows.pop(window, None) is None:
            raise KeyError(f"window {window} is not in the set of windows in flight")
        self.has_changed = True

    def add(self, new: Any, on_merge: OnMerge) -> Any:
        """Add a window, merge it with others, and return the window that it is part of now."""
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
            old = (
                _in_order_of_merging(members, new)
                if len(members) > 2
                else [window for window in members if window != new]
            )
            kept = [state_windows.pop(window) for window in old]
            state_windows[merged] = kept[0]
            # If an existing window already covers the new one, nothing is merged.
            if old != [merged]:
                on_merge(merged, old, kept[0], kept[1:])
        if not merged_new:
            state_windows[new] = new
        return result


def _in_order_of_merging(members: list[Any], new: Any) -> list[Any]:
    """Return the members but the new one in the order of PyFlink's set, which is that of a set of hashes."""
    by_hash = {_hash(window): window for window in members if type(window) is TimeWindow}
    if len(by_hash) < len(members):
        return [window for window in members if window != new]
    hashes = set(by_hash)
    hashes.discard(_hash(new))
    return [by_hash[each] for each in hashes]


def _hash(window: TimeWindow) -> int:
    """Return the hash that a window has in PyFlink, before Python shortens it."""
    odd = (window.end << 1) + 1
    inverse = odd * odd * odd
    for _ in range(3):
        inverse *= 2 - odd * inverse
    return window.start + inverse


class _Groups(WindowMergeCallback):
    """Collects the groups of windows to merge."""

    def __init__(self) -> None:
        self.merged: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merged.append((list(to_be_merged), merge_result))
