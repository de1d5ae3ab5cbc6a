"""Counts of values in an accumulator: a dict from a key to a count that is never 0, and may be negative."""

from __future__ import annotations

from typing import Any


def change_count(counts: dict[Any, int], key: Any, change: int) -> int:
    """Change the count of a key, and return it."""
    count = counts.get(key, 0) + change
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)
    return count
