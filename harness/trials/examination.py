"""The examination of a failure: it is run again, shrunk, and run without each of its decisions.

The rules this module lives by:

- The limit is a number of runs. A deterministic system makes hundreds of them in seconds, and the result is
  certain. Another system makes a few, each for seconds; notes say what remains uncertain.
- A scenario that does not fail again is reported as such and never shrunk, because a shrunk scenario would
  show another failure.
- The explanation is that of a run of the shrunk scenario, made and judged here.
- What fails as well where nothing goes wrong is explained by the mistake of the family, on every system: the
  undisturbed runs are simulated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers import CONTINUATIONS
from onceproof.harness.checkers.checker import RunForSignature, Signature
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.explanation.cause import ConfirmedCause
from onceproof.harness.explanation.decisions import DecisionEffects, decisions_of, measure_decisions
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, options_of
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.system import System, prepared
from onceproof.harness.shrinking.reductions import size_of
from onceproof.harness.shrinking.shrinker import MOST_RUNS, ShrinkResult, shrink
from onceproof.harness.systems.simulation.simulated_system import record_preemptions
from onceproof.harness.trials import real_shrinking as real_runs
from onceproof.harness.trials.counterfactuals import confirmed_cause
from onceproof.harness.trials.family_mistakes import FamilyMistake, mistake_behind, replaced_rows_mistake
from onceproof.harness.trials.real_shrinking import LimitReached, RealRuns, RealShrink
from onceproof.harness.trials.supervision import limited_memory
from onceproof.harness.trials.trial import SIMULATED, Trial, as_run, try_scenario
from onceproof.reports.text import counted

DECISIONS_SHARE: Final = 0.2
"""The part of the real runs that is reserved for measuring decisions."""
ENDS_ITS_PROCESS: Final = (
    "It was not shrunk or explained, because no run of it ends by itself: a replay does not, either."
)
INTERRUPTED: Final = (
    "An interrupt ended the examination before the scenario was run again; it was not shrunk or explained."
)
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
    """The trial of the shrunk scenario; None if there was none."""
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
    was_interrupted: bool = False


def unexamined(scenario: Scenario, why: str, trial: Trial | None = None) -> Examined:
    """Return the examination of a scenario that is left as it is, with the sentence that says why."""
    size = size_of(scenario)
    return Examined(ShrinkResult(scenario, 0, size, size), trial, trial is not None, notes=(why,))


def repeats(system: System) -> bool:
    """Return whether a system is deterministic: the same scenario gives the same trace."""
    return Capability.DETERMINISM in system.capabilities


def runs_of(system: System, asked: int | None, is_wanted: bool = False) -> int:
    """Return in how many runs to shrink a failure on a system: ``asked``, or the system's default.

    On a real system each run takes seconds, so nothing is shrunk there unless the command ``is_wanted`` for
    that alone, or gives the number.
    """
    if asked is not None:
        return asked
    if repeats(system):
        return MOST_RUNS
    return real_runs.MOST_RUNS if is_wanted else 0


def examine(
    system: System,
    family: Family,
    scenario: Scenario,
    signature: Signature | None,
    most_runs: int,
    progress: Callable[[int], None] = lambda runs: None,
) -> Examined:
    """Shrink a failing scenario, and measure its decisions.

    Args:
        signature: how the scenario failed; None accepts any failure.
        most_runs: in how many runs to shrink; 0 leaves the scenario as it is.
        progress: called with the number of each run, on systems whose runs take seconds.
    """
    if repeats(system):
        # A scenario that exhausts its memory fails, and must not take the command with it.
        with limited_memory():
            return _examine_by_many_runs(system, family, scenario, signature, most_runs)
    return _examine_by_few_runs(system, family, scenario, signature, most_runs, progress)


def _examine_by_many_runs(
    system: System, family: Family, scenario: Scenario, signature: Signature | None, most_runs: int
) -> Examined:
    if signature is None:
        trial = try_scenario(family, scenario, trace=True, system=system)
        signature = trial.verdict.signature
        if trial.lost is not None:
            return unexamined(scenario, ENDS_ITS_PROCESS, trial)
        if signature is None:
            size = size_of(scenario)
            return Examined(ShrinkResult(scenario, 1, size, size), trial, repeated=False)
    shrunk, takes = shrink_to_needed(family, scenario, signature, most_runs, system)
    trial = try_scenario(
        family,
        shrunk.scenario,
        trace=True,
        twice=_twice(signature),
        system=system,
        continued=signature[0] in CONTINUATIONS,
    )
    repeated = is_same_failure(trial.verdict.signature, signature)
    if not repeated:
        takes = None
    elif takes is None:
        takes = what_it_takes(family, shrunk.scenario, signature, system)
    mistake = mistake_behind(family, shrunk.scenario, signature) if repeated else None
    cause = confirmed_cause(family, shrunk.scenario, signature, scenario)
    notes = tuple(_notes_on_symptoms(trial.verdict.signature, signature)) if repeated else ()
    return Examined(shrunk, trial, repeated, takes, mistake, cause, notes)


def _notes_on_symptoms(shown: Signature | None, signature: Signature) -> Iterator[str]:
    """Yield a note where the small scenario shows the failure with another signature."""
    if shown is not None and shown != signature:
        yield (
            f"Found as {', '.join(signature)}; the smallest scenario that fails so shows it as"
            f" {', '.join(shown)}."
        )


def shrink_scenario(
    family: Family,
    scenario: Scenario,
    signature: Signature,
    most_runs: int = MOST_RUNS,
    system: System = SIMULATED,
) -> ShrinkResult:
    """Return the smallest scenario found that fails as the signature says; the given one if it does not.

    The result holds what the system decided before the run, so it fails without that step.
    """
    scenario = as_run(system, family, scenario)
    run = _run_for_signature(family, signature, system)
    if most_runs and run(scenario) != signature:
        most_runs = 0
    shrunk = shrink(
        scenario,
        run,
        signature,
        most_runs,
        lambda candidate: record_preemptions(family, candidate),
        options_of(family).simpler_parameters,
    )
    return dataclasses.replace(shrunk, scenario=prepared(system, shrunk.scenario))


def what_it_takes(
    family: Family, scenario: Scenario, signature: Signature, system: System = SIMULATED
) -> DecisionEffects:
    """Return the effects of a failing scenario's decisions."""
    run = _run_for_signature(family, signature, system)
    return measure_decisions(scenario, signature, run, partial(as_run, system, family))


