"""Restart strategies: whether and when a failed job is tried again (Flink: RestartBackoffTimeStrategy).

The job master reports each failure to the strategy first and asks it afterwards. It counts as Flink's does:

- fixed-delay counts all failures in the life of the job and never forgets one.
- failure-rate looks back from the time of asking: at what is allowed and one failure more.
- exponential-delay takes a failure at or before the restart that is planned for a part of the failure before
  it, and counts anew when the job has been quiet for long enough after a restart.

Time is an argument. Chance, which keeps jobs from restarting all at once, is an argument of the driver: a
number from 0 to below 1 for each call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from onceproof.engine.configuration import (
    ExponentialDelayRestarts,
    FailureRateRestarts,
    FixedDelayRestarts,
    RestartSettings,
)
from onceproof.engine.configuration.restart_options import MAX_EQUAL_ERRORS

Chance: TypeAlias = Callable[[], float]
"""Gives a number from 0 to below 1, each time another."""


class RestartStrategy(Protocol):
    """Decides on restarts. ``now`` is in milliseconds."""

    def notify_failure(self, now: int) -> bool:
        """A failure happened; returns whether it counts as a new attempt."""
        ...

    def can_restart(self, now: int) -> bool:
        """Whether the job may be restarted."""
        ...

    def backoff_ms(self, now: int) -> int:
        """How long to wait before the restart."""
        ...


class NoRestart:
    """The first failure is the last (Flink: NoRestartBackoffTimeStrategy)."""

    __slots__ = ()

    def notify_failure(self, now: int) -> bool:
        """Count the failure; each one is an attempt of its own."""
        return True

    def can_restart(self, now: int) -> bool:
        """Return False."""
        return False

    def backoff_ms(self, now: int) -> int:
        """Return 0: there is no restart to wait for."""
        return 0


class FixedDelayRestart:
    """So many restarts in the life of the job, each after the same delay.

    Flink: FixedDelayRestartBackoffTimeStrategy; the count is never reset.
    """

    __slots__ = ("_failures", "_settings")

    def __init__(self, settings: FixedDelayRestarts) -> None:
        self._settings = settings
        self._failures = 0

    def notify_failure(self, now: int) -> bool:
        """Count the failure; each one is an attempt of its own."""
        self._failures += 1
        return True

    def can_restart(self, now: int) -> bool:
        """Whether no more failures than allowed have happened."""
        return self._failures <= self._settings.attempts

    def backoff_ms(self, now: int) -> int:
        """Return the configured delay."""
        return self._settings.delay_ms


class FailureRateRestart:
    """Restarts unless one failure more than allowed falls within the interval.

    Flink: FailureRateRestartBackoffTimeStrategy; a failure exactly one interval ago still counts.
    """

    __slots__ = ("_latest_failures", "_settings")

    def __init__(self, settings: FailureRateRestarts) -> None:
        self._settings = settings
        self._latest_failures: deque[int] = deque(maxlen=settings.max_failures_per_interval + 1)

    def notify_failure(self, now: int) -> bool:
        """Count the failure; each one is an attempt of its own."""
        self._latest_failures.append(now)
        return True

    def can_restart(self, now: int) -> bool:
        """Whether the oldest of the failures that together are too many is longer ago than the interval."""
        latest = self._latest_failures
        if len(latest) < self._settings.max_failures_per_interval + 1:
            return True
        return now - latest[0] > self._settings.interval_ms

    def backoff_ms(self, now: int) -> int:
        """Return the configured delay."""
        return self._settings.delay_ms


class ExponentialDelayRestart:
    """Restarts after waits that grow with each failure, give or take some chance.

    Flink: ExponentialDelayRestartBackoffTimeStrategy, its default with checkpointing.
    """

    __slots__ = ("_attempt", "_chance", "_restart_at_ms", "_settings")

    def __init__(self, settings: ExponentialDelayRestarts, chance: Chance) -> None:
        self._settings = settings
        self._chance = chance
        self._attempt = 0
        self._restart_at_ms: int | None = None
        """For when the last restart is or was planned."""

    def notify_failure(self, now: int) -> bool:
        """A failure before the planned restart is a part of the one that it is planned for."""
        planned_ms = self._restart_at_ms
        if planned_ms is not None:
            if now <= planned_ms:
                return False
            if now - planned_ms >= self._settings.reset_threshold_ms:
                self._attempt = 0
        self._restart_at_ms = now + self._wait_ms()
        self._attempt += 1
        return True

    def can_restart(self, now: int) -> bool:
        """Whether there have been no more failures than allowed since the last quiet time."""
        return self._attempt <= self._settings.attempts

    def backoff_ms(self, now: int) -> int:
        """What is left until the planned restart."""
        assert self._restart_at_ms is not None, "no failure has been notified"
        return max(0, self._restart_at_ms - now)

    def _wait_ms(self) -> int:
        settings = self._settings
        longest_ms = settings.max_backoff_ms
        try:
            wait_ms = int(settings.initial_backoff_ms * settings.backoff_multiplier**self._attempt)
        except OverflowError:
            return longest_ms
        spread_ms = int(wait_ms * settings.jitter_factor)
        if spread_ms:
            wait_ms += int(self._chance() * (2 * spread_ms + 1)) - spread_ms
        return max(settings.initial_backoff_ms, min(wait_ms, longest_ms))


class EqualErrors:
    """Counts errors of user code that come again in the same way; ours, above all strategies.

    Two errors are equal if their texts, their operators, the buffers that their tasks had taken and the
    checkpoint that a restart would restore are. Any other failure begins the count anew.
    """

    __slots__ = ("_count", "_last", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: tuple[Any, ...] | None = None
        self._count = 0

    def notify_failure(self, vertex: int, error: str, taken: int, latest_id: int) -> bool:
        """Count a failure, and return whether there have been too many equal ones; ``error`` "": no error."""
        place = (vertex, error, taken, latest_id) if error else None
        self._count = self._count + 1 if place is not None and place == self._last else 1
        self._last = place
        return place is not None and 0 < self._limit <= self._count

    def message(self, cause: str) -> str:
        """Return why the job fails for good."""
        return (
            f"{cause}: {self._limit} attempts have ended with this error at the same place, and no checkpoint"
            f" was complete in between: fix it, or set {MAX_EQUAL_ERRORS.key} to 0 to restart as the"
            " strategy says"
        )


def restart_strategy(settings: RestartSettings, chance_source: Callable[[], Chance]) -> RestartStrategy:
    """The strategy that the job's settings name.

    ``chance_source`` makes the chance of this job's run; it is called only where the strategy has use for it.
    """
    if isinstance(settings, FixedDelayRestarts):
        return FixedDelayRestart(settings)
    if isinstance(settings, FailureRateRestarts):
        return FailureRateRestart(settings)
    if isinstance(settings, ExponentialDelayRestarts):
        return ExponentialDelayRestart(settings, chance_source())
    return NoRestart()
