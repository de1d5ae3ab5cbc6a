"""A failure looked into: run again, made small, and run without each of its decisions.

The rules this module lives by:

- A system whose runs repeat step by step is asked hundreds of times in seconds, and answers for certain. Any
  other is asked a few times, in seconds each, within a limit; what that cannot tell is said in words.
- A scenario that does not fail again is told as that, and never shrunk: whatever came out of shrinking it
  would be another failure.
- What is explained is a run that was made and judged here, the one of the small scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceproof.harness.checkers import CONTINUATIONS
from onceproof.harness.checkers.base import RunForSignature, Signature
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.explanation.decisions import DecisionEffects, measure_decisions
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import System
from onceproof.harness.shrinking.reductions import size_of
from onceproof.harness.shrinking.shrinker import LIMIT_SECONDS, ShrinkResult, shrink
from onceproof.harness.systems.simulation.simulated_system import record_preemptions
from onceproof.harness.trials import real_shrinking as real_runs
from onceproof.harness.trials.real_shrinking import LimitReached, RealRuns, RealShrink
from onceproof.harness.trials.trial import SIMULATED, Trial, as_run, try_scenario
from onceproof.reports.text import counted, duration

SHARE_OF_TAKES: Final = 0.2
"""Of the time that there is for real runs, what is kept to find out what a failure takes."""
NOT_SEEN: Final = (
    "The diagram has what could be seen from outside: attempts, checkpoints, rows that became visible, and"
    " deaths, in the order in which they were told. What went on between tasks was not seen, so it has no"
    " arrows for records and messages, and its steps count events, not time."
)


@dataclass(frozen=True, slots=True)
class Examined:
    """What became of a failing scenario."""

    shrunk: ShrinkResult
    trial: Trial | None
    """Of the small scenario; None: there was no time for any."""
    repeated: bool
    """It failed again in the same way."""
    takes: DecisionEffects | None = None
    """Its decisions, and which of them matter; None where that was not found out."""
    notes: tuple[str, ...] = ()
    """What is to be known of how this was found out, and what it cannot tell."""


def repeats(system: System) -> bool:
    """Return whether the runs of a system repeat step by step."""
    return Capability.DETERMINISM in system.capabilities


def limit_of(system: System, asked: float | None) -> float:
    """Return for how many seconds a failure is shrunk on a system: as somebody asks, or as is usual."""
    if asked is not None:
        return asked
    return LIMIT_SECONDS if repeats(system) else real_runs.LIMIT_SECONDS


def examine(
    system: System,
    family: Family,
    scenario: Scenario,
    signature: Signature | None,
    limit_seconds: float,
    progress: Callable[[int], None] = lambda runs: None,
) -> Examined:
    """Make a scenario small that failed with a signature, and find out what it takes to fail.

    Where no signature is given any failure will do. ``limit_seconds`` is for how long it is shrunk; with 0 it
    is left as it is. ``progress`` is told the number of each run that takes seconds.
    """
    if repeats(system):
        return _examine_by_many_runs(system, family, scenario, signature, limit_seconds)
    return _examine_by_few_runs(system, family, scenario, signature, limit_seconds, progress)


def _examine_by_many_runs(
    system: System, family: Family, scenario: Scenario, signature: Signature | None, limit_seconds: float
) -> Examined:
    if signature is None:
        trial = try_scenario(family, scenario, trace=True, system=system)
        signature = trial.verdict.signature
        if signature is None:
            size = size_of(scenario)
            return Examined(ShrinkResult(scenario, 1, 0.0, size, size), trial, repeated=False)
    shrunk = shrink_scenario(family, scenario, signature, limit_seconds, system)
    trial = try_scenario(
        family,
        shrunk.scenario,
        trace=True,
        twice=_twice(signature),
        system=system,
        continued=signature[0] in CONTINUATIONS,
    )
    repeated = trial.verdict.signature == signature
    takes = what_it_takes(family, shrunk.scenario, signature, system) if repeated else None
    return Examined(shrunk, trial, repeated, takes)


def shrink_scenario(
    family: Family,
    scenario: Scenario,
    signature: Signature,
    limit_seconds: float = LIMIT_SECONDS,
    system: System = SIMULATED,
) -> ShrinkResult:
    """Return the smallest scenario that fails with the signature; the given one if it does not fail so.

    It says what the system decides of it, so that it fails on its own.
    """
    scenario = as_run(system, scenario)
    fails = _failing(family, signature, system)
    if limit_seconds and fails(scenario) != signature:
        limit_seconds = 0.0
    return shrink(
        scenario,
        fails,
        signature,
        limit_seconds,
        lambda candidate: record_preemptions(family, candidate),
    )


def what_it_takes(
    family: Family, scenario: Scenario, signature: Signature, system: System = SIMULATED
) -> DecisionEffects:
    """Return which decisions of a scenario matter to its failing with the signature."""
    return measure_decisions(scenario, signature, _failing(family, signature, system))


def _failing(family: Family, signature: Signature, system: System) -> RunForSignature:
    """Return what runs a scenario and says how it fails, as far as a failure of the signature can be seen."""

    def fails(candidate: Scenario) -> Signature | None:
        try:
            trial = try_scenario(
                family,
                candidate,
                twice=_twice(signature),
                continued=signature[0] in CONTINUATIONS,
                system=system,
            )
            return trial.verdict.signature
        except FamilyError:
            # The family cannot take so small an input: that is not the failure that was found.
            return None

    return fails


def _twice(signature: Signature) -> bool:
    """Only a second run shows that a scenario is not deterministic."""
    return signature[0] == DETERMINISM


def _examine_by_few_runs(
    system: System,
    family: Family,
    scenario: Scenario,
    signature: Signature | None,
    limit_seconds: float,
    progress: Callable[[int], None],
) -> Examined:
    def try_one(candidate: Scenario) -> Trial:
        return try_scenario(family, candidate, system=system)

    runs = RealRuns(try_one, limit_seconds * (1 - SHARE_OF_TAKES), progress=progress)
    found = real_runs.shrink(scenario, runs, system, signature)
    takes = None
    if found.signature is not None and found.scenario.faults:
        runs.limit_seconds = limit_seconds
        with suppress(LimitReached):
            takes = measure_decisions(found.scenario, found.signature, runs.fails)
    before, after = size_of(found.before), size_of(found.scenario)
    return Examined(
        ShrinkResult(found.scenario, runs.runs, runs.seconds, before, after),
        found.trial,
        found.signature is not None,
        takes,
        tuple(_notes(system, runs, found, takes)),
    )


def _notes(system: System, runs: RealRuns, found: RealShrink, takes: DecisionEffects | None) -> Iterator[str]:
    """Yield what has to be known of a failure that was looked into by few runs."""
    spent = f"{counted(runs.runs, 'run')} on {system.name}, {duration(runs.seconds)} in all"
    if found.signature is None:
        if found.trial is None:
            yield "It was interrupted before it had failed again, so it is kept as it was found."
        else:
            yield (
                f"It did not fail again in {spent}, so it is kept as it was found: a race decides, and of the"
                " run that failed nothing is left but what was wrong. The replay command tries again."
            )
        return
    yield (
        f"Shrunk and explained by {spent}: real processes under real faults, which do not repeat step by"
        " step. What is told here happened in one of them; another one may differ in its order, or pass."
    )
    if runs.was_interrupted:
        yield "An interrupt ended it before everything smaller had been tried."
    elif not found.is_finished:
        yield "A limit ended it before all was tried that is smaller: with more time it may shrink further."
    if not found.scenario.faults:
        yield "It takes no fault to fail."
    elif takes is None:
        yield "Which of its faults matter was not tried any more."
    else:
        yield "What it takes was found out by one run without each of its faults."
    yield NOT_SEEN
