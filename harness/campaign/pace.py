"""How large the waves of a campaign are, and into how many tasks they are cut.

The rules this module lives by:

- A campaign of so many scenarios has waves as few and as equal as their largest size allows.
- A campaign that is bounded by time learns from each wave how fast it is, and gives the next one what still
  fits, judging included. The first is small: it is there to learn from, while workers and Java warm up.
- Of many families the judging takes its time for each, however few scenarios there are. Where there is time
  for little more than one judgement, the first wave takes what the judging leaves.
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
FIRST_WAVE_PART: Final = 0.25
"""And this part of the time that is left, however long judging takes: the campaign may end later for it."""
LEAST_PER_CORE: Final = 8

TASK_SECONDS: Final = 0.8
"""Long enough that a task and its file cost little beside its work, short enough for a bar to move."""
FIRST_PER_TASK: Final = 200
LEAST_TASKS_PER_CORE: Final = 4
"""So that no core waits for long while another works on its last task."""
MOST_TASKS: Final = 200

FIRST_JUDGING_SECONDS: Final = 3.0
"""Java has compiled nothing yet."""
FIRST_JUDGING_SECONDS_A_FAMILY: Final = 1.5
"""Of every family but the first: each has a query of its own, which is planned and compiled anew."""
FIRST_PER_CORE_AND_SECOND: Final = 300
"""What executors may do while they are timed for the first time; what they have no time for is left out."""
COLD: Final = 2.0
JUDGING_SECONDS_EACH: Final = 0.0002
"""What each further scenario adds to judging a wave."""


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
    """Of the last wave."""
    _judged: int = 0
    """Scenarios of the last wave."""

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
        seconds = self.deadline - now
        if not first:
            return min(left, self._first_count(seconds))
        each = 1 / self._per_second + JUDGING_SECONDS_EACH
        count = int(min(seconds - self._judging_seconds_of(0), LONGEST_WAVE_SECONDS) / each)
        return min(left, count, LARGEST_WAVE) if count > self.cores * LEAST_PER_CORE else 0

    def _first_count(self, seconds: float) -> int:
        simulating = max(seconds - self._judging_seconds, FIRST_WAVE_PART * seconds)
        each_core = FIRST_WAVE_PER_CORE if seconds > FIRST_JUDGING_SECONDS else LEAST_PER_CORE
        if seconds > FIRST_JUDGING_SECONDS and simulating < self._judging_seconds:
            each_core = max(each_core, int(FIRST_PER_CORE_AND_SECOND * simulating))
        return max(self.cores * each_core, self.families)

    def begin_until(self, first: int, count: int, now: float) -> float | None:
        """Return until when scenarios of a wave may be begun."""
        if self.deadline is None:
            return None
        until = self.deadline - self._judging_seconds_of(count)
        if first:
            return until
        return max(until, now + max(FIRST_WAVE_SECONDS, FIRST_WAVE_PART * (self.deadline - now)))

    def tasks_of(self, count: int, families: int) -> int:
        """Return into how many tasks each family's part of a wave is cut."""
        per_task = self._per_second / self.cores * TASK_SECONDS or FIRST_PER_TASK
        least = ceil(LEAST_TASKS_PER_CORE * self.cores / families)
        return max(least, min(ceil(count / families / per_task), MOST_TASKS))

    def learn(self, judged: int, simulating_seconds: float, judging_seconds: float) -> None:
        """Take a wave into account."""
        # The first time, Java compiles what it needs: later ones take a third or less.
        self._judging_seconds = judging_seconds if self._per_second else judging_seconds / COLD
        self._per_second = max(judged, 1) / simulating_seconds
        self._judged = judged

    def _judging_seconds_of(self, count: int) -> float:
        return self._judging_seconds + JUDGING_SECONDS_EACH * max(count - self._judged, 0)
