"""Restart strategies as functions of a job's failures: whether it may restart, and after which wait.

Rules:

- Each failure is reported first, then the strategy is asked; a job that may not restart fails for good.
- fixed-delay allows so many restarts in the life of a job, and forgets none.
- failure-rate ends the job when one failure more than allowed lies within the interval, its ends included.
- exponential-delay waits longer with each failure, give or take its jitter. A failure at or before the
  planned restart belongs to the same attempt; a quiet time after it begins the count anew.
- Errors of user code that come again at the same place with no checkpoint in between end the job, where a
  limit is set. Any other failure begins their count anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

FOREVER: Final = (1 << 31) - 1
_NONE: Final[Mapping[int, int]] = MappingProxyType({})


class Wait(NamedTuple):
    """The shortest and the longest time until a restart, in milliseconds."""

    shortest_ms: int
    longest_ms: int


class NoRestarts(NamedTuple):
    """The first failure is the last."""

    def wait(self, failures_ms: Sequence[int], restarts_ms: Mapping[int, int] = _NONE) -> Wait | None:
        """Return None: no restart follows."""
        return None


class FixedDelay(NamedTuple):
    """So many restarts, each after the same delay."""

    attempts: int
    delay_ms: int

    def wait(self, failures_ms: Sequence[int], restarts_ms: Mapping[int, int] = _NONE) -> Wait | None:
        """Return the wait after the last of these failures; None: the job fails."""
        return None if len(failures_ms) > self.attempts else Wait(self.delay_ms, self.delay_ms)


class FailureRate(NamedTuple):
    """So many failures within an interval."""

    failures: int
    interval_ms: int
    delay_ms: int

    def wait(self, failures_ms: Sequence[int], restarts_ms: Mapping[int, int] = _NONE) -> Wait | None:
        """Return the wait after the last of these failures; None: the job fails."""
        counted = failures_ms[-self.failures - 1 :]
        if len(counted) > self.failures and counted[-1] - counted[0] <= self.interval_ms:
            return None
        return Wait(self.delay_ms, self.delay_ms)


class ExponentialDelay(NamedTuple):
    """Waits that grow with each attempt."""

    initial_ms: int
    longest_ms: int
    multiplier: float
    quiet_ms: int
    jitter: float = 0.0
    attempts: int = FOREVER

    def wait(self, failures_ms: Sequence[int], restarts_ms: Mapping[int, int] = _NONE) -> Wait | None:
        """Return the wait after the last of these failures; None: the job fails.

        With jitter the time of a restart is known to lie between two moments only, unless ``restarts_ms`` has
        it, by the number of failures before it. The failures of one attempt are those up to the earlier one.
        """
        attempt = 0
        planned: Wait | None = None
        for number, failure_ms in enumerate(failures_ms):
            if number in restarts_ms:
                planned = Wait(restarts_ms[number], restarts_ms[number])
            if planned is not None:
                if failure_ms <= planned.shortest_ms:
                    continue
                if failure_ms - planned.longest_ms >= self.quiet_ms:
                    attempt = 0
            planned = self._planned(failure_ms, attempt)
            attempt += 1
        if planned is None or attempt > self.attempts:
            return None
        last_ms = failures_ms[-1]
        return Wait(max(0, planned.shortest_ms - last_ms), max(0, planned.longest_ms - last_ms))

    def _planned(self, failure_ms: int, attempt: int) -> Wait:
        try:
            grown_ms = int(self.initial_ms * self.multiplier**attempt)
        except OverflowError:
            grown_ms = self.longest_ms
        spread_ms = int(grown_ms * self.jitter)
        waits = [
            max(self.initial_ms, min(grown_ms + each, self.longest_ms)) for each in (-spread_ms, spread_ms)
        ]
        return Wait(failure_ms + waits[0], failure_ms + waits[1])


Strategy: TypeAlias = NoRestarts | FixedDelay | FailureRate | ExponentialDelay


class FailedAt(NamedTuple):
    """Where an error of user code came up: what it is equal to comes up there again."""

    vertex: int
    error: str
    taken: int
    latest_id: int


def is_hopeless(failures: Sequence[FailedAt | None], limit: int) -> bool:
    """Return whether the last ``limit`` failures are one error at one place; None is another failure."""
    last = failures[-limit:] if limit else ()
    return len(last) == limit > 0 and last[0] is not None and all(each == last[0] for each in last)
