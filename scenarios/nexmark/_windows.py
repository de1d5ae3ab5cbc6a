"""What the windowed queries share: lengths of windows, and the windows of a time for the oracles.

The windows of the public queries are ten seconds long; sliding ones begin every five.
"""

from __future__ import annotations

from typing import Final

from onceproof.engine.durations import Time

SIZE_MS: Final = 10_000
SLIDE_MS: Final = 5_000
SIZE: Final = Time.milliseconds(SIZE_MS)
SLIDE: Final = Time.milliseconds(SLIDE_MS)


def start_of(time: int) -> int:
    """Return the start of the tumbling window of a time."""
    return time - time % SIZE_MS


def starts_of(time: int) -> tuple[int, int]:
    """Return the starts of the two sliding windows of a time."""
    latest = time - time % SLIDE_MS
    return latest, latest - SLIDE_MS


def start_sql(time: str) -> str:
    """Return SQL for the start of the tumbling window of a time."""
    return f"({time} - pmod({time}, {SIZE_MS}))"


def starts_sql(time: str) -> str:
    """Return SQL for an array of the starts of the two sliding windows of a time."""
    latest = f"{time} - pmod({time}, {SLIDE_MS})"
    return f"array({latest}, {latest} - {SLIDE_MS})"
