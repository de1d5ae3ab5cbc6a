"""The examination of a failure: it is run again, shrunk, and run without each of its decisions.

The rules this module lives by:

- A deterministic system runs hundreds of candidates in seconds, and the result is certain. Another system
  runs a few, each for seconds, within a limit; notes say what remains uncertain.
- A scenario that does not fail again is reported as such and never shrunk, because a shrunk scenario would
  show another failure.
- The explanation is that of a run of the shrunk scenario, made and judged here.
- What fails as well where nothing goes wrong is explained by the mistake of the family, on every system: the
  undisturbed runs are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceproof.harness.checkers import CONTINUATIONS
from onceproof.harness.checkers.checker import RunForSignature, Signature
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.explanation.confirmed_cause import ConfirmedCause
from onceproof.harness.explanation.decisions import DecisionEffects, measure_decisions
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import System
from onceproof.harness.shrinking.reductions import size_of
from onceproof.harness.shrinking.shrinker import LIMIT_SECONDS, ShrinkResult, shrink
from onceproof.harness.systems.simulation.simulated_system import record_preemptions
from onceproof.harness.trials import real_shrinking as real_runs
from onceproof.harness.trials.counterfactuals import confirmed_cause
from onceproof.harness.trials.family_mistakes import FamilyMistake, mistake_behind, replaced_rows_mistake
from onceproof.harness.trials.real_shrinking import LimitReached, RealRuns, RealShrink
from onceproof.harness.trials.supervision import limited_memory
from onceproof.harness.trials.trial import SIMULATED, Trial, as_run, try_scenario
from onceproof.reports.text import counted, duration

DECISIONS_TIME_SHARE: Final = 0.2
"""The part of the time for real runs that is reserved for measuring decisions."""
VISIBLE_EVENTS_ONLY: Final = (
    "The diagram shows visible events only: attempts, checkpoints, rows that became visible, and kills, in"
    " the order in which they were recorded. It has no arrows for records and messages, which were not"
    " recorded, and its steps count events, not time."
)


@dataclass(frozen=True, slots=True)
class Examined:
    """The result of examining a failing scenario."""

    shrunk: ShrinkResult
    trial: Trial | None
    """The trial of the shrunk scenario; None if there was no time for one."""
    repeated: bool
    """Whether the scenario failed again with the same signature."""
    takes: DecisionEffects | None = None
    """The effects of its decisions; None if they were not measured."""
    mistake: FamilyMistake | None = None
    """The mistake of the family that explains the failure; None if it needs a fault or a race."""
    cause: ConfirmedCause | None = None
    """The cause in the user's job that a counterfactual run has confirmed."""
    notes: tuple[str, ...] = ()
    """Sentences for the report: how the failure was examined, and what remains uncertain."""


def unexamined(scenario: Scenario) -> Examined:
    """Return the examination of a scenario that ends its process: it is left as it is."""
    return _as_it_is(scenario, None, repeated=False)


def _as_it_is(scenario: Scenario, trial: Trial | None, *, repeated: bool) -> Examined:
    size = size_of(scenario)
    note = "It was not shrunk or explained, because no run of it ends by itself: a replay does not, either."
    return Examined(ShrinkResult(scenario, 0, 0.0, size, size), trial, repeated, notes=(note,))


def repeats(system: System) -> bool:
    """Return whether a system is deterministic: the same scenario gives the same trace."""
    return Capability.DETERMINISM in system.capabilities


def limit_of(system: System, asked: float | None) -> float:
    """Return for how many seconds to shrink a failure on a system: ``asked``, or the system's default."""
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
    """Shrink a failing scenario, and measure its decisions.

    :param signature: how the scenario failed; None accepts any failure
    :param limit_seconds: for how long to shrink; 0 leaves the scenario as it is
    :param progress: called with the number of each run, on systems whose runs take seconds
    """
    if repeats(system):
        # A scenario that exhausts its memory fails, and must not take the command with it.
        with limited_memory():
            return _examine_by_many_runs(system, family, scenario, signature, limit_seconds)
    return _examine_by_few_runs(system, family, scenario, signature, limit_seconds, progress)


