"""ClickSource: a stream of clicks without end, one a second, of four users on five pages.

Run as a program it prints clicks until Ctrl-C.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from onceproof.engine import Source, SplitReader, StreamExecutionEnvironment, Types

USERS = ("Mary", "Alice", "Bob", "Cary")
URLS = ("./home", "./cart", "./fav", "./prod?id=1", "./prod?id=2")
CLICK = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
"""The type of a click."""


class Click(NamedTuple):
    """Who clicked on what, and when, in milliseconds since 1970."""

    user: str
    url: str
    timestamp: int


def click_now() -> Click:
    """Return a click by chance, at this moment."""
    return Click(random.choice(USERS), random.choice(URLS), int(time.time() * 1000))


class ClickReader(SplitReader):
    """Gives a click each time the interval has passed."""

    position = None
    exhausted = False

    def __init__(self, per_second: float, click: Callable[[], Click | None]) -> None:
        self._interval = 1 / per_second
        self._click = click
        self._due = time.monotonic() + self._interval

    def read(self, limit: int) -> list[Any]:
        """Return one click, with its own timestamp; none before the next is due."""
        now = time.monotonic()
        if now < self._due:
            return []
        self._due = max(self._due + self._interval, now)
        click = self._click()
        if click is None:
            self.exhausted = True
            return []
        return [(tuple(click), click.timestamp)]

    @property
    def retry_ms(self) -> int:
        return max(1, int(1000 * (self._due - time.monotonic())))


class ClickSource(Source):
    """Clicks without end.

    Args:
        per_second: how many clicks a second.
        click: makes each click; where it returns None the stream ends.
    """

    is_bounded = False
    can_be_replayed = False

    def __init__(self, per_second: float = 1.0, click: Callable[[], Click | None] = click_now) -> None:
        self._per_second = per_second
        self._click = click

    def splits(self) -> Sequence[str]:
        return ["clicks"]

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        return ClickReader(self._per_second, self._click)


def main() -> None:
    """Print clicks without end."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.from_source(ClickSource(), None, "clicks", CLICK).print()
    env.execute("clicks")


if __name__ == "__main__":
    main()
