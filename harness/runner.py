"""One scenario, run and judged: what a desk, a worker, a campaign and a replay all call.

The rules this module lives by:

- There is one way from a scenario to a verdict, ``try_scenario``. Whoever judged a scenario in another way
  could disagree with the replay of the seed that it prints.
- One scenario in CHECKED_TWICE is run a second time, for the property determinism, on which every replay
  stands. The seed decides which, so a replay checks the same ones.
- A mistake in a family's own file is the user's to mend and is told with its line; anything else that a
  scenario raises here is a mistake of ours.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from harness.checkers.determinism import check_determinism
from harness.family import Family, FamilyError
from harness.generation import generate
from harness.history import History
from harness.oracle import PythonOracle
from harness.outcome import Outcome, outcome_of
from harness.scenario import Scenario
from harness.simulation.system import SimulatedSystem
from harness.verdict import Verdict, judge

CHECKED_TWICE = 64

_SYSTEM = SimulatedSystem()


@dataclass(frozen=True, slots=True)
class Trial:
    """A scenario's run and what the checkers say of it."""

    history: History
    verdict: Verdict


def is_checked_twice(seed: int | None) -> bool:
    """Return whether the scenario of a seed is run a second time."""
    return seed is not None and seed % CHECKED_TWICE == 0


def try_scenario(family: Family, scenario: Scenario, trace: bool = False) -> Trial:
    """Run a scenario and judge it; with ``trace`` the history carries the full trace."""
    try:
        history = _SYSTEM.run(family, scenario, trace)
        verdict = judge(scenario, history, PythonOracle(family, scenario))
    except Exception as error:
        _blame(family, error, f"seed {scenario.seed}")
        raise
    if is_checked_twice(scenario.seed):
        differences = check_determinism(history, _SYSTEM.run(family, scenario))
        if differences:
            verdict = Verdict((*verdict.violations, *differences))
    return Trial(history, verdict)


def run_scenario(family: Family, scenario: Scenario) -> tuple[Outcome, History]:
    """Run a scenario and judge it."""
    trial = try_scenario(family, scenario)
    return outcome_of(scenario, trial.history, trial.verdict), trial.history


def scenario_of(family: Family, seed: int) -> Scenario:
    """Return the scenario of a seed; FamilyError where the family's own code raises."""
    try:
        return generate(family, seed)
    except Exception as error:
        _blame(family, error, f"seed {seed}")
        raise


def _blame(family: Family, error: Exception, where: str) -> None:
    """Raise the error as the family's, if it came out of the family's file."""
    path = getattr(family, "__file__", None)
    if path is None or isinstance(error, FamilyError):
        return
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == path), None)
    if line is not None:
        said = " ".join(str(error).split())
        raise FamilyError(f"{path}:{line}: {where}: {type(error).__name__}: {said}") from error
