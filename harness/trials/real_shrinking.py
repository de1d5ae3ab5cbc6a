"""The shrinker for systems of real processes, whose runs take seconds and are not deterministic.

The rules this module lives by:

- There is no time for hundreds of runs: the reductions that save most are tried first, and a limit of runs
  ends the search. A candidate is accepted if it fails with the same signature in one run.
- The failing scenario may pass when it is run again. It is run a few times, and is not shrunk if it does not
  fail again, because the result would be another failure.
- The scenario is shrunk as the system runs it, without faults that the system cannot inject. A kill of a
  process costs more than that of a task, and is replaced by it if the scenario still fails.
- An interrupt ends the search; the smallest scenario so far is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.protocol_points import COORDINATOR
from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.explanation.decisions import decisions_of
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.program_measures import SetUpProblem
from onceproof.harness.model.scenario import Fault, Scenario, Schedule, to_json
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.model.system import System, applicable, can_strike, prepared
from onceproof.harness.trials.trial import Trial

TryScenario: TypeAlias = Callable[[Scenario], Trial]
"""Runs a scenario on the system and judges it."""

MOST_RUNS: Final = 40
"""The usual limit, where a failure is to be shrunk."""
MOST_TRIES: Final = 3
"""How often the failing scenario is run until it fails again."""


class LimitReached(Exception):
    """The limit of runs is reached."""


@dataclass(frozen=True, slots=True)
class RealShrink:
    """The smallest failing scenario found, and its trial."""

    before: Scenario
    """The given scenario, as the system runs it."""
    scenario: Scenario
    trial: Trial | None
    """The trial of the smallest scenario; if none failed, the last trial; None if there was no run."""
    signature: Signature | None
    """How the scenario fails; None if it did not fail again."""
    is_finished: bool
    """Whether all smaller candidates were tried."""


class RealRuns:
    """Runs scenarios within a limit, counts the runs, and remembers their trials."""

    def __init__(
        self,
        try_one: TryScenario,
        most_runs: int = MOST_RUNS,
        progress: Callable[[int], None] = lambda runs: None,
    ) -> None:
        """Prepare the runs.

        Args:
            try_one: runs a scenario on the system and judges it.
            most_runs: the limit of runs; the first run is made whatever it is.
            progress: called with the number of each run before it starts.
        """
        self.most_runs = most_runs
        self.runs = 0
        self.was_interrupted = False
        self._try_one = try_one
        self._progress = progress
        self._trials: dict[str, Trial | None] = {}

    def run(self, scenario: Scenario) -> Trial:
        """Run a scenario and judge it; the first run ignores the limit.

        Raises:
            LimitReached: the limit is reached, or the run was interrupted.
        """
        if self.was_interrupted or (self.runs and self.runs >= self.most_runs):
            raise LimitReached
        self.runs += 1
        self._progress(self.runs)
        try:
            trial = self._try_one(scenario)
        except KeyboardInterrupt:
            # A run that was cut short says nothing.
            self.runs -= 1
            self.was_interrupted = True
            raise LimitReached from None
        self._trials[to_json(scenario)] = trial
        return trial

    def trial(self, scenario: Scenario) -> Trial | None:
        """Return the trial of a scenario, which is run at most once; None if its family refuses the input."""
        key = to_json(scenario)
        if key not in self._trials:
            try:
                self.run(scenario)
            except FamilyError:
                self._trials[key] = None
        return self._trials[key]

    def fails(self, scenario: Scenario) -> Signature | None:
        """Return the signature of a scenario, or None if it passes.

        Raises:
            LimitReached: the limit is reached, or the run was interrupted.
        """
        trial = self.trial(scenario)
        return None if trial is None else trial.verdict.signature


def shrink(
    scenario: Scenario, runs: RealRuns, system: System, signature: Signature | None = None
) -> RealShrink:
    """Return the smallest scenario found that fails with a signature; None accepts any failure."""
    before = smallest = without_schedule(scenario, system)
    trial, signature = _failed_again(before, runs, signature)
    if trial is None or signature is None:
        return RealShrink(before, before, trial, None, is_finished=True)
    tried = {to_json(smallest)}
    idle_phases = 0
    try:
        for phase in cycle(PHASES):
            idle_phases += 1
            while candidates := [each for each in phase(smallest, system) if to_json(each) not in tried]:
                tried.add(to_json(candidates[0]))
                found = runs.trial(candidates[0])
                if found is not None and is_same_failure(found.verdict.signature, signature):
                    smallest, trial, idle_phases = candidates[0], found, 0
            if idle_phases >= len(PHASES):
                break
    except LimitReached:
        return RealShrink(before, smallest, trial, signature, is_finished=False)
    return RealShrink(before, smallest, trial, signature, is_finished=True)


def _failed_again(
    scenario: Scenario, runs: RealRuns, wanted: Signature | None
) -> tuple[Trial | None, Signature | None]:
    """Return the first trial with the wanted signature, and the signature; else the last trial and None."""
    trial = None
    try:
        for _ in range(MOST_TRIES):
            try:
                trial = runs.run(scenario)
            except SetUpProblem:
                # It was stuck before any fault, which says nothing of the failure.
                continue
            found = trial.verdict.signature
            if found is not None and (wanted is None or is_same_failure(found, wanted)):
                return trial, found
    except LimitReached:
        pass
    return trial, None


def without_schedule(scenario: Scenario, system: System) -> Scenario:
    """Return a scenario as a system runs it: without a schedule, and without faults that it cannot inject."""
    scenario = prepared(system, scenario)
    servers = [fault.server for fault in scenario.faults]
    faults, _ = applicable(scenario.faults, system.capabilities, system.missing, servers)
    return replace(scenario, seed=None, faults=faults, schedule=Schedule(), needed=UNSET)


def fewer_faults(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield a scenario without faults, with cheaper and simpler ones, with each alone, and without each."""
    faults = scenario.faults
    for changed in ((), tuple([_cheaper(fault, system) for fault in faults]), tuple(map(_simpler, faults))):
        if changed != faults:
            yield _prepared(system, scenario, faults=changed)
    # Most failures need one fault: of many, each alone comes before all but one.
    if len(faults) > 2:
        for fault in faults:
            yield _prepared(system, scenario, faults=(fault,))
    for place in range(len(faults)):
        if len(faults) > 1:
            yield _prepared(system, scenario, faults=faults[:place] + faults[place + 1 :])


