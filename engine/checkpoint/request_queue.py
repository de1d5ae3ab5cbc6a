"""Decides which request for a checkpoint is next, and which is refused (Flink: CheckpointRequestDecider).

Rules:

- Savepoints come before checkpoints, forced requests before others, requests of users before periodic ones,
  older before younger.
- As many checkpoints as are allowed may be pending; only a forced request, which must be the first in the
  queue, begins beside them. While too many old checkpoints are still being deleted, none begins.
- A periodic request within the pause after a completion is dropped, and made again at the end of the pause.
  Other requests ignore the pause.
- The queue is bounded. Where it is full a periodic request gives way; where there is none in it, the new one
  is refused.
"""

from __future__ import annotations

from bisect import insort
from typing import Final

from msgspec import Struct

from onceproof.engine.messages import CHECKPOINT, Kind

MAX_QUEUED: Final = 1000


class CheckpointRequest(Struct, frozen=True):
    """A request of a user or of the interval.

    ``number`` names its outcome in RequestResolved; 0: no sender waits for it.
    """

    requested_ms: int
    kind: Kind = CHECKPOINT
    is_periodic: bool = False
    is_forced: bool = False
    number: int = 0
    drains: bool = False

    def rank(self) -> tuple[bool, bool, bool, int]:
        """Return the sort key of the queue: the lowest is next."""
        return self.kind == CHECKPOINT, not self.is_forced, self.is_periodic, self.requested_ms


class TooEarly(Struct, frozen=True):
    """The request is dropped: the pause lasts ``left_ms`` longer."""

    request: CheckpointRequest
    left_ms: int


class RequestQueue:
    """The requests that wait, the next one first."""

    __slots__ = ("_max_concurrent", "_max_queued", "_min_pause_ms", "queued")

    def __init__(self, max_concurrent: int, min_pause_ms: int, max_queued: int = MAX_QUEUED) -> None:
        self._max_concurrent = max_concurrent
        self._min_pause_ms = min_pause_ms
        self._max_queued = max_queued
        self.queued: list[CheckpointRequest] = []

    def submit(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Queue a request; return the request that is refused for it, which may be itself, or None."""
        queued = self.queued
        if len(queued) >= self._max_queued and not queued[-1].is_periodic:
            return request
        insort(queued, request, key=CheckpointRequest.rank)
        return queued.pop() if len(queued) > self._max_queued else None

    def next(
        self, now: int, pending: int, last_completion_ms: int | None, deleting: int = 0
    ) -> CheckpointRequest | TooEarly | None:
        """Remove and return the request that may begin now, or the one that is dropped; None if all wait.

        ``pending`` and ``deleting`` are numbers of checkpoints.
        """
        queued = self.queued
        if not queued or deleting > self._max_concurrent:
            return None
        first = queued[0]
        if first.is_forced:
            return queued.pop(0)
        if pending >= self._max_concurrent:
            return None
        if first.is_periodic and last_completion_ms is not None:
            left_ms = last_completion_ms + self._min_pause_ms - now
            if left_ms > 0:
                return TooEarly(queued.pop(0), left_ms)
        return queued.pop(0)

    def clear(self) -> list[CheckpointRequest]:
        """Empty the queue and return its requests."""
        dropped, self.queued = self.queued, []
        return dropped
