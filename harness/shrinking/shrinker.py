"""The shrinker: from a failing scenario to a small one that fails with the same signature.

The rules this module lives by:

- Only the same signature counts. A candidate with another signature is another failure, and is dropped.
- Large parts are left out first. Under a schedule that draws every step, leaving out one record changes all
  steps after it. So such a candidate is tried with a few schedule seeds, and the schedule is recorded as a
  list of choices only when the scenario is small; then choices are left out one by one.
- ddmin ends where every part is needed. Small-scope search then draws small scenarios that resemble the best
  one, and what it finds is reduced again.
- A stuck job uses up its step budget, a hundred times the length of another run. So candidates run with a
  part of their budget, in which correct runs end; the best scenario is confirmed with the whole budget after
  each pass and at the end.
- The limit is a number of runs, and no clock is read: the same failure shrinks to the same scenario on every
  machine, however busy. At the limit the best scenario so far is the result; it fails like the original.
- Decisions are left out once more at the end, each alone, until every one that is left is needed.
- What stays large is left without each of its parts in turn, until none of these runs fails like it. The last
  part of the runs is kept for that, and the scenario says so if there were enough (``Needed``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from typing import Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers.checker import RunForSignature, Signature
from onceproof.harness.model.scenario import Fault, InputRecord, Scenario, Schedule, to_json
from onceproof.harness.model.step_limits import allowed_step_budget, patience_of, patient_step_budget
from onceproof.harness.shrinking.fewer_requests import fewer_operations
from onceproof.harness.shrinking.reductions import (
    FEW_FAULTS,
    SimplerParameters,
    Size,
    cost_of,
    ddmin,
    draws_steps,
    earlier_faults,
    fault_subsets,
    fewer_subtasks,
    fewer_values,
    first_choices,
    is_readable,
    is_seen_at_once,
    listed_records,
    record_prefixes,
    shorter_intervals,
    simpler_faults,
    simpler_jobs,
    simpler_schedules,
    simpler_settings,
    size_of,
    slower_sources,
    until_horizon,
    with_ample_time,
    with_consecutive_timestamps,
    with_records,
)
from onceproof.harness.shrinking.removals import is_large, needed_of, single_removals
from onceproof.harness.shrinking.small_scope import small_scenarios

RecordPreemptions: TypeAlias = Callable[[Scenario], Schedule]
"""Runs a scenario and returns its schedule as preemptions of the fair schedule, with the same steps.

