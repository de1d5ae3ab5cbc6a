"""The size of a campaign's waves, the number of their Spark tasks, and the time of their judgement.

The rules this module lives by:

- A campaign with a number of scenarios has as few waves as LARGEST_WAVE allows, all of equal size.
- A campaign with a time limit measures the speed of each wave and gives the next one what still fits,
  judgement included. The first wave is small, because workers and the JVM are still warming up.
- The judgement takes time for each family, even for few scenarios. So it runs once, at the end, or in a large
  campaign after JUDGED_AT_ONCE scenarios.
- What a campaign must have run at the least may be missing when its time is over. Then it runs waves of that
  size until a later limit; no other scenario is started after the first one.
- The speed of a shared machine can change. So each wave has a deadline after which executors start no
  scenario.
- The families take turns within a wave, some scenarios at a time, so that a wave that ends early has run
  about as many of each.
- This module reads no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

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
TURNS_OF_A_FAMILY: Final = 4
"""So many tasks each family has at least in a wave that its deadline may cut off."""
LEAST_PER_TASK: Final = 4
"""But no task has fewer scenarios than this, unless they take long."""
MOST_TASKS: Final = 200
"""Of a family in a wave."""

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


class WaveSize(NamedTuple):
    """How much a wave runs."""

    scenarios: int
    until: float | None
    """The time after which none of them is started; None for no limit."""


@dataclass(slots=True)
class Pace:
    """The pace of one campaign."""

    cores: int
    scenarios: int | None
    """The number of scenarios of the campaign; None for as many as the time allows."""
    deadline: float | None
    """The end of the campaign in seconds, on the same clock as every ``now``; None for no limit."""
    families: int = 1
    latest: float = 0.0
    """The end of a campaign that owes scenarios at its deadline, if it is later."""
    _per_second: float = 0.0
    """How many scenarios a second the last wave simulated."""
    _judging_seconds: float = 0.0
    """The constant part of the duration of a judgement."""
    _unjudged: int = 0
    """How many scenarios have not been judged yet."""

    def __post_init__(self) -> None:
        """Set the estimate for the first judgement."""
        self._judging_seconds = FIRST_JUDGING_SECONDS + FIRST_JUDGING_SECONDS_PER_FAMILY * (self.families - 1)

    def next_wave(self, first: int, now: float, owed: int = 0) -> WaveSize | None:
        """Return the size of the next wave; None if there is none.

        Args:
            first: the number of the wave's first scenario.
            now: the current time in seconds.
            owed: how many scenarios the campaign must run, even after its deadline.
        """
        left = self.scenarios - first if self.scenarios is not None else LARGEST_WAVE
        if left <= 0:
            return None
        if self.deadline is None:
            assert self.scenarios is not None
            return WaveSize(min(left, ceil(self.scenarios / ceil(self.scenarios / LARGEST_WAVE))), None)
        if count := min(left, self._count_in_time(first, now)):
            until = self._start_deadline(self.deadline, count)
            return WaveSize(count, until if first else max(until, now + FIRST_WAVE_SECONDS))
        if owed and self._seconds_until(self.latest, now) > 0:
            fitting = min(owed, self._count_in(self._seconds_until(self.latest, now)))
            # A whole number of rounds, so that all families keep having as many.
            count = min(left, max(ceil(fitting / self.families), 1) * self.families)
            return WaveSize(count, self._start_deadline(self.latest, count))
        return None

    def _count_in_time(self, first: int, now: float) -> int:
        """Return how many scenarios the next wave has within the deadline."""
        assert self.deadline is not None
        seconds = self._seconds_until(self.deadline, now)
        if first and not self._unjudged and seconds < self._judging_seconds:
            # All trials are judged, and there is no time for a further judgement.
            return 0
        if not self._per_second:
            each_core = FIRST_WAVE_PER_CORE if seconds > FIRST_WAVE_SECONDS else LEAST_PER_CORE
            return max(self.cores * each_core, self.families)
        count = self._count_in(seconds)
        return count if count > max(self.cores * LEAST_PER_CORE, self.families) else 0

    def _count_in(self, seconds: float) -> int:
        """Return how many scenarios a wave can run and judge in some seconds."""
        each = 1 / self._per_second + JUDGING_SECONDS_PER_SCENARIO
        return max(0, min(int(min(seconds, LONGEST_WAVE_SECONDS) / each), LARGEST_WAVE))

    def _seconds_until(self, end: float, now: float) -> float:
        """Return how many seconds are left for scenarios before a moment by which all are judged."""
        return end - now - self._judging_seconds_of(0)

    def _start_deadline(self, end: float, count: int) -> float:
        """Return the time after which no scenario of a wave may start that is judged by ``end``."""
        return end - self._judging_seconds_of(count)

    @property
    def is_judging_due(self) -> bool:
        """Return whether the trials must be judged before the next wave."""
        return self._unjudged >= JUDGED_AT_ONCE

    def turns_of(self, count: int, families: int) -> int:
        """Return how many scenarios of a family follow each other, in a wave of ``count`` scenarios."""
        each = ceil(count / families)
        per_task = self._per_second / self.cores * TASK_SECONDS or FIRST_PER_TASK
        least = max(1, min(LEAST_PER_TASK, int(per_task)))
        tasks = max(
            ceil(LEAST_TASKS_PER_CORE * self.cores / families),
            1 if self.deadline is None else min(TURNS_OF_A_FAMILY, ceil(each / least)),
            min(ceil(each / max(per_task, 1)), MOST_TASKS),
        )
        return ceil(each / tasks)

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


def by_turns(families: Sequence[Sequence[int]], length: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the place of a family with ``length`` of its numbers, until all families have none left."""
    for first in range(0, max(map(len, families), default=0), length):
        for place, numbers in enumerate(families):
            if part := numbers[first : first + length]:
                yield place, part
