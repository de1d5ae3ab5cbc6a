"""The size of a campaign's waves, the number of their Spark tasks, and the time of their judgement.

The rules this module lives by:

- A campaign with a number of scenarios has as few waves as LARGEST_WAVE allows, all of equal size.
- A campaign with a time limit measures the speed of each wave and gives the next one what still fits,
  judgement included. The first wave is small, because workers and the JVM are still warming up.
- The judgement takes time for each family, even for few scenarios. So it runs once, at the end, or in a large
  campaign after JUDGED_AT_ONCE scenarios.
- A campaign may owe each family some scenarios. Those that do not fit into its time limit have a later limit
  of their own; no other scenario is started behind the first one.
- The speed of a shared machine can change. So each wave has a deadline after which executors start no
  scenario.
- This module reads no clock: time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

LARGEST_WAVE: Final = 20_000
LONGEST_WAVE_SECONDS: Final = 20.0
FIRST_WAVE_PER_CORE: Final = 100
"""Enough scenarios to measure the speed, after the workers have started."""
FIRST_WAVE_SECONDS: Final = 1.0
"""The least time of the first wave, even if Spark started late."""
LEAST_PER_CORE: Final = 8

TASK_SECONDS: Final = 0.8
"""Long enough that the overhead of a task is small, short enough for a smooth progress bar."""
FIRST_PER_TASK: Final = 200
LEAST_TASKS_PER_CORE: Final = 4
"""With several tasks for each core, no core is idle for long while another runs its last task."""
MOST_TASKS: Final = 200

JUDGED_AT_ONCE: Final = 50_000
"""From this number of unjudged trials on, they are judged before the next wave."""
FIRST_JUDGING_SECONDS: Final = 3.0
"""The estimate for the first judgement, when the JVM has compiled nothing yet."""
FIRST_JUDGING_SECONDS_PER_FAMILY: Final = 0.6
"""The addition for each family but the first: its query must be planned."""
COLD_FACTOR: Final = 2.0
"""The first judgement takes this many times as long as later ones."""
JUDGING_SECONDS_PER_SCENARIO: Final = 0.0002
"""The part of the judgement that grows with the number of scenarios."""


@dataclass(slots=True)
class Pace:
    """The pace of one campaign."""

    cores: int
    scenarios: int | None
    """The number of scenarios of the campaign; None for as many as the time allows."""
    deadline: float | None
    """The end of the campaign in seconds, on the same clock as every ``now``; None for no limit."""
    families: int = 1
    least: int = 0
    """How many scenarios are run behind the deadline, too, if they are not behind ``latest``."""
    latest: float | None = None
    """The end of a campaign that has not run ``least`` scenarios at its deadline; None for the deadline."""
    _per_second: float = 0.0
    """How many scenarios a second the last wave simulated."""
    _judging_seconds: float = 0.0
    """The constant part of the duration of a judgement."""
    _unjudged: int = 0
    """How many scenarios have not been judged yet."""

    def __post_init__(self) -> None:
        """Set the estimate for the first judgement."""
        self._judging_seconds = FIRST_JUDGING_SECONDS + FIRST_JUDGING_SECONDS_PER_FAMILY * (self.families - 1)

    def next_count(self, first: int, now: float) -> int:
        """Return the size of the next wave; 0 if there is none.

        :param first: the number of the wave's first scenario
        :param now: the current time in seconds
        """
        left = self.scenarios - first if self.scenarios is not None else LARGEST_WAVE
        if left <= 0:
            return 0
        if self.deadline is None:
            assert self.scenarios is not None
            return min(left, ceil(self.scenarios / ceil(self.scenarios / LARGEST_WAVE)))
        seconds = self.deadline - now - self._judging_seconds_of(0)
        owed = self._owed(first, now)
        if owed and first:
            return min(left, owed)
        if first and not self._unjudged and seconds < self._judging_seconds:
            # All trials are judged, and there is no time for a further judgement.
            return 0
        if not self._per_second:
            each_core = FIRST_WAVE_PER_CORE if seconds > FIRST_WAVE_SECONDS else LEAST_PER_CORE
            return min(left, max(self.cores * each_core, self.families))
        each = 1 / self._per_second + JUDGING_SECONDS_PER_SCENARIO
        count = min(int(min(seconds, LONGEST_WAVE_SECONDS) / each), LARGEST_WAVE)
        return min(left, count) if count > max(self.cores * LEAST_PER_CORE, self.families) else 0

    def start_deadline(self, first: int, count: int, now: float) -> float | None:
        """Return the time after which no scenario of a wave may start; None for no limit."""
        if self.deadline is None:
            return None
        ends = self.deadline if first >= self.least or self.latest is None else self.latest
        until = ends - self._judging_seconds_of(count)
        return until if first else max(until, now + FIRST_WAVE_SECONDS)

    def _owed(self, first: int, now: float) -> int:
        """Return how many of the least scenarios are left; 0 if it is too late for any."""
        assert self.deadline is not None
        latest = self.deadline if self.latest is None else self.latest
        in_time = now < latest - self._judging_seconds_of(0)
        return min(max(self.least - first, 0), LARGEST_WAVE) if in_time else 0

    @property
    def is_judging_due(self) -> bool:
        """Return whether the trials must be judged before the next wave."""
        return self._unjudged >= JUDGED_AT_ONCE

    def tasks_of(self, count: int, families: int) -> int:
        """Return the number of Spark tasks for each family in a wave of ``count`` scenarios."""
        per_task = self._per_second / self.cores * TASK_SECONDS or FIRST_PER_TASK
        least = ceil(LEAST_TASKS_PER_CORE * self.cores / families)
        return max(least, min(ceil(count / families / per_task), MOST_TASKS))

    def record_wave(self, simulated: int, seconds: float) -> None:
        """Record the size and duration of a wave, whose trials are now unjudged."""
        self._per_second = max(simulated, 1) / seconds
        self._unjudged += simulated

    def record_found(self, finished: int) -> None:
        """Record scenarios that an earlier attempt has finished, which are now unjudged."""
        self._unjudged += finished

    def record_judgement(self, seconds: float) -> None:
        """Record the duration of the judgement of all unjudged trials."""
        # In the first judgement the JVM compiles its code; later ones take half of it or less.
        self._judging_seconds = (
            max(seconds - JUDGING_SECONDS_PER_SCENARIO * self._unjudged, 0.0) / COLD_FACTOR
        )
        self._unjudged = 0

    def _judging_seconds_of(self, more: int) -> float:
        """Return the estimated duration of a judgement of ``more`` further scenarios."""
        return self._judging_seconds + JUDGING_SECONDS_PER_SCENARIO * (self._unjudged + more)