def _examine_by_many_runs(
    system: System, family: Family, scenario: Scenario, signature: Signature | None, limit_seconds: float
) -> Examined:
    if signature is None:
        trial = try_scenario(family, scenario, trace=True, system=system)
        signature = trial.verdict.signature
        if trial.lost is not None:
            return _as_it_is(scenario, trial, repeated=True)
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
    mistake = mistake_behind(family, shrunk.scenario, signature) if repeated else None
    cause = confirmed_cause(family, shrunk.scenario, signature, scenario)
    return Examined(shrunk, trial, repeated, takes, mistake, cause)


def shrink_scenario(
    family: Family,
    scenario: Scenario,
    signature: Signature,
    limit_seconds: float = LIMIT_SECONDS,
    system: System = SIMULATED,
) -> ShrinkResult:
    """Return the smallest scenario found that fails with the signature; the given one if it does not fail so.

    The result holds what the system decided before the run, so it fails without that step.
    """
    scenario = as_run(system, family, scenario)
    run = _run_for_signature(family, signature, system)
    if limit_seconds and run(scenario) != signature:
        limit_seconds = 0.0
    return shrink(
        scenario,
        run,
        signature,
        limit_seconds,
        lambda candidate: record_preemptions(family, candidate),
        options_of(family).simpler_parameters,
    )


def what_it_takes(
    family: Family, scenario: Scenario, signature: Signature, system: System = SIMULATED
) -> DecisionEffects:
    """Return the effects of a failing scenario's decisions."""
    return measure_decisions(scenario, signature, _run_for_signature(family, signature, system))


def _run_for_signature(family: Family, signature: Signature, system: System) -> RunForSignature:
    """Return a function that runs a scenario with the checks which can find the signature."""

    def run(candidate: Scenario) -> Signature | None:
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
            # The family does not accept such a small input, which is another failure.
            return None

    return run


def _twice(signature: Signature) -> bool:
    """Return whether only a second run shows a failure with this signature."""
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

    runs = RealRuns(try_one, limit_seconds * (1 - DECISIONS_TIME_SHARE), progress=progress)
    found = real_runs.shrink(as_run(system, family, scenario), runs, system, signature)
    takes = None
    if found.signature is not None and found.scenario.faults:
        runs.limit_seconds = limit_seconds
        with suppress(LimitReached):
            takes = measure_decisions(found.scenario, found.signature, runs.fails)
    mistake = None
    if found.signature is not None and Capability.ENGINE in system.capabilities:
        mistake = mistake_behind(family, found.scenario, found.signature)
    elif found.trial is not None and found.signature is not None:
        mistake = replaced_rows_mistake(found.trial.verdict)
    before, after = size_of(found.before), size_of(found.scenario)
    return Examined(
        ShrinkResult(found.scenario, runs.runs, runs.seconds, before, after),
        found.trial,
        found.signature is not None,
        takes,
        mistake,
        notes=tuple(_notes(system, runs, found, takes)),
    )


def _notes(system: System, runs: RealRuns, found: RealShrink, takes: DecisionEffects | None) -> Iterator[str]:
    """Yield the notes on a failure that was examined with few runs."""
    spent = f"{counted(runs.runs, 'run')} on {system.name}, {duration(runs.seconds)} in all"
    if found.signature is None:
        if found.trial is None:
            yield "The examination was interrupted before the scenario failed again; it was not shrunk."
        else:
            yield (
                f"The scenario did not fail again in {spent}, so it was not shrunk: the failure depends on a"
                " race. Only the violations of the failed run are known. The replay command tries again."
            )
        return
    yield (
        f"Shrunk and explained with {spent}. Real processes under real faults do not repeat step by step:"
        " this page shows one of these runs; another run may differ in its order, or pass."
    )
    if runs.was_interrupted:
        yield "An interrupt ended the shrinking before all smaller scenarios were tried."
    elif not found.is_finished:
        yield "A limit ended the shrinking: with more time the scenario may shrink further."
    if not found.scenario.faults:
        yield "The scenario fails without any fault."
    elif takes is None:
        yield "There was no time to measure which of its faults matter."
    else:
        yield "Which faults matter was measured by one run without each of them."
    yield VISIBLE_EVENTS_ONLY
