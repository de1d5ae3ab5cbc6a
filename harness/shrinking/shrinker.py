"""From a failing scenario to a small one that fails in the same way.

The rules this module lives by:

- Only the same signature counts. A scenario that fails otherwise while it shrinks is another failure, and
  reporting it here would hide the first.
- Large parts go first. Under a schedule that draws every step, leaving out one record changes all that comes
  after it; so such a candidate gets a few schedule seeds, and only when it is small does the schedule become
  a list of choices that can be left out one by one.
- Leaving out ends where each part is needed; small-scope search then looks for a smaller failure nearby, and
  what it finds is shrunk again.
- A job that is stuck runs until its steps are used up, a hundred times as long as any other. So candidates
  get a part of their steps, within which sound runs end; what comes of it is confirmed with all of them,
  after each pass and in the end.
- There is a time limit, since a person waits. What has been reached when it is over is the result: every
  scenario on the way fails as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final, TypeAlias

from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.model.scenario import InputRecord, Scenario, Schedule, to_json
from onceproof.harness.model.step_limits import ample_step_budget
from onceproof.harness.shrinking.reductions import (
    Size,
    beginnings,
    cost_of,
    draws_steps,
    earlier_checkpoints,
    fault_subsets,
    fewer_operations,
    fewer_subtasks,
    is_readable,
    listed_records,
    plainer_faults,
    plainer_settings,
    plainer_values,
    renumbered,
    schedules,
    size_of,
    slower_sources,
    sooner_checkpoints,
    with_records,
    without_items,
)
from onceproof.harness.shrinking.small_scope import small_scenarios

Fails: TypeAlias = Callable[[Scenario], Signature | None]
"""Runs a scenario; the signature of its failure, or None if it passes."""
RecordPreemptions: TypeAlias = Callable[[Scenario], Schedule]
"""Runs a scenario; its schedule as preemptions of the fair one, with the same steps."""

HURRIED: Final = 4
"""The part of its steps that a candidate is tried with: of 60,000 sound runs 19 took more of theirs."""

LIMIT_SECONDS: Final = 5.0
SEEDS_A_CANDIDATE: Final = 3
FEW_RECORDS: Final = 16
FIRST_SMALL_SCENARIOS: Final = 150
SMALL_SCENARIOS: Final = 450


@dataclass(frozen=True, slots=True)
class ShrinkResult:
    """The smallest scenario found, and what it took."""

    scenario: Scenario
    runs: int
    seconds: float
    before: Size
    after: Size


class _TimeIsUp(Exception):
    """The limit is reached; the best scenario so far is the result."""


def shrink(
    scenario: Scenario,
    fails: Fails,
    signature: Signature,
    limit_seconds: float = LIMIT_SECONDS,
    record_preemptions: RecordPreemptions | None = None,
) -> ShrinkResult:
    """Return the smallest scenario found that fails with the signature; the given one, if none is smaller."""
    started = perf_counter()
    choices = None
    if record_preemptions and draws_steps(scenario.schedule):
        choices = len(record_preemptions(scenario).preemptions)
    search = _Search(replace(scenario, seed=None), fails, signature, started + limit_seconds)
    try:
        search.leave_out_much()
        if search.best.record_count() <= FEW_RECORDS and not draws_steps(search.best.schedule):
            # What is left out now changes nothing else, and there is little to be left out.
            search.leave_out()
        search.confirm()
        search.look_nearby(started + limit_seconds * 0.3, FIRST_SMALL_SCENARIOS)
        search.leave_out()
        search.confirm()
        search.list_choices(record_preemptions)
        search.look_nearby(started + limit_seconds * 0.8, SMALL_SCENARIOS)
        search.confirm()
        search.list_choices(record_preemptions)
        search.leave_out()
        search.finish()
    except _TimeIsUp:
        pass
    search.confirm()
    best = scenario if search.untouched else search.smallest
    before = size_of(scenario, choices)
    after = before if search.untouched else size_of(best)
    return ShrinkResult(best, search.runs, perf_counter() - started, before, after)


class _Search:
    """The best scenario so far, and the passes that look for a better one."""

    def __init__(self, scenario: Scenario, fails: Fails, signature: Signature, deadline: float) -> None:
        self.best = scenario
        """What is being worked on."""
        self.cost = cost_of(scenario)
        self.smallest = scenario
        """The smallest of all that failed alike: what the work nearby leads to need not be smaller."""
        self.runs = 0
        self._found = scenario
        self._fails = fails
        self._signature = signature
        self._deadline = deadline
        self._tried: set[str] = set()
        self._hurries = True
        self._confirmed = scenario
        """Known to fail alike with all its steps."""

    @property
    def untouched(self) -> bool:
        """Whether nothing smaller was found."""
        return self.smallest is self._found

    def confirm(self) -> None:
        """Make sure that what was tried in a hurry fails alike with all its steps; if not, go back."""
        if not self._hurries:
            return
        for scenario in (self.best, self.smallest):
            if scenario is not self._confirmed and self._fails(scenario) != self._signature:
                self._hurries = False
                self.best = self.smallest = self._confirmed
                self.cost = cost_of(self.best)
                # Some of it has failed for want of steps alone.
                self._tried.clear()
                return
        self._confirmed = self.smallest

    def leave_out_much(self) -> None:
        """Try what saves most and costs least, before anything else."""
        self._first(schedules)
        self._first(fault_subsets)
        self._first(beginnings)

    def leave_out(self) -> None:
        """Apply all reductions, in the order of what they save, until none helps."""
        cost = self.cost + 1
        while self.cost < cost:
            cost = self.cost
            self._first(schedules)
            self._first(fault_subsets)
            self._first(beginnings)
            self._leave_out_records()
            self._all(partial(fewer_subtasks, found=self._found))
            self._all(partial(plainer_values, found=self._found))
            self._all(plainer_settings)
            self._all(plainer_faults)
            self._all(fewer_operations)
            self._leave_out_choices()
            self._first(slower_sources, seeds=1)
            self._first(earlier_checkpoints)
            self._first(sooner_checkpoints, seeds=1)

    def list_choices(self, record_preemptions: RecordPreemptions | None) -> None:
        """Turn a schedule that draws every step into a list of choices, and shorten the list."""
        if record_preemptions is None or not draws_steps(self.best.schedule):
            return
        if self._improves(replace(self.best, schedule=record_preemptions(self.best))):
            self._leave_out_choices()
            self.leave_out()

    def look_nearby(self, until: float, draws: int) -> None:
        """Draw small scenarios made of this one's material, and go on from the best that fails.

        What is small enough to be read gets so many draws, what is not gets all the time until then.
        """
        for number, candidate in enumerate(small_scenarios(self.best, self._found)):
            if perf_counter() > until or (number >= draws and is_readable(self.best)):
                return
            smaller = cost_of(candidate) < self.cost or self._is_smaller_but_for_its_schedule(candidate)
            if smaller and self._fails_alike(candidate):
                self._accept(candidate)
                self._first(schedules)

    def finish(self) -> None:
        """Go back to the smallest of all, see that nothing can be left out of it, and number its records."""
        if self.best is not self.smallest:
            self.best, self.cost = self.smallest, cost_of(self.smallest)
            self.leave_out()
        self._renumber()

    def _renumber(self) -> None:
        """Give the records the timestamps 0, 1, 2, if the failure stays."""
        candidate = renumbered(self.best)
        if candidate != self.best and self._fails_alike(candidate):
            self.smallest = candidate

    def _leave_out_records(self) -> None:
        def fails(kept: list[tuple[str, InputRecord]]) -> bool:
            return self._improves(with_records(self.best, kept))

        without_items(listed_records(self.best), fails)

    def _leave_out_choices(self) -> None:
        def fails(kept: list[tuple[int, str]]) -> bool:
            schedule = replace(self.best.schedule, preemptions=tuple(kept))
            return self._improves(replace(self.best, schedule=schedule))

        if self.best.schedule.preemptions:
            without_items(self.best.schedule.preemptions, fails)

    def _first(
        self, candidates: Callable[[Scenario], Iterator[Scenario]], seeds: int = SEEDS_A_CANDIDATE
    ) -> None:
        """Take the first candidate that fails alike."""
        for candidate in candidates(self.best):
            if self._improves(candidate, seeds):
                return

    def _all(self, candidates: Callable[[Scenario], Iterator[Scenario]]) -> None:
        """Take candidates until none of them fails alike."""
        cost = self.cost + 1
        while self.cost < cost:
            cost = self.cost
            self._first(candidates)

    def _improves(self, candidate: Scenario, seeds: int = SEEDS_A_CANDIDATE) -> bool:
        """Run a candidate if it is smaller, under a few seeds if its schedule draws; keep it if it fails."""
        if cost_of(candidate) >= self.cost:
            return False
        schedule = candidate.schedule
        if schedule.kind not in ("uniform", "priority"):
            seeds = 1
        for seed in range(schedule.seed, schedule.seed + seeds):
            tried = candidate if seed == schedule.seed else _with_seed(candidate, seed)
            # A draw between equals costs more than none.
            if cost_of(tried) < self.cost and self._fails_alike(tried):
                self._accept(tried)
                return True
        return False

    def _is_smaller_but_for_its_schedule(self, candidate: Scenario) -> bool:
        fair = Schedule()
        return cost_of(replace(candidate, schedule=fair)) < cost_of(replace(self.best, schedule=fair))

    def _accept(self, candidate: Scenario) -> None:
        # As many steps as it would have been generated with: the fewer, the sooner a stuck run is over.
        steps = min(candidate.step_budget, ample_step_budget(candidate))
        candidate = replace(candidate, step_budget=steps)
        self.best, self.cost = candidate, cost_of(candidate)
        if self.cost < cost_of(self.smallest):
            self.smallest = candidate

    def _fails_alike(self, candidate: Scenario) -> bool:
        text = to_json(candidate)
        if text in self._tried:
            return False
        if perf_counter() > self._deadline:
            raise _TimeIsUp
        self._tried.add(text)
        self.runs += 1
        if self._hurries:
            candidate = replace(candidate, step_budget=max(1, ample_step_budget(candidate) // HURRIED))
        return self._fails(candidate) == self._signature


def _with_seed(candidate: Scenario, seed: int) -> Scenario:
    return replace(candidate, schedule=replace(candidate.schedule, seed=seed))
