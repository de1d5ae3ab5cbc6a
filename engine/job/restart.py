"""Restart strategies: whether and when a failed job is tried again.

A strategy is told of each failure first and asked afterwards (Flink: RestartBackoffTimeStrategy). Only
fixed-delay and none exist yet; the default with checkpointing is fixed-delay without a limit.
"""

from __future__ import annotations

from typing import Protocol

from engine.configuration import CheckpointSettings


class RestartStrategy(Protocol):
    """Decides on restarts."""

    def notify_failure(self, now: int) -> bool:
        """A failure happened at ``now``; returns whether it counts as a new attempt."""
        ...

    def can_restart(self) -> bool:
        """Whether the job may be restarted."""
        ...

    def backoff_ms(self) -> int:
        """How long to wait before the restart."""
        ...


class FixedDelayRestart:
    """At most ``attempts`` restarts in the life of the job, each after ``delay_ms``.

    Flink: FixedDelayRestartBackoffTimeStrategy; the count is never reset.
    """

    __slots__ = ("_attempts", "_delay_ms", "_failures")

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._attempts = attempts
        self._delay_ms = delay_ms
        self._failures = 0

    def notify_failure(self, now: int) -> bool:
        """Every failure is one attempt."""
        self._failures += 1
        return True

    def can_restart(self) -> bool:
        """Whether fewer failures than allowed have happened."""
        return self._failures <= self._attempts

    def backoff_ms(self) -> int:
        """Always the same."""
        return self._delay_ms


class NoRestart:
    """The first failure is the last (Flink: NoRestartBackoffTimeStrategy)."""

    __slots__ = ()

    def notify_failure(self, now: int) -> bool:
        """Every failure is one attempt."""
        return True

    def can_restart(self) -> bool:
        """Never."""
        return False

    def backoff_ms(self) -> int:
        """There is nothing to wait for."""
        return 0


def restart_strategy(settings: CheckpointSettings) -> RestartStrategy:
    """The strategy that the job's settings name."""
    if settings.restart_attempts is None:
        return NoRestart()
    return FixedDelayRestart(settings.restart_attempts, settings.restart_delay_ms)
