"""A pause that doubles from failure to failure, and begins anew after a success."""

from __future__ import annotations


class GrowingPause:
    """The pause between checkpoints at the end of a job, when only failures keep it from ending."""

    __slots__ = ("_failures", "_first_ms", "_least_ms", "_longest_ms", "until_ms")

    def __init__(self, first_ms: int, longest_ms: int, least_ms: int = 0) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._least_ms = least_ms
        self._failures = 0
        self.until_ms = 0
        """When the pause is over, by the driver's clock."""

    def failed(self, now: int) -> None:
        """Begin the next pause."""
        pause_ms = min(self._longest_ms, self._first_ms << min(self._failures, 20))
        self._failures += 1
        self.until_ms = now + max(pause_ms, self._least_ms)

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures = 0
