"""The size of a campaign's waves, the number of their Spark tasks, and the time of their judgement.

The rules this module lives by:

- A campaign measures its speed, and sizes each wave by cores and seconds. The first wave is small, because
  workers and the JVM are still warming up. The last ones are of equal size.
- A wave is never larger than what the driver holds of it.
- A campaign with a time limit gives each wave what still fits, judgement included.
- The judgement takes time for each family, even for few scenarios. So it runs once, at the end, or in a long
  campaign beside the simulation, when its constant part is a small share of what it judges.
- What a campaign must have run at the least may be missing when its time is over. Then it runs waves of that
  size until a later limit; no other scenario is started after the first one.
- The speed of a shared machine can change. So each wave has a deadline after which executors start no
  scenario.
- Families differ in cost by a factor of ten. A task has as many scenarios of a family as take its time, so
  tasks end alike; where that are few of each, a task has several families, for tasks and files cost time
  themselves. The families take turns within a wave, so that a wave that ends early has run about as many of
  each.
- This module reads no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final, NamedTuple

LARGEST_WAVE: Final = 400_000
"""The driver holds the compressed outcomes of two waves: 200 bytes for each scenario."""
LONGEST_WAVE_SECONDS: Final = 30.0
WAVES_AT_ONCE: Final = 2
"""Cores that have nothing left to do in a wave begin the next one."""
FIRST_WAVE_PER_CORE: Final = 100
"""Enough scenarios to measure the speed, after the workers have started."""
FIRST_WAVE_SECONDS: Final = 1.0
"""The least time of the first wave, even if Spark started late."""
LEAST_PER_CORE: Final = 8

TASK_SECONDS: Final = 0.8
"""Long enough that the overhead of a task is small, short enough for a smooth progress bar."""
FIRST_PER_TASK: Final = 200
LEAST_TASKS_PER_CORE: Final = 4
"""With several tasks for each core, no core is idle for long while another runs its last task. The tasks of
long waves are no more but longer, so there are few files."""
TURNS_OF_A_FAMILY: Final = 4
"""So many tasks each family has at least in a wave that its deadline may cut off."""
LEAST_PER_TASK: Final = 4
"""But no task has fewer scenarios than this, unless they take long."""

JUDGED_AFTER_SECONDS: Final = 600.0
"""After so many seconds of simulation the trials are judged beside it,"""
JUDGED_AFTER_JUDGEMENTS: Final = 20.0
"""or after so many times the constant part of a judgement, if that is longer."""
FIRST_JUDGING_SECONDS: Final = 3.0
"""The estimate for the first judgement, when the JVM has compiled nothing yet."""
FIRST_JUDGING_SECONDS_PER_FAMILY: Final = 0.6
"""The addition for each family but the first: its query must be planned."""
COLD_FACTOR: Final = 2.0
"""The first judgement takes this many times as long as later ones."""
JUDGING_SECONDS_PER_SCENARIO: Final = 0.0004
"""The part of the judgement that grows with the number of scenarios, on one core."""


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
    _unjudged_seconds: float = 0.0
    """How long they were simulated."""

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
            most = self._count_in(inf) if self.is_measured else self._first_wave(FIRST_WAVE_PER_CORE)
            return WaveSize(ceil(left / ceil(left / most)) if self.is_measured else min(left, most), None)
        if count := min(left, self._count_in_time(first, now)):
            until = self._start_deadline(self.deadline, count)
            return WaveSize(count, until if first else max(until, now + FIRST_WAVE_SECONDS))
        if owed and self._seconds_until(self.latest, now) > 0:
            fitting = min(owed, self._count_in(self._seconds_until(self.latest, now)))
            # A whole number of rounds, so that all families keep having as many.
            count = min(left, max(ceil(fitting / self.families), 1) * self.families)
            until = self._start_deadline(self.latest, count)
            return WaveSize(count, until) if until > now else None
        return None

    def _count_in_time(self, first: int, now: float) -> int:
        """Return how many scenarios the next wave has within the deadline."""
        assert self.deadline is not None
        seconds = self._seconds_until(self.deadline, now)
        if first and not self._unjudged and seconds < self._judging_seconds:
            # All trials are judged, and there is no time for a further judgement.
            return 0
        if not self.is_measured:
            return self._first_wave(FIRST_WAVE_PER_CORE if seconds > FIRST_WAVE_SECONDS else LEAST_PER_CORE)
        count = self._count_in(seconds)
        return count if count > max(self.cores * LEAST_PER_CORE, self.families) else 0

    @property
    def is_measured(self) -> bool:
        """Return whether a wave has shown the speed of this machine."""
        return self._per_second > 0

    def seconds_of(self, count: int) -> float:
        """Return how long a wave of ``count`` scenarios takes; 0 as long as nothing is measured."""
        return count / self._per_second if self.is_measured else 0.0

    def _first_wave(self, each_core: int) -> int:
        return min(max(self.cores * each_core, self.families), LARGEST_WAVE)

    def _count_in(self, seconds: float) -> int:
        """Return how many scenarios a wave can run and judge in some seconds."""
        each = 1 / self._per_second + JUDGING_SECONDS_PER_SCENARIO / self.cores
        return max(0, min(int(min(seconds, LONGEST_WAVE_SECONDS) / each), LARGEST_WAVE))

    def _seconds_until(self, end: float, now: float) -> float:
        """Return how many seconds are left for scenarios before a moment by which all are judged."""
        return end - now - self._judging_seconds_of(0)

    def _start_deadline(self, end: float, count: int) -> float:
        """Return the time after which no scenario of a wave may start that is judged by ``end``."""
        return end - self._judging_seconds_of(count)

    @property
    def is_judging_due(self) -> bool:
        """Return whether the trials must be judged beside the next wave."""
        after = max(JUDGED_AFTER_SECONDS, JUDGED_AFTER_JUDGEMENTS * self._judging_seconds)
        return self._unjudged_seconds >= after

    def turns_of(self, count: int, costs: Sequence[float]) -> list[int]:
        """Return for each family how many of its scenarios a task has, in a wave of ``count`` scenarios.

        Args:
            costs: by family, how many seconds a core takes for a scenario; 0 if it is not known.
        """
        families = len(costs)
        each = ceil(count / families)
        wave_seconds = min(self.seconds_of(count), LONGEST_WAVE_SECONDS)
        task_seconds = max(TASK_SECONDS, wave_seconds / LEAST_TASKS_PER_CORE)
        turns = []
        for cost in self._known(costs):
            per_task = task_seconds / cost
            least = max(1, min(LEAST_PER_TASK, int(TASK_SECONDS / cost)))
            tasks = max(
                ceil(LEAST_TASKS_PER_CORE * self.cores / families),
                1 if self.deadline is None else min(TURNS_OF_A_FAMILY, ceil(each / least)),
                ceil(each / max(per_task, 1)),
            )
            turns.append(ceil(each / tasks))
        return turns

    def _known(self, costs: Sequence[float]) -> list[float]:
        """Return the costs, with the usual one in place of those that are not known."""
        usual = self.cores / self._per_second if self.is_measured else TASK_SECONDS / FIRST_PER_TASK
        return [cost or usual for cost in costs]

    def tasks_of(
        self, parts: Iterable[tuple[int, Sequence[int]]], costs: Sequence[float]
    ) -> Iterator[dict[int, list[int]]]:
        """Yield the tasks of a wave, each with the numbers of its scenarios by the place of their family.

        Args:
            parts: the place of a family with some of its numbers, in their order.
            costs: as in ``turns_of``.
        """
        costs, parts = self._known(costs), list(parts)
        work = sum(len(numbers) * costs[place] for place, numbers in parts)
        most = work / (LEAST_TASKS_PER_CORE * self.cores)
        task: dict[int, list[int]] = {}
        seconds = 0.0
        for place, numbers in parts:
            more = len(numbers) * costs[place]
            if task and seconds + more > most:
                yield task
                task, seconds = {}, 0.0
            task.setdefault(place, []).extend(numbers)
            seconds += more
        if task:
            yield task

    def record_wave(self, simulated: int, seconds: float) -> None:
        """Record the size and duration of a wave, whose trials are now unjudged.

        Args:
            seconds: from its begin, or the end of the wave before it if that was later.
        """
        self._per_second = max(simulated, 1) / seconds
        self._unjudged += simulated
        self._unjudged_seconds += seconds

    def record_found(self, finished: int) -> None:
        """Record scenarios that an earlier attempt has finished, which are now unjudged."""
        self._unjudged += finished

    def begin_judgement(self) -> int:
        """Return how many trials are unjudged; they are judged from now on."""
        unjudged, self._unjudged, self._unjudged_seconds = self._unjudged, 0, 0.0
        return unjudged

    def record_judgement(self, scenarios: int, seconds: float) -> None:
        """Record the duration of a judgement that had all cores."""
        # In the first judgement the JVM compiles its code; later ones take half of it or less.
        growing = JUDGING_SECONDS_PER_SCENARIO / self.cores * scenarios
        self._judging_seconds = max(seconds - growing, 0.0) / COLD_FACTOR

    def _judging_seconds_of(self, more: int) -> float:
        """Return the estimated duration of a judgement of ``more`` further scenarios."""
        growing = JUDGING_SECONDS_PER_SCENARIO / self.cores * (self._unjudged + more)
        return self._judging_seconds + growing


def by_turns(
    families: Sequence[Sequence[int]], lengths: Sequence[int]
) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield the place of a family with some of its numbers, until all families have none left.

    Args:
        lengths: by family, how many of its numbers follow each other.
    """
    starts = [
        (first, place)
        for place, (numbers, length) in enumerate(zip(families, lengths, strict=True))
        for first in range(0, len(numbers), length)
    ]
    for first, place in sorted(starts):
        yield place, families[place][first : first + lengths[place]]
