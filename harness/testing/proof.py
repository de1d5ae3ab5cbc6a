"""Runs and checks the scenarios of one family in the process of a test, and shrinks the failures.

The rules this module lives by:

- The scenarios are those of `onceproof run FAMILY --seed S`, by number. Of n shards each runs every n-th
  number, so neither the number of shards nor that of pytest-xdist's workers changes the scenarios.
- All scenarios run in the process of the test, so that a debugger stops in the job.
- On a deterministic system a failure is shrunk, explained and stored as JSON. On a real system it is stored
  and reported as it was found, because a second run may pass.
- A test ends early after MAX_SIGNATURES different signatures, because shrinking takes seconds for each. Those
  of one bug are one finding, as in a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceproof.harness.checkers import CONTINUATIONS, Signature
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.checkers.known_failures import KnownSignature, find_known
from onceproof.harness.checkers.outcome import outcome_of
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.explanation.decisions import DecisionEffects
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.scenario import Scenario, read_scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.system import System
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.shrinking.reductions import size_of
from onceproof.harness.shrinking.shrinker import ShrinkResult
from onceproof.harness.trials.counterfactuals import confirmed_cause
from onceproof.harness.trials.evidence import failure_paths
from onceproof.harness.trials.examination import runs_of, shrink_to_needed
from onceproof.harness.trials.failures import (
    FailureCase,
    explanation_of,
    findings_of,
    write_scenario,
)
from onceproof.harness.trials.family_mistakes import mistake_behind
from onceproof.harness.trials.tally import Tally
from onceproof.harness.trials.trial import Trial, check_family, scenario_of, try_scenario

MAX_SIGNATURES: Final = 3
"""Number of different signatures after which a test ends."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of the scenarios of a test."""

    family: Family
    system: System
    seed: int | None
    """Seed of the run; None for a scenario from a file."""
    tally: Tally = field(default_factory=Tally)
    failures: tuple[FailureCase, ...] = ()


@dataclass(slots=True)
class _FailureGroup:
    """The first failed scenario of a signature, its trial, and the number of scenarios."""

    scenario: Scenario
    trial: Trial
    count: int = 0


def prove(
    family: Family,
    system: System,
    seed: int,
    numbers: range,
    folder: Path,
    settings: Settings = Settings(),  # noqa: B008 (nothing in it changes)
) -> Proof:
    """Run the scenarios with these numbers of a run with this seed, and write failures into ``folder``.

    Raises FamilyError for an error in the family, OutputUnwritable if the folder cannot be written to.
    """
    check_family(family)
    tally = Tally()
    ways: dict[Signature, _FailureGroup] = {}
    repeatable = Capability.DETERMINISM in system.capabilities
    for number in numbers:
        scenario = scenario_of(family, scenario_seed(seed, family.name, number))
        trial = _counted(family, scenario, system, tally)
        signature = trial.verdict.signature
        if signature is not None:
            ways.setdefault(signature, _FailureGroup(scenario, trial)).count += 1
            if not repeatable or len(ways) == MAX_SIGNATURES:
                break
    failures = [_failure(family, system, signature, way, folder, settings) for signature, way in ways.items()]
    return Proof(family, system, seed, tally, tuple(findings_of(failures)))


def replay(family: Family, system: System, path: Path, known: Sequence[KnownSignature] = ()) -> Proof:
    """Run the scenario in a file. Raises ScenarioError, or FamilyError if it belongs to another family."""
    scenario = read_scenario(path)
    if scenario.family != family.name:
        raise FamilyError(f"{path}: a scenario of family {scenario.family!r}, not of {family.name!r}")
    tally = Tally()
    trial = _counted(family, scenario, system, tally)
    signature = trial.verdict.signature
    if signature is None:
        return Proof(family, system, None, tally)
    # The user asks about the scenario in the file, so it is not shrunk.
    size = size_of(scenario)
    shrunk = ShrinkResult(scenario, 0, size, size)
    failure = _explained(family, system, signature, _FailureGroup(scenario, trial, 1), shrunk, path, known)
    return Proof(family, system, None, tally, (failure,))


def _counted(family: Family, scenario: Scenario, system: System, tally: Tally) -> Trial:
    trial = try_scenario(family, scenario, system=system)
    tally.add(outcome_of(trial.scenario, trial.history, trial.verdict))
    return trial


def _failure(
    family: Family,
    system: System,
    signature: Signature,
    way: _FailureGroup,
    folder: Path,
    settings: Settings,
) -> FailureCase:
    """Shrink a failure, write both scenarios, and explain the small one."""
    small_path, found_path = (folder / path.name for path in failure_paths(folder, family.name, signature))
    size = size_of(way.scenario)
    shrunk, takes = ShrinkResult(way.scenario, 0, size, size), None
    if _may_be_run_again(system, way):
        runs = runs_of(system, settings.shrink_runs)
        shrunk, takes = shrink_to_needed(family, way.scenario, signature, runs)
    write_scenario(way.scenario, found_path)
    write_scenario(shrunk.scenario, small_path)
    return _explained(family, system, signature, way, shrunk, small_path, settings.known, takes)


def _may_be_run_again(system: System, way: _FailureGroup) -> bool:
    """Return whether another run of a scenario shows the same, and returns."""
    return Capability.DETERMINISM in system.capabilities and way.trial.lost is None


def _may_be_simulated(system: System) -> bool:
    """Return whether the job runs on this engine, so that undisturbed runs can be simulated."""
    return Capability.ENGINE in system.capabilities


def _explained(
    family: Family,
    system: System,
    signature: Signature,
    way: _FailureGroup,
    shrunk: ShrinkResult,
    path: Path,
    known: Sequence[KnownSignature],
    takes: DecisionEffects | None = None,
) -> FailureCase:
    """Run a small scenario again with its trace, if the system is deterministic, and explain it."""
    trial = way.trial
    repeats = True
    cause = None
    if _may_be_run_again(system, way):
        again = try_scenario(
            family,
            shrunk.scenario,
            trace=True,
            twice=signature[0] == DETERMINISM,
            system=system,
            continued=signature[0] in CONTINUATIONS,
        )
        repeats = is_same_failure(again.verdict.signature, signature)
        if repeats:
            trial = again
            cause = confirmed_cause(family, shrunk.scenario, signature, way.scenario)
    return FailureCase(
        family=family,
        signature=signature,
        count=way.count,
        original=way.scenario,
        shrunk=shrunk,
        history=trial.shown,
        verdict=trial.verdict,
        explanation=explanation_of(trial, cause),
        path=path,
        repeated=repeats,
        takes=takes if repeats else None,
        mistake=mistake_behind(family, shrunk.scenario, signature)
        if repeats and way.trial.lost is None and _may_be_simulated(system)
        else None,
        cause=cause,
        known=find_known(known, family.name, signature),
    )
