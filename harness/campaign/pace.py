"""How large the waves of a campaign are, into how many tasks they are cut, and when they are judged.

The rules this module lives by:

- A campaign of so many scenarios has waves as few and as equal as their largest size allows.
- A campaign that is bounded by time learns from each wave how fast it is, and gives the next one what still
  fits, judging included. The first is small: it is there to learn from, while workers and Java warm up.
- Judging costs its time for each family, however few scenarios there are. So it is done once, in the end, or
  where a campaign is that large, after so many scenarios.
- What was learned may be wrong the next moment, on a machine that others use as well. So executors are told
  until when they may begin scenarios, and leave out what does not fit.
- No clock is read here: time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

LARGEST_WAVE: Final = 20_000
LONGEST_WAVE_SECONDS: Final = 20.0
FIRST_WAVE_PER_CORE: Final = 100
"""Enough to measure the speed by, after the workers have started."""
FIRST_WAVE_SECONDS: Final = 1.0
"""The first wave gets so long, however late Spark has started."""
LEAST_PER_CORE: Final = 8

TASK_SECONDS: Final = 0.8
"""Long enough that a task and its file cost little beside its work, short enough for a bar to move."""
FIRST_PER_TASK: Final = 200
LEAST_TASKS_PER_CORE: Final = 4
"""So that no core waits for long while another works on its last task."""
MOST_TASKS: Final = 200

JUDGED_AT_ONCE: Final = 50_000
"""More trials than these do not wait for their judgement."""
FIRST_JUDGING_SECONDS: Final = 3.0
"""Java has compiled nothing yet."""
FIRST_JUDGING_SECONDS_A_FAMILY: Final = 0.6
"""Of every family but the first: each has a query of its own, which is to be planned."""
COLD: Final = 2.0
JUDGING_SECONDS_EACH: Final = 0.0002
"""What each scenario adds to judging."""


@dataclass(slots=True)
class Pace:
    """The pace of one campaign."""

    cores: int
    scenarios: int | None
    """How many there are to be; None: as many as fit."""
    deadline: float | None
    """When the campaign has to end, on the clock that every ``now`` is of."""
    families: int = 1
    _per_second: float = 0.0
    """Scenarios simulated in a second, in the last wave."""
    _judging_seconds: float = 0.0
    """What judging takes, but for what each scenario adds."""
    _unjudged: int = 0
    """Scenarios that wait for their judgement."""

    def __post_init__(self) -> None:
        """Expect of the first judging what it takes at most."""
        self._judging_seconds = FIRST_JUDGING_SECONDS + FIRST_JUDGING_SECONDS_A_FAMILY * (self.families - 1)

    def next_count(self, first: int, now: float) -> int:
        """Return how many scenarios the next wave has, none where there is no next wave."""
        left = self.scenarios - first if self.scenarios is not None else LARGEST_WAVE
        if left <= 0:
            return 0
        if self.deadline is None:
            assert self.scenarios is not None
            return min(left, ceil(self.scenarios / ceil(self.scenarios / LARGEST_WAVE)))
        seconds = self.deadline - now - self._judging_seconds_of(0)
        if first and not self._unjudged and seconds < self._judging_seconds:
            # All that was done is judged, and a judgement more would take longer than what it judges.
            return 0
        if not first:
            each_core = FIRST_WAVE_PER_CORE if seconds > FIRST_WAVE_SECONDS else LEAST_PER_CORE
            return min(left, max(self.cores * each_core, self.families))
        each = 1 / self._per_second + JUDGING_SECONDS_EACH
        count = min(int(min(seconds, LONGEST_WAVE_SECONDS) / each), LARGEST_WAVE)
        return min(left, count) if count > max(self.cores * LEAST_PER_CORE, self.families) else 0

    def begin_until(self, first: int, count: int, now: float) -> float | None:
        """Return until when scenarios of a wave may be begun."""
        if self.deadline is None:
            return None
        until = self.deadline - self._judging_seconds_of(count)
        return until if first else max(until, now + FIRST_WAVE_SECONDS)

    @property
    def is_judging_due(self) -> bool:
        """Whether trials are to be judged though more are to come."""
        return self._unjudged >= JUDGED_AT_ONCE

    def tasks_of(self, count: int, families: int) -> int:
        """Return into how many tasks each family's part of a wave is cut."""
        per_task = self._per_second / self.cores * TASK_SECONDS or FIRST_PER_TASK
        least = ceil(LEAST_TASKS_PER_CORE * self.cores / families)
        return max(least, min(ceil(count / families / per_task), MOST_TASKS))

    def learn_wave(self, simulated: int, seconds: float) -> None:
        """Take a wave into account, which waits for its judgement from now on."""
        self._per_second = max(simulated, 1) / seconds
        self._unjudged += simulated

    def learn_judging(self, seconds: float) -> None:
        """Take the judgement on all that was waiting for it into account."""
        # The first time, Java compiles what it needs: later ones take half or less.
        self._judging_seconds = max(seconds - JUDGING_SECONDS_EACH * self._unjudged, 0.0) / COLD
        self._unjudged = 0

    def _judging_seconds_of(self, more: int) -> float:
        """Return how long judging will take with so many scenarios more."""
        return self._judging_seconds + JUDGING_SECONDS_EACH * (self._unjudged + more)
