"""One scenario, run and judged: what a desk, a worker, a campaign and a replay all call.

The rules this module lives by:

- There is one way from a scenario to a verdict, ``try_scenario``. Whoever judged a scenario in another way
  could disagree with the replay of the seed that it prints.
- Some scenarios, as their seeds decide, are run a second time, for the property determinism: every replay
  stands on it. A replay checks the same ones. Only a system that promises determinism is asked for it.
- Of some scenarios, by their seeds as well, the checkpoints are looked into and restored elsewhere.
- A mistake in a family's own file is the user's to mend and is told with its line; anything else that a
  scenario raises here is a mistake of ours.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final

from onceproof.harness.checkers.determinism import check_determinism
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.outcome import Outcome, outcome_of
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import NOTHING_DECLARED, Family, FamilyError, source_file
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario, ScenarioError, from_json, to_json
from onceproof.harness.model.seeds import is_checked_twice, is_continued
from onceproof.harness.model.system import Preparing, System
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.checkpoint_trials import check_continuations

SIMULATED: Final[System] = SimulatedSystem()


@dataclass(frozen=True, slots=True)
class Trial:
    """A scenario's run and what the checkers say of it."""

    history: History
    verdict: Verdict
    scenario: Scenario
    """As it was run: what a system has decided of it is in it."""


def try_scenario(
    family: Family,
    scenario: Scenario,
    trace: bool = False,
    twice: bool | None = None,
    system: System = SIMULATED,
    continued: bool | None = None,
) -> Trial:
    """Run a scenario on a system and judge it; with ``trace`` the history carries the full trace.

    ``twice`` asks for the second run, or for none, whatever the seed says, and ``continued`` for the
    properties of what becomes of the checkpoints. Of a run that failed these would say nothing new.
    """
    scenario = as_run(system, scenario)
    try:
        history = system.run(family, scenario, trace)
        verdict = judge(scenario, history, PythonOracle(family, scenario))
    except Exception as error:
        _blame(family, error, f"seed {scenario.seed}")
        raise
    wanted = is_checked_twice(scenario.seed) if twice is None else twice
    if wanted and Capability.DETERMINISM in system.capabilities:
        differences = check_determinism(history, system.run(family, scenario))
        if differences:
            verdict = Verdict((*verdict.violations, *differences))
    wanted = is_continued(scenario.seed) if continued is None else continued
    if wanted and verdict.passed and Capability.CONTINUATIONS in system.capabilities:
        verdict = Verdict(check_continuations(family, scenario))
    return Trial(history, verdict, scenario)


def run_scenario(family: Family, scenario: Scenario, system: System = SIMULATED) -> tuple[Outcome, History]:
    """Run a scenario on a system and judge it; its faults are counted where the system has them strike."""
    trial = try_scenario(family, scenario, system=system)
    return outcome_of(trial.scenario, trial.history, trial.verdict), trial.history


def as_run(system: System, scenario: Scenario) -> Scenario:
    """Return a scenario with what a system decides of it before it runs it."""
    return system.prepared(scenario) if isinstance(system, Preparing) else scenario


def scenario_of(family: Family, seed: int) -> Scenario:
    """Return the scenario of a seed; FamilyError where the family's own code raises."""
    try:
        return generate(family, seed)
    except Exception as error:
        _blame(family, error, f"seed {seed}")
        raise


def check_family(family: Family) -> None:
    """Raise FamilyError for what would spoil every scenario: looked for once, before there are thousands."""
    place = source_file(family) or family.name
    scenario = scenario_of(family, 0)
    try:
        read_back = from_json(to_json(scenario))
    except (ScenarioError, TypeError) as error:
        raise FamilyError(f"{place}: generate() gives what a scenario cannot hold: {error}") from None
    if read_back != scenario:
        raise FamilyError(
            f"{place}: generate() gives values that JSON changes; a record is (timestamp, value), a value is"
            " a string, a whole number, a finite float, a bool, None or a tuple of these"
        )
    try:
        rows = family.expected(scenario.records, NOTHING_DECLARED)
        vertices = [vertex.name for vertex in World(family, scenario).build_graph().vertices]
    except Exception as error:
        _blame(family, error, "seed 0")
        raise
    for row in rows:
        if type(row) is not tuple:
            raise FamilyError(f"{place}: expected() gives {row!r}, but a row is a tuple")
    if set(vertices) != set(family.tasks):
        said, true = ", ".join(family.tasks), ", ".join(vertices)
        raise FamilyError(f"{place}: 'tasks' names {said}, but the vertices of job() are {true}")


def _blame(family: Family, error: Exception, where: str) -> None:
    """Raise the error as the family's, if it came out of the family's file."""
    path = source_file(family)
    if path is None or isinstance(error, FamilyError):
        return
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == path), None)
    if line is not None:
        said = " ".join(str(error).split())
        raise FamilyError(f"{path}:{line}: {where}: {type(error).__name__}: {said}") from error