def fewer_operations(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield a scenario without requests to the job, and without each of them."""
    asked = scenario.asked
    if asked:
        yield _prepared(system, scenario, operations=UNSET)
    for place in range(len(asked)):
        if len(asked) > 1:
            yield _prepared(system, scenario, operations=asked[:place] + asked[place + 1 :])


def default_settings(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield a scenario with the defaults of all settings that are decisions, and without each of these."""
    settings = [each for each in decisions_of(scenario) if each.kind in ("setting", "parallelism")]
    usual = replace(
        scenario,
        mode=UNSET,
        state_backend=UNSET,
        incremental=UNSET,
        watermark_interval_ms=UNSET,
        buffer_records=UNSET,
        endless=UNSET,
    )
    for changed in (usual, *(each.without for each in settings)):
        if settings and prepared(system, changed) != scenario:
            yield prepared(system, changed)


def fewer_subtasks(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield a scenario with one subtask of each task."""
    if max(scenario.parallelisms()) > 1:
        yield _prepared(system, scenario, parallelism=1, source_parallelism=0, sink_parallelism=0)


def _cheaper(fault: Fault, system: System) -> Fault:
    """Return a fault that costs less, if the system can inject it at the same point."""
    kind = FAULTS[fault.kind].milder or fault.kind
    strikes = fault.point in FAULTS[kind].points and can_strike(system, kind, fault.point)
    # Means belong to a kind, and the coordinator is no task that can be killed.
    return replace(fault, kind=kind) if strikes and not fault.means and fault.task != COORDINATOR else fault


def _simpler(fault: Fault) -> Fault:
    """Return a fault that fires right at its point, by the default means, without a rescale."""
    delay = fault.delay if FAULTS[fault.kind].delay == "required" else 0
    return replace(fault, means="", delay=delay, after=0, rescale_to=0)


def fewer_records(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield scenarios with fewer splits, with half of each split, and without ever smaller chunks."""
    splits = scenario.records
    if len(splits) > 1:
        for split in splits:
            yield _with_records(scenario, system, {split: splits[split]})
        for split in splits:
            others = {name: records for name, records in splits.items() if name != split}
            yield _with_records(scenario, system, others)
    cut = max(map(len, splits.values()), default=0)
    if cut > 1:
        halves = {name: records[: -(-len(records) // 2)] for name, records in splits.items()}
        yield _with_records(scenario, system, halves)
    while cut > 1:
        cut = -(-cut // 2)
        for split, records in splits.items():
            if len(records) > cut:
                for begin in range(0, len(records), cut):
                    rest = records[:begin] + records[begin + cut :]
                    yield _with_records(scenario, system, {**splits, split: rest})


def _with_records(scenario: Scenario, system: System, records: Mapping[str, Sequence[Any]]) -> Scenario:
    """Return a scenario with other records, its interval and occurrences scaled to their number."""
    before, after = scenario.record_count(), sum(map(len, records.values()))

    def share(count: int, least: int) -> int:
        return max(least, -(-count * after // max(1, before)))

    changes: dict[str, object] = {
        "records": records,
        "checkpoint_interval_ms": share(scenario.checkpoint_interval_ms, STEPS_PER_RECORD),
        "faults": tuple([replace(each, occurrence=share(each.occurrence, 1)) for each in scenario.faults]),
    }
    if scenario.asked:
        changes["operations"] = tuple(
            [replace(each, occurrence=share(each.occurrence, 1)) for each in scenario.asked]
        )
    return _prepared(system, scenario, **changes)


def _prepared(system: System, scenario: Scenario, **changes: object) -> Scenario:
    return prepared(system, replace(scenario, **changes))


PHASES: Final = (fewer_faults, fewer_operations, fewer_subtasks, fewer_records, default_settings)
"""The reductions, tried in turn until none of them helps."""
