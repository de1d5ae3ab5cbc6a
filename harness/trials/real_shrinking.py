"""Shrinking where each run is a real one: processes that start, work, are killed and come back.

The rules this module lives by:

- A run takes seconds, and does not repeat step by step, so there is no time for hundreds of them: what
  shrinks most is tried first, and a limit of time and of runs ends it. A smaller one counts if it fails with
  the same signature in one run, so the smallest has failed; where a race decides, fewer are found.
- What was found may pass when it is run again. It is tried a few times, and what does not fail again is not
  shrunk: whatever came of that would be another failure.
- The scenario is shrunk as it is run, with its faults where the system has them strike. A death of a whole
  process is dearer than one of a task, and is made one where that fails as well.
- Who interrupts it has waited long enough: what has been reached is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from time import perf_counter
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from onceproof.engine.protocol_points import COORDINATOR
from onceproof.harness.checkers import Signature
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.faults import FAULTS, FaultKind
from onceproof.harness.model.scenario import Fault, Scenario, Schedule, to_json
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.model.system import System, applicable, can_strike
from onceproof.harness.trials.trial import Trial, as_run

TryOne: TypeAlias = Callable[[Scenario], Trial]
"""Runs a scenario on the system and judges it."""

LIMIT_SECONDS: Final = 120.0
MOST_RUNS: Final = 40
MOST_TRIES: Final = 3
"""How often a scenario is run that is known to have failed, until it does again."""
CHEAPER: Final[dict[FaultKind, FaultKind]] = {"kill_process": "kill_task", "kill_all": "kill_task"}


class LimitReached(Exception):
    """There is no time, or no run, for another one."""


@dataclass(frozen=True, slots=True)
class RealShrink:
    """The smallest scenario that was found, and its run."""

    before: Scenario
    """The given one, as it is run."""
    scenario: Scenario
    trial: Trial | None
    """Of the smallest scenario; where none failed, the last one; None: there was none."""
    signature: Signature | None
    """How it fails; None: it did not fail again."""
    is_finished: bool
    """Nothing that is smaller was left to be tried."""


class RealRuns:
    """Runs scenarios within a limit, counts them, and knows what came of each."""

    def __init__(
        self,
        try_one: TryOne,
        limit_seconds: float = LIMIT_SECONDS,
        most_runs: int = MOST_RUNS,
        progress: Callable[[int], None] = lambda runs: None,
    ) -> None:
        """``progress`` is told the number of each run before it begins."""
        self.limit_seconds = limit_seconds
        """From the end of the first run on: before it, what is to run has to be started."""
        self.runs = 0
        self.was_interrupted = False
        self._try_one = try_one
        self._started = perf_counter()
        self._ready = self._started
        self._most_runs = most_runs
        self._progress = progress
        self._trials: dict[str, Trial | None] = {}

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return perf_counter() - self._started

    def run(self, scenario: Scenario) -> Trial:
        """Run a scenario. Raises LimitReached; the first run is made whatever the limit."""
        is_over = self.runs >= self._most_runs or perf_counter() - self._ready >= self.limit_seconds
        if self.was_interrupted or (self.runs and is_over):
            raise LimitReached
        self.runs += 1
        self._progress(self.runs)
        try:
            trial = self._try_one(scenario)
        except KeyboardInterrupt:
            self.was_interrupted = True
            raise LimitReached from None
        if self.runs == 1:
            self._ready = perf_counter()
        self._trials[to_json(scenario)] = trial
        return trial

    def trial(self, scenario: Scenario) -> Trial | None:
        """Return what came of a scenario, run at most once; None where its family cannot take it."""
        key = to_json(scenario)
        if key not in self._trials:
            try:
                self.run(scenario)
            except FamilyError:
                self._trials[key] = None
        return self._trials[key]

    def fails(self, scenario: Scenario) -> Signature | None:
        """Return how a scenario fails, if it does. Raises LimitReached."""
        trial = self.trial(scenario)
        return None if trial is None else trial.verdict.signature


def shrink(
    scenario: Scenario, runs: RealRuns, system: System, signature: Signature | None = None
) -> RealShrink:
    """Return the smallest scenario found that fails with a signature; any will do where none is given."""
    before = smallest = without_schedule(scenario, system)
    trial, signature = _failed_again(before, runs, signature)
    if trial is None or signature is None:
        return RealShrink(before, before, trial, None, is_finished=True)
    refused = {to_json(smallest)}
    passed_by = 0
    try:
        for phase in cycle(PHASES):
            passed_by += 1
            while candidates := [each for each in phase(smallest, system) if to_json(each) not in refused]:
                refused.add(to_json(candidates[0]))
                tried = runs.trial(candidates[0])
                if tried is not None and tried.verdict.signature == signature:
                    smallest, trial, passed_by = candidates[0], tried, 0
            if passed_by >= len(PHASES):
                break
    except LimitReached:
        return RealShrink(before, smallest, trial, signature, is_finished=False)
    return RealShrink(before, smallest, trial, signature, is_finished=True)


def _failed_again(
    scenario: Scenario, runs: RealRuns, wanted: Signature | None
) -> tuple[Trial | None, Signature | None]:
    """Return the run in which a scenario failed as it is wanted to, and how; else the last one, and None."""
    trial = None
    try:
        for _ in range(MOST_TRIES):
            trial = runs.run(scenario)
            found = trial.verdict.signature
            if found is not None and wanted in (None, found):
                return trial, found
    except LimitReached:
        pass
    return trial, None


def without_schedule(scenario: Scenario, system: System) -> Scenario:
    """Return a scenario as a system runs it, with nothing in it that has no meaning there."""
    there = as_run(system, scenario)
    faults, _ = applicable(there.faults, system.capabilities, system.missing)
    return replace(there, seed=None, faults=faults, schedule=Schedule())


def fewer_faults(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield a scenario without faults, with cheaper and with plainer ones, and without each of them."""
    faults = scenario.faults
    for changed in ((), tuple([_cheaper(fault, system) for fault in faults]), tuple(map(_plainer, faults))):
        if changed != faults:
            yield _as_run(system, scenario, faults=changed)
    for place in range(len(faults)):
        if len(faults) > 1:
            yield _as_run(system, scenario, faults=faults[:place] + faults[place + 1 :])


