"""How long the processes of a job on trial are waited for.

Rules:

- A job that has shown nothing new for its time is stuck. One that goes on may take several times as long: the
  machine may be busy, and its verdict is that of a quiet one.
- It may not go on for ever: a job that fails and starts again shows something new each time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

TIMES_WITH_PROGRESS: Final = 5
"""How many times as long a job may take that shows something new again and again."""
_SECONDS_BETWEEN_LOOKS: Final = 1.0


class Patience:
    """The time that one process has.

    Args:
        seconds: the longest time without anything new.
        shown: returns what the job has shown so far; something new is something else.
    """

    def __init__(self, seconds: float, shown: Callable[[], object] = lambda: None) -> None:
        self._seconds = seconds
        self._shown = shown
        self._last = shown()
        self._changed = self._begun = time.monotonic()

    def is_over(self) -> bool:
        """Look at what the job has shown; return whether it has had its time."""
        now = time.monotonic()
        shown = self._shown()
        if shown != self._last:
            self._last, self._changed = shown, now
        return now - self._changed > self._seconds or now - self._begun > self._seconds * TIMES_WITH_PROGRESS

    @contextmanager
    def ended_by(self, kill: Callable[[], None]) -> Iterator[Callable[[], bool]]:
        """Call ``kill`` when the time is over; yield what returns whether it is not."""
        left = threading.Event()
        in_time = True

        def look() -> None:
            nonlocal in_time
            while not left.wait(min(_SECONDS_BETWEEN_LOOKS, self._seconds / 2)):
                if self.is_over():
                    in_time = False
                    kill()
                    return

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield lambda: in_time
        finally:
            left.set()
            thread.join()


def bytes_logged(path: Path) -> int:
    """Return how much a process, and those that log beside it, have written into its event log."""
    written = 0
    for each in path.parent.glob(f"{path.name}*"):
        # The code on trial may delete what is in the folder.
        with suppress(OSError):
            written += each.stat().st_size
    return written
