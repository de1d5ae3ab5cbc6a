"""Scenarios of one family, run and judged where the test runs, and what is made of those that fail.

The rules this module lives by:

- The scenarios are those of `onceproof run FAMILY --seed S`, by their numbers. A test that is split into
  shards gives each shard every so manieth number: nothing is run twice, and neither the number of shards nor
  that of pytest-xdist's workers changes what is run.
- All run here, in the test's own process: a debugger stops in the job, and pytest-xdist shares the tests out.
- A failure is shrunk, explained and kept as JSON where it can be repeated step by step. On another system it
  is kept and told as it was found, with the run that found it: a second run may pass.
- A test ends early when it has failed in a few different ways: each takes seconds to shrink, and a person
  reads the first.
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
from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.explanation.explanation import Explanation, explain
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario, read_scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.system import System
from onceproof.harness.settings.project_settings import Settings
from onceproof.harness.shrinking.reductions import Size, size_of
from onceproof.harness.trials.examination import limit_of, shrink_scenario
from onceproof.harness.trials.failures import failure_paths, write_scenario
from onceproof.harness.trials.tally import Tally
from onceproof.harness.trials.trial import Trial, check_family, scenario_of, try_scenario

MOST_WAYS: Final = 3
"""Different failures after which a test goes no further."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One way in which the scenarios of a test failed."""

    signature: Signature
    count: int
    """In how many scenarios."""
    found: Scenario
    scenario: Scenario
    """The small one; the one that was found, where it was not shrunk."""
    before: Size
    after: Size
    history: History
    """Of the small scenario."""
    verdict: Verdict
    """Of the small scenario."""
    explanation: Explanation
    path: Path
    """Where the small scenario is kept."""
    repeats: bool = True
    """Whether it failed again when it was repeated."""
    known: KnownSignature | None = None
    """The entry of the settings that lists it; None: it is new."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What the scenarios of a test came to."""

    family: Family
    system: System
    seed: int | None
    """Of the run; None: it was a scenario from a file."""
    tally: Tally = field(default_factory=Tally)
    failures: tuple[Failure, ...] = ()


@dataclass(slots=True)
class _Way:
    """The first scenario that failed in some way, its trial, and how many did."""

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
    """Run the scenarios of a run's seed that have these numbers; failures are kept in the folder.

    Raises FamilyError for a mistake in the family, OutputUnwritable for the folder.
    """
    check_family(family)
    tally = Tally()
    ways: dict[Signature, _Way] = {}
    repeatable = Capability.DETERMINISM in system.capabilities
    for number in numbers:
        scenario = scenario_of(family, scenario_seed(seed, family.name, number))
        trial = _counted(family, scenario, system, tally)
        signature = trial.verdict.signature
        if signature is not None:
            ways.setdefault(signature, _Way(scenario, trial)).count += 1
            if not repeatable or len(ways) == MOST_WAYS:
                break
    failures = [_failure(family, system, signature, way, folder, settings) for signature, way in ways.items()]
    return Proof(family, system, seed, tally, tuple(failures))


def replay(family: Family, system: System, path: Path, known: Sequence[KnownSignature] = ()) -> Proof:
    """Run the scenario in a file. Raises ScenarioError for the file, FamilyError for another family's."""
    scenario = read_scenario(path)
    if scenario.family != family.name:
        raise FamilyError(f"{path}: a scenario of family {scenario.family!r}, not of {family.name!r}")
    tally = Tally()
    trial = _counted(family, scenario, system, tally)
    signature = trial.verdict.signature
    if signature is None:
        return Proof(family, system, None, tally)
    # The scenario in the file is what is asked about: it is not made smaller.
    failure = _told(family, system, signature, _Way(scenario, trial, 1), scenario, path, known)
    return Proof(family, system, None, tally, (failure,))


def _counted(family: Family, scenario: Scenario, system: System, tally: Tally) -> Trial:
    trial = try_scenario(family, scenario, system=system)
    tally.add(outcome_of(trial.scenario, trial.history, trial.verdict))
    return trial


def _failure(
    family: Family,
    system: System,
    signature: Signature,
    way: _Way,
    folder: Path,
    settings: Settings,
) -> Failure:
    """Shrink a failure and keep it."""
    small_path, found_path = (folder / path.name for path in failure_paths(folder, family.name, signature))
    small = way.scenario
    if Capability.DETERMINISM in system.capabilities:
        limit_seconds = limit_of(system, settings.shrink_time)
        small = shrink_scenario(family, way.scenario, signature, limit_seconds).scenario
    write_scenario(way.scenario, found_path)
    write_scenario(small, small_path)
    return _told(family, system, signature, way, small, small_path, settings.known)


def _told(
    family: Family,
    system: System,
    signature: Signature,
    way: _Way,
    small: Scenario,
    path: Path,
    known: Sequence[KnownSignature],
) -> Failure:
    """Repeat a small scenario with its trace, where it can be repeated, and explain it."""
    trial = way.trial
    repeats = True
    if Capability.DETERMINISM in system.capabilities:
        again = try_scenario(
            family,
            small,
            trace=True,
            twice=signature[0] == DETERMINISM,
            system=system,
            continued=signature[0] in CONTINUATIONS,
        )
        repeats = again.verdict.signature == signature
        if repeats:
            trial = again
    return Failure(
        signature=signature,
        count=way.count,
        found=way.scenario,
        scenario=small,
        before=size_of(way.scenario),
        after=size_of(small),
        history=trial.history,
        verdict=trial.verdict,
        explanation=explain(small, trial.history, trial.history.trace, trial.verdict),
        path=path,
        repeats=repeats,
        known=find_known(known, family.name, signature),
    )
