"""What the queries share that work in windows: their lengths, a count, and the cutting of times in oracles.

The windows of the public queries are ten seconds long, those that slide begin every five.
"""

from __future__ import annotations

from typing import Any, Final

from onceproof.engine.durations import Time
from onceproof.engine.functions import AggregateFunction

SIZE_MS: Final = 10_000
SLIDE_MS: Final = 5_000
SIZE: Final = Time.milliseconds(SIZE_MS)
SLIDE: Final = Time.milliseconds(SLIDE_MS)


class Count(AggregateFunction):
    """Counts."""

    def create_accumulator(self) -> int:
        """Nothing yet."""
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        """One more."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """The count."""
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        """Both together."""
        return acc_a + acc_b


def start_of(time: int) -> int:
    """Return where the tumbling window of a time begins."""
    return time - time % SIZE_MS


def starts_of(time: int) -> tuple[int, int]:
    """Return where the two sliding windows of a time begin."""
    latest = time - time % SLIDE_MS
    return latest, latest - SLIDE_MS


def start_sql(time: str) -> str:
    """Return the beginning of the tumbling window of a time, in SQL."""
    return f"({time} - pmod({time}, {SIZE_MS}))"


def starts_sql(time: str) -> str:
    """Return the beginnings of the two sliding windows of a time as an array, in SQL."""
    latest = f"{time} - pmod({time}, {SLIDE_MS})"
    return f"array({latest}, {latest} - {SLIDE_MS})"