Where the run does not end it returns the schedule that the scenario has."""

BUDGET_DIVISOR: Final = 4
"""Candidates run with this part of their step budget: of 60,000 correct runs 19 needed more."""

MOST_RUNS: Final = 1000
"""The usual limit. Nine of ten failures need a tenth of it."""
SHARE_FOR_LONG_RUNS: Final = 0.3
"""The share of the runs in which the whole scenario is tried before small ones are drawn."""
SHARE_FOR_NEED: Final = 0.1
"""The share of the runs that is kept for showing what a scenario that stays large needs."""
SEEDS_PER_CANDIDATE: Final = 3
FEW_RECORDS: Final = 16
FIRST_SMALL_SCENARIOS: Final = 150
SMALL_SCENARIOS: Final = 450
DRAWS_WHERE_UNREADABLE: Final = 10
"""So many times the draws are made while the best scenario is too large to be read."""


@dataclass(frozen=True, slots=True)
class ShrinkResult:
    """The smallest failing scenario found, and the number of runs it took."""

    scenario: Scenario
    runs: int
    before: Size
    after: Size


class _RunsAreUp(Exception):
    """The limit of runs is reached; the best scenario so far is the result."""


def shrink(
    scenario: Scenario,
    run: RunForSignature,
    signature: Signature,
    most_runs: int = MOST_RUNS,
    record_preemptions: RecordPreemptions | None = None,
    simpler_parameters: SimplerParameters | None = None,
) -> ShrinkResult:
    """Return the smallest scenario found that fails with the signature.

    Args:
        scenario: the failing scenario; it is the result if no smaller one is found.
        run: runs a scenario and returns its signature, or None if it passes.
        signature: how the scenario fails.
        most_runs: the limit of runs; a few more confirm the result.
        record_preemptions: turns a drawn schedule into a list of choices; None if the system cannot.
        simpler_parameters: yields the parameters of simpler jobs; None where they describe no job.
    """
    choices = None
    if record_preemptions and draws_steps(scenario.schedule):
        recorded = record_preemptions(until_horizon(scenario))
        choices = len(recorded.preemptions) if recorded.kind == "preemptions" else None
    unseeded = replace(scenario, seed=None, needed=UNSET)
    kept = int(most_runs * SHARE_FOR_NEED)
    search = _Search(unseeded, run, signature, most_runs - kept, simpler_parameters)
    try:
        search.reduce_coarsely(most_runs * SHARE_FOR_LONG_RUNS)
        if search.best.record_count() <= FEW_RECORDS and not draws_steps(search.best.schedule):
            # Under this schedule a left-out part changes nothing else, and few candidates are left.
            search.reduce()
        search.confirm()
        search.search_small_scope(search.runs + most_runs * 0.3, FIRST_SMALL_SCENARIOS)
        if not search.is_long_and_drawn:
            search.reduce()
        search.confirm()
        search.record_choices(record_preemptions)
        search.search_small_scope(most_runs * 0.8, SMALL_SCENARIOS)
        search.confirm()
        search.record_choices(record_preemptions)
        search.reduce()
        search.finish()
    except _RunsAreUp:
        pass
    search.confirm()
    needs_all = search.leave_out_each_part(most_runs)
    best = scenario if search.is_unchanged else search.smallest
    before = size_of(scenario, choices)
    after = before if search.is_unchanged else size_of(best)
    if needs_all:
        best = replace(best, needed=needed_of(best, signature))
    return ShrinkResult(best, search.runs, before, after)


class _Search:
    """The best scenario so far, and the passes that look for a better one."""

    def __init__(
        self,
        scenario: Scenario,
        run: RunForSignature,
        signature: Signature,
        most_runs: float,
        simpler_parameters: SimplerParameters | None = None,
    ) -> None:
        self.best = scenario
        """The scenario that the passes start from."""
        self.cost = cost_of(scenario)
        self.smallest = scenario
        """The smallest failing scenario so far; small-scope search may have moved ``best`` to a larger
        one."""
        self.runs = 0
        self._original = scenario
        self._patience = patience_of(scenario)
        self._run = run
        self._signature = signature
        self._most_runs = most_runs
        self._simpler_jobs = partial(simpler_jobs, simpler_parameters=simpler_parameters)
        self._tried: set[str] = set()
        """The candidates that were run, as JSON."""
        self._pauses_at = inf
        self._uses_part_of_budget = True
        self._confirmed = scenario
        """The latest scenario that failed with its whole step budget."""

    @property
    def is_unchanged(self) -> bool:
        """Return whether no smaller scenario was found."""
        return self.smallest is self._original

    def confirm(self) -> None:
        """Run the best scenarios with their whole step budget; go back to the confirmed one if they pass."""
        if not self._uses_part_of_budget:
            return
        for scenario in (self.best, self.smallest):
            if scenario is self._confirmed:
                continue
            self.runs += 1
            if self._run(scenario) != self._signature:
                self._uses_part_of_budget = False
                self.best = self.smallest = self._confirmed
                self.cost = cost_of(self.best)
                # Some candidates failed only because of the reduced budget.
                self._tried.clear()
                return
        self._confirmed = self.smallest

    def reduce_coarsely(self, until: float) -> None:
        """Try the reductions that save most with the fewest runs.

        These runs are the longest of all, so priorities with a seed are tried only with few records.

        Args:
            until: after how many runs to stop.
        """
        self._pauses_at = until
        self._first(simpler_schedules, seeds=1)
        self._leave_out_faults()
        self._first(record_prefixes)
        if not self.is_long_and_drawn:
            self._first(simpler_schedules)
            self._all(self._simpler_jobs)
        self._pauses_at = inf

    @property
    def is_long_and_drawn(self) -> bool:
        """Return whether many records are read in an order that is drawn.

        Each part that is left out draws all steps anew. Listed as choices, most of them stay.
        """
        return draws_steps(self.best.schedule) and self.best.record_count() > FEW_RECORDS

    def reduce(self) -> None:
        """Apply all reductions, those that save most first, until none of them helps."""
        cost = self.cost + 1
        while self.cost < cost:
            cost = self.cost
            self._first(simpler_schedules)
            self._leave_out_faults()
            self._first(record_prefixes)
            self._all(self._simpler_jobs)
            self._leave_out_records()
            self._all(partial(fewer_subtasks, original=self._original))
            self._all(partial(fewer_values, original=self._original))
            self._all(simpler_settings)
            self._all(simpler_faults)
            self._all(fewer_operations)
            self._leave_out_choices()
            self._first(slower_sources, seeds=1)
            self._first(earlier_faults)
            self._first(shorter_intervals, seeds=1)

    def record_choices(self, record_preemptions: RecordPreemptions | None) -> None:
        """Replace a schedule that draws its steps by the list of its choices, and shorten the list."""
        if record_preemptions is None or not draws_steps(self.best.schedule):
            return
        if self._improves(replace(self.best, schedule=record_preemptions(until_horizon(self.best)))):
            self._leave_out_choices()
            self.reduce()

    def search_small_scope(self, until: float, draws: int) -> None:
        """Run small scenarios that resemble the best one, and accept each that fails with less cost.

        Args:
            until: after how many runs to stop.
            draws: after how many draws to stop if the best scenario is readable; otherwise the search stops
                after ``DRAWS_WHERE_UNREADABLE`` times as many. None is made, or no more, once it is seen at
                once: another scenario would save a record or so, at the price of hundreds of runs.
        """
        most = draws * DRAWS_WHERE_UNREADABLE
        for number, candidate in enumerate(islice(small_scenarios(self.best, self._original), most)):
            enough = 0 if is_seen_at_once(self.best) else draws
            if self.runs >= until or (number >= enough and is_readable(self.best)):
                return
            smaller = cost_of(candidate) < self.cost or self._is_smaller_without_schedule(candidate)
            if smaller and self._has_same_failure(candidate):
                self._accept(candidate)
                self._first(simpler_schedules, seeds=1)

    def finish(self) -> None:
        """Reduce the smallest scenario once more, and number its records."""
        if self.best is not self.smallest:
            self.best, self.cost = self.smallest, cost_of(self.smallest)
            self.reduce()
        self._renumber()

    def leave_out_each_part(self, most_runs: int) -> bool:
        """Leave out each part of a scenario that stays large, alone, and with its whole step budget.

        What still fails is the smallest scenario from then on. A schedule that draws its steps has no parts.

        Args:
            most_runs: after how many runs to stop.

        Returns:
            Whether the scenario is still large, and does not fail so without any one of its parts.
        """
        place = needed = 0
        parts: list[Scenario] = []
        while is_large(size_of(self.smallest)) and not draws_steps(self.smallest.schedule):
            parts = parts or list(single_removals(self.smallest))
            if needed == len(parts):
                return True
            if self.runs >= most_runs:
                return False
            rest = parts[place % len(parts)]
            rest = replace(rest, step_budget=self._budget_of(rest))
            self.runs += 1
            if self._run(rest) == self._signature:
                self.smallest, parts, needed = rest, [], 0
            else:
                place, needed = place + 1, needed + 1
        return False

    def _renumber(self) -> None:
        """Give the records the timestamps 0, 1, 2, ... if the scenario then still fails."""
        candidate = with_consecutive_timestamps(self.best)
        if candidate != self.best and self._has_same_failure(candidate):
            self.smallest = candidate

    def _leave_out_records(self) -> None:
        def fails(kept: list[tuple[str, InputRecord]]) -> bool:
            return self._improves(with_records(self.best, kept))

        ddmin(listed_records(self.best), fails)

    def _leave_out_faults(self) -> None:
        def fails(kept: list[Fault]) -> bool:
            return self._improves(replace(self.best, faults=tuple(kept)))

        self._first(fault_subsets)
        if len(self.best.faults) >= FEW_FAULTS:
            ddmin(self.best.faults, fails)

    def _leave_out_choices(self) -> None:
        def fails(kept: list[tuple[int, str]]) -> bool:
            schedule = replace(self.best.schedule, preemptions=tuple(kept))
            return self._improves(replace(self.best, schedule=schedule))

        if self.best.schedule.preemptions:
            # What comes behind the first violation changes nothing.
            self._first(first_choices)
            ddmin(self.best.schedule.preemptions, fails)

    def _first(
        self, candidates: Callable[[Scenario], Iterator[Scenario]], seeds: int = SEEDS_PER_CANDIDATE
    ) -> None:
        """Accept the first candidate that fails with the same signature."""
        for candidate in candidates(self.best):
            if self.runs >= self._pauses_at:
                return
            if self._improves(candidate, seeds):
                return

    def _all(self, candidates: Callable[[Scenario], Iterator[Scenario]]) -> None:
        """Accept candidates until none of them fails with the same signature."""
        cost = self.cost + 1
        while self.cost < cost:
            cost = self.cost
            self._first(candidates)

    def _improves(self, candidate: Scenario, seeds: int = SEEDS_PER_CANDIDATE) -> bool:
        """Run a smaller candidate, with a few seeds if its schedule draws, and accept it if it fails."""
        candidate = with_ample_time(candidate)
        if cost_of(candidate) >= self.cost:
            return False
        schedule = candidate.schedule
        if schedule.kind not in ("uniform", "priority"):
            seeds = 1
        for seed in range(schedule.seed, schedule.seed + seeds):
            tried = candidate if seed == schedule.seed else _with_seed(candidate, seed)
            # A seed other than 0 adds to the cost.
            if cost_of(tried) < self.cost and self._has_same_failure(tried):
                self._accept(tried)
                return True
        return False

    def _is_smaller_without_schedule(self, candidate: Scenario) -> bool:
        fair = Schedule()
        return cost_of(replace(candidate, schedule=fair)) < cost_of(replace(self.best, schedule=fair))

    def _budget_of(self, candidate: Scenario) -> int:
        return allowed_step_budget(self._patience * patient_step_budget(candidate), candidate.record_count())

    def _accept(self, candidate: Scenario) -> None:
        # The budget that the generator would give a scenario of this size: a stuck run ends sooner, and a run
        # with longer delays than before is not stuck.
        candidate = replace(candidate, step_budget=self._budget_of(candidate))
        self.best, self.cost = candidate, cost_of(candidate)
        if self.cost < cost_of(self.smallest):
            self.smallest = candidate

    def _has_same_failure(self, candidate: Scenario) -> bool:
        text = to_json(candidate)
        if text in self._tried:
            return False
        if self.runs >= self._most_runs:
            raise _RunsAreUp
        self._tried.add(text)
        self.runs += 1
        divisor = BUDGET_DIVISOR if self._uses_part_of_budget else 1
        budget = max(1, self._budget_of(candidate) // divisor)
        return self._run(replace(candidate, step_budget=budget)) == self._signature


def _with_seed(candidate: Scenario, seed: int) -> Scenario:
    return replace(candidate, schedule=replace(candidate.schedule, seed=seed))