def shrink_to_needed(
    family: Family, scenario: Scenario, signature: Signature, most_runs: int, system: System = SIMULATED
) -> tuple[ShrinkResult, DecisionEffects | None]:
    """Shrink a scenario, and leave out each decision that its failure does not need, one at a time.

    The shrinker keeps such decisions where its limit of runs ends it.

    Returns:
        The small scenario, and the effects of its decisions; None: nothing was to be shrunk.
    """
    shrunk = shrink_scenario(family, scenario, signature, most_runs, system)
    if not most_runs:
        return shrunk, None
    scenario = shrunk.scenario
    takes = what_it_takes(family, scenario, signature, system)
    while idle := [each for each in takes.decisions if each.effect == "idle"]:
        scenario = as_run(system, family, replace(idle[0].decision.without, seed=None, needed=UNSET))
        takes = what_it_takes(family, scenario, signature, system)
    if scenario is not shrunk.scenario:
        shrunk = dataclasses.replace(shrunk, scenario=scenario, after=size_of(scenario))
    return shrunk, takes


def _run_for_signature(family: Family, signature: Signature, system: System) -> RunForSignature:
    """Return a function that runs a scenario with the checks which can find the signature.

    It returns that signature for all symptoms of the same failure.
    """

    def run(candidate: Scenario) -> Signature | None:
        try:
            trial = try_scenario(
                family,
                candidate,
                twice=_twice(signature),
                continued=signature[0] in CONTINUATIONS,
                system=system,
            )
            found = trial.verdict.signature
            return signature if is_same_failure(found, signature) else found
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
    most_runs: int,
    progress: Callable[[int], None],
) -> Examined:
    def try_one(candidate: Scenario) -> Trial:
        return try_scenario(family, candidate, system=system)

    runs = RealRuns(try_one, int(most_runs * (1 - DECISIONS_SHARE)), progress)
    found = real_runs.shrink(as_run(system, family, scenario), runs, system, signature)
    takes = None
    if found.signature is not None and most_runs and any(decisions_of(found.scenario)):
        runs.most_runs = most_runs
        with suppress(LimitReached):
            takes = measure_decisions(found.scenario, found.signature, runs.fails, partial(prepared, system))
    mistake = None
    if found.signature is not None and Capability.ENGINE in system.capabilities:
        mistake = mistake_behind(family, found.scenario, found.signature)
    elif found.trial is not None and found.signature is not None:
        mistake = replaced_rows_mistake(found.trial.verdict)
    before, after = size_of(found.before), size_of(found.scenario)
    return Examined(
        ShrinkResult(found.scenario, runs.runs, before, after),
        found.trial,
        found.signature is not None,
        takes,
        mistake,
        notes=tuple(_notes(system, runs, found, takes)),
        was_interrupted=runs.was_interrupted,
    )


def _notes(system: System, runs: RealRuns, found: RealShrink, takes: DecisionEffects | None) -> Iterator[str]:
    """Yield the notes on a failure that was examined with few runs."""
    spent = f"{counted(runs.runs, 'run')} on {system.name}"
    if found.signature is None:
        if runs.was_interrupted:
            yield INTERRUPTED
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
        yield "The limit of runs ended the shrinking: `--shrink-runs` allows more of them."
    if not any(decisions_of(found.scenario)):
        yield "The scenario fails without any fault or other decision."
    elif takes is None:
        yield "There were no runs left to measure which of its decisions matter."
    else:
        yield "Which decisions matter was measured by one run without each of them."
    yield VISIBLE_EVENTS_ONLY