def fewer_subtasks(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield a scenario of one subtask of each task."""
    if max(scenario.parallelisms()) > 1:
        yield _as_run(system, scenario, parallelism=1, source_parallelism=0, sink_parallelism=0)


def _cheaper(fault: Fault, system: System) -> Fault:
    """Return a fault that costs less, if it can strike at the same point."""
    kind = CHEAPER.get(fault.kind, fault.kind)
    strikes = fault.point in FAULTS[kind].points and can_strike(system, kind, fault.point)
    # A means belongs to a kind, and another one may not have it; the coordinator is no task.
    return replace(fault, kind=kind) if strikes and not fault.means and fault.task != COORDINATOR else fault


def _plainer(fault: Fault) -> Fault:
    """Return a fault that strikes at its point, in the plain way, and leaves the parallelism as it is."""
    delay = fault.delay if FAULTS[fault.kind].delay == "required" else 0
    return replace(fault, means="", delay=delay, after=0, rescale_to=0)


def fewer_records(scenario: Scenario, system: System) -> Iterator[Scenario]:
    """Yield scenarios without whole splits, without the later halves of all, without ever fewer in a row."""
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
    """Return a scenario with other records; what waits for many of them waits for its share of these."""
    before, after = scenario.record_count(), sum(map(len, records.values()))

    def share(count: int, least: int) -> int:
        return max(least, -(-count * after // max(1, before)))

    faults = [replace(fault, occurrence=share(fault.occurrence, 1)) for fault in scenario.faults]
    interval = share(scenario.checkpoint_interval_ms, STEPS_PER_RECORD)
    return _as_run(system, scenario, records=records, checkpoint_interval_ms=interval, faults=tuple(faults))


def _as_run(system: System, scenario: Scenario, **changes: object) -> Scenario:
    return as_run(system, replace(scenario, **changes))


PHASES: Final = (fewer_faults, fewer_subtasks, fewer_records)
"""What is tried, in turn, until none of it makes a scenario smaller."""
