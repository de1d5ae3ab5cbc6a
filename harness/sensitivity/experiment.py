"""An experiment: points in the space of parameters, a few scenarios at each, and what their costs come to.

The rules this module lives by:

- The seed decides the points, the scenarios and so the indices; how many machines run it changes nothing.
- Chance (which record comes when, the order of steps) moves each cost as well. Several scenarios at a point
  are averaged, and what is left of chance is told: it bounds what any model could explain.
- A scenario that failed tells nothing of costs, and is a failure like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onceproof.harness.checkers.outcome import Outcome
from onceproof.harness.model.chance import derived_seed
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.sensitivity.designed import designed_scenario
from onceproof.harness.sensitivity.parameters import Point, settings_of

REPLICATES: Final = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """Something that a run costs."""

    name: str
    unit: str
    meaning: str


COSTS: Final = (
    Cost("records read again", "records", "between the checkpoint that was restored and the kill"),
    Cost("recovery", "steps", "from the kill until all tasks run again"),
    Cost(
        "alignment",
        "steps",
        "for how long channels were blocked by a barrier that had come on them and not yet on others, summed"
        " over the channels",
    ),
)


@dataclass(frozen=True, slots=True)
class Experiment:
    """The points of a design; scenario ``number`` is replicate ``number % replicates`` of its point."""

    seed: int
    points: tuple[Point, ...]
    replicates: int = REPLICATES

    @property
    def scenarios(self) -> int:
        """How many there are."""
        return len(self.points) * self.replicates

    def scenario(self, family: Family, number: int) -> Scenario:
        """Return scenario ``number``, from 0 on."""
        place, replicate = divmod(number, self.replicates)
        origin = {"experiment": self.seed, "point": place, "replicate": replicate}
        seed = derived_seed("experiment", self.seed, family.name, place, replicate)
        return designed_scenario(family, settings_of(self.points[place]), seed, origin)


@dataclass(frozen=True, slots=True)
class DesignedTrial:
    """One scenario of an experiment, run and judged."""

    number: int
    scenario: Scenario
    outcome: Outcome
    alignment_steps: int

    @classmethod
    def of(cls, number: int, scenario: Scenario, outcome: Outcome, history: History) -> DesignedTrial:
        """Return the trial of a measured run."""
        alignment = history.statistics.alignment_steps
        assert alignment is not None, "a designed scenario is run with the meter"
        return cls(number, scenario, outcome, alignment)

    @property
    def costs(self) -> tuple[float, ...]:
        """What it cost, in the order of COSTS."""
        outcome = self.outcome
        return float(outcome.records_replayed), float(outcome.recovery_steps), float(self.alignment_steps)


@dataclass(frozen=True, slots=True)
class Means:
    """One cost at each point, averaged over the scenarios there."""

    points: tuple[Point, ...]
    values: tuple[float, ...]
    chance: float | None
    """The part of the variance of the values that is chance; None where nothing varies."""


def means_of(experiment: Experiment, trials: Sequence[DesignedTrial], cost: int) -> Means:
    """Return the means of one cost, over the points at which a scenario passed."""
    found: dict[int, list[float]] = {}
    for trial in trials:
        if trial.outcome.passed:
            found.setdefault(trial.number // experiment.replicates, []).append(trial.costs[cost])
    places = sorted(found)
    values = [sum(found[place]) / len(found[place]) for place in places]
    # How far apart scenarios at one point are says how far their mean is from the true one.
    errors = [_variance(found[place]) / len(found[place]) for place in places if len(found[place]) > 1]
    variance = _variance(values)
    chance = min(1.0, sum(errors) / len(errors) / variance) if variance and errors else None
    return Means(tuple(experiment.points[place] for place in places), tuple(values), chance)


def _variance(values: Sequence[float]) -> float:
    """Return the variance of a population of which the values are a sample."""
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
