"""An experiment: points in the space of parameters, a few scenarios at each point, and their mean costs.

The rules this module lives by:

- The seed decides the points, the scenarios and so the indices, independent of the number of machines.
- Each cost also varies by chance (the order of records and of steps). So the scenarios of a point are
  averaged, and the remaining part of chance is reported: it limits what a model can explain.
- The costs of a failed scenario are ignored; it is reported as a failure.
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
from onceproof.harness.sensitivity.parameters import SPACE, Point, Space, settings_of

REPLICATES: Final = 4


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost of a run that experiments measure."""

    name: str
    unit: str
    meaning: str


COSTS: Final = (
    Cost("records read again", "records", "between the checkpoint that was restored and the kill"),
    Cost("recovery", "steps", "from the kill until all tasks run again"),
    Cost(
        "alignment",
        "steps",
        "for how long channels were blocked because their barrier had arrived before that of other channels,"
        " summed over the channels",
    ),
)


@dataclass(frozen=True, slots=True)
class Experiment:
    """The points of a design; scenario ``number`` is replicate ``number % replicates`` of its point."""

    seed: int
    points: tuple[Point, ...]
    replicates: int = REPLICATES

    @property
    def space(self) -> Space:
        """Return the parameters that its points vary."""
        return {name: SPACE[name] for name in self.points[0]}

    @property
    def scenarios(self) -> int:
        """Return the number of scenarios."""
        return len(self.points) * self.replicates

    def scenario(self, family: Family, number: int) -> Scenario:
        """Return scenario ``number``, counted from 0."""
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
        assert alignment is not None, "a designed scenario runs on the system with the cost meter"
        return cls(number, scenario, outcome, alignment)

    @property
    def costs(self) -> tuple[float, ...]:
        """Return the costs in the order of COSTS."""
        outcome = self.outcome
        return float(outcome.records_replayed), float(outcome.recovery_steps), float(self.alignment_steps)


@dataclass(frozen=True, slots=True)
class Means:
    """One cost at each point, averaged over the scenarios there."""

    points: tuple[Point, ...]
    values: tuple[float, ...]
    chance: float | None
    """The part of the variance of the values that is due to chance; None if the values do not vary."""


def means_of(experiment: Experiment, trials: Sequence[DesignedTrial], cost: int) -> Means:
    """Return the means of one cost, over the points at which a scenario passed."""
    found: dict[int, list[float]] = {}
    for trial in trials:
        if trial.outcome.passed:
            found.setdefault(trial.number // experiment.replicates, []).append(trial.costs[cost])
    places = sorted(found)
    values = [sum(found[place]) / len(found[place]) for place in places]
    # The variance within a point, divided by its size, is the squared standard error of its mean.
    errors = [_variance(found[place]) / len(found[place]) for place in places if len(found[place]) > 1]
    variance = _variance(values)
    chance = min(1.0, sum(errors) / len(errors) / variance) if variance and errors else None
    return Means(tuple(experiment.points[place] for place in places), tuple(values), chance)


def _variance(values: Sequence[float]) -> float:
    """Return the unbiased sample variance; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
