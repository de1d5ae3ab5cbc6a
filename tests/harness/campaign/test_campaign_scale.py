"""A night of 10^8 scenarios on a model of 200 executors: idle cores, files, and the memory of the driver.

What the driver and a task cost was measured on real campaigns. The sizes of waves and tasks are those of a
real one, as both follow ``Pace``.
"""

from __future__ import annotations

import tracemalloc
from collections import deque
from heapq import heapify, heapreplace
from itertools import cycle, islice
from random import Random

import pyarrow as pa
import pytest

from onceproof.harness.campaign.answers import Answer, answers_in, lines_in_order
from onceproof.harness.campaign.pace import LARGEST_WAVE, WAVES_AT_ONCE, Pace, by_turns
from onceproof.harness.checkers.outcome import to_line
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.tally import Tally
from onceproof.harness.trials.trial import run_scenario, scenario_of

SCENARIOS = 10**8
CORES = 200
COSTS = tuple(islice(cycle((0.008, 0.009, 0.01, 0.012, 0.012, 0.015, 0.02, 0.079)), 88))
"""Seconds of a core for a scenario, by family."""
TASK_SECONDS = 0.05
"""What a task costs beside its scenarios."""
PLANNING_SECONDS = 0.25
"""What the driver takes to plan the judgement of a family."""
JUDGING_SECONDS = 0.001
"""What a core takes to judge a scenario."""
ANSWER_SECONDS, LINE_SECONDS = 0.0005, 0.000006
"""What the driver takes for an answer, and for a line of outcomes.jsonl."""


class Executors:
    """Cores that take tasks in the order in which jobs were begun."""

    def __init__(self) -> None:
        self._free = [0.0] * CORES
        heapify(self._free)
        self.busy = 0.0
        self._random = Random(1)

    def run(self, begun: float, tasks: list[float]) -> float:
        """Return when a job ends that begins at a time with tasks of some seconds."""
        ended = begun
        for seconds in tasks:
            # Scenarios of a family differ, and so do executors.
            seconds = seconds * self._random.uniform(0.8, 1.3) + TASK_SECONDS
            self.busy += seconds
            end = max(self._free[0], begun) + seconds
            heapreplace(self._free, end)
            ended = max(ended, end)
        return ended


class Night:
    """The loop of a campaign, with a driver that does one thing at a time."""

    def __init__(self) -> None:
        self.executors = Executors()
        self.pace = Pace(CORES, SCENARIOS, None, len(COSTS))
        self.now = 0.0
        self.driver = 0.0
        """How many seconds the driver has worked."""
        self.files = 0
        self.largest = 0
        self._begun = 0
        self._ended = 0.0
        self._judged = 0.0
        self._waves: deque[tuple[int, int, float, float]] = deque()

    def run(self) -> None:
        """Run and judge all scenarios."""
        while self._begin_waves():
            size, answers, begun, ended = self._waves.popleft()
            self.now = max(self.now, ended)
            self.pace.record_wave(size, ended - max(begun, self._ended))
            self._ended = ended
            if self._begin_waves() and self.pace.is_judging_due:
                self._judge()
            work = answers * ANSWER_SECONDS + size * LINE_SECONDS
            self.driver += work
            self.now += work
        self._judge()
        self.now = max(self.now, self._judged)

    def _begin_waves(self) -> bool:
        while len(self._waves) < (WAVES_AT_ONCE if self.pace.is_measured else 1):
            if (size := self.pace.next_wave(self._begun, self.now)) is None:
                break
            count = size.scenarios
            known = COSTS if self.pace.is_measured else (0.0,) * len(COSTS)
            numbers = [range(len(range(place, count, len(COSTS)))) for place in range(len(COSTS))]
            parts = by_turns(numbers, self.pace.turns_of(count, known))
            shares = list(self.pace.tasks_of(parts, known))
            tasks = [sum(len(some) * COSTS[place] for place, some in share.items()) for share in shares]
            answers = sum(map(len, shares))
            self._begun += count
            self.files += len(tasks)
            self.largest = max(self.largest, count)
            self._waves.append((count, answers, self.now, self.executors.run(self.now, tasks)))
        return bool(self._waves)

    def _judge(self) -> None:
        begun = max(self.now, self._judged) + PLANNING_SECONDS * len(COSTS)
        scenarios = self.pace.begin_judgement()
        tasks = 2 * CORES
        self._judged = self.executors.run(begun, [scenarios * JUDGING_SECONDS / tasks] * tasks)

    @property
    def idle_share(self) -> float:
        """The share of the time of all cores in which they had nothing to do."""
        return 1 - self.executors.busy / (CORES * self.now)


@pytest.fixture(scope="module")
def night() -> Night:
    night = Night()
    night.run()
    return night


def test_two_hundred_executors_are_busy_all_night(night: Night) -> None:
    assert night._begun == SCENARIOS
    assert night.idle_share < 0.1
    # The driver keeps up, with a margin.
    assert night.driver < 0.5 * night.now


def test_a_night_writes_files_of_some_hundred_scenarios(night: Night) -> None:
    assert 200 < SCENARIOS / night.files < 2_000


def answers(count: int) -> list[Answer]:
    """Return answers with the outcomes of real scenarios, of two families that take turns."""
    lines = []
    for name in ("word_count", "page_views"):
        family = load_family(name)
        lines.append([to_line(run_scenario(family, scenario_of(family, seed))[0]) for seed in range(20)])
    return [
        Answer.of(place, 2, range(first, first + 500), list(islice(cycle(lines[place]), 500)))
        for first in range(0, count // 2, 500)
        for place in range(2)
    ]


def test_the_tally_of_a_night_is_as_small_as_that_of_a_minute() -> None:
    # Each of them stands for 50,000 outcomes, as if a task had that many.
    some = [answer.tally for answer in answers(4_000) if answer.tally is not None]
    large = []
    for tally in some:
        large.append(Tally())
        for _ in range(100):
            large[-1].merge(tally)
    tracemalloc.start()
    merged, sizes = Tally(), []
    try:
        for tally in islice(cycle(large), SCENARIOS // 50_000):
            merged.merge(tally)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert merged.scenarios == SCENARIOS
    assert max(sizes) < 1 << 20


def test_the_driver_holds_two_waves_of_a_night_in_half_a_gibibyte(night: Night) -> None:
    count = 20_000
    batches = [answer.batch() for answer in answers(count)]
    tracemalloc.start()
    try:
        before = pa.total_allocated_bytes()
        table = pa.Table.from_batches(batches).combine_chunks()
        arrow = pa.total_allocated_bytes() - before
        kept = list(answers_in(table))
        lines = sum(block.count(b"\n") for block in lines_in_order(kept, 2))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == count
    assert night.largest <= LARGEST_WAVE
    assert WAVES_AT_ONCE * LARGEST_WAVE * (arrow + peak) / count < 1 << 29
