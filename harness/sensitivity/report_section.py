"""The report's section on an experiment.

Rules:

- For each cost one statement: the strongest parameter, the cost at a low and a high value of it, the next
  parameters, and that the rest does not matter.
- A cost that the model does not explain is reported as not explained, without numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from onceproof.harness.sensitivity.experiment import COSTS, Cost, DesignedTrial, Experiment, Means, means_of
from onceproof.harness.sensitivity.parameters import PARAMETERS, SPACE, Marginal, Space
from onceproof.harness.sensitivity.sampling import (
    MOST_DEGREE,
    DesignTooSmall,
    Effect,
    Explained,
    explain_values,
)
from onceproof.reports.model import Drivers, Influence, Report, Sensitivity
from onceproof.reports.sections import LEAST_Q2
from onceproof.reports.text import joined, number

LEAST_SHARE: Final = 0.1
"""A parameter with a smaller total index counts as without influence."""
ALMOST_ALONE: Final = 0.85
"""From this total index on, a single parameter drives a cost "almost alone"."""


def cost_sentence(cost: Cost, explained: Explained) -> str:
    """Return what drives a cost, in one to three sentences."""
    if explained.q2 is None:
        return f"This cost is the same in every scenario: {number(explained.mean)} {cost.unit}."
    if explained.q2 < LEAST_Q2:
        sentence = (
            "Not explained: this cost does not depend on the varied parameters, or not in a simple way."
        )
        return (
            f"{sentence} More scenarios may explain it." if explained.most_degree < MOST_DEGREE else sentence
        )
    ordered = sorted(explained.effects.items(), key=lambda item: -item[1].total)
    drivers = [(name, effect) for name, effect in ordered if effect.total >= LEAST_SHARE]
    (first, strongest), *others = drivers
    label = PARAMETERS[first].label
    much = "almost alone" if strongest.total >= ALMOST_ALONE and not others else "most"
    sentence = (
        f"{label[:1].upper()}{label[1:]} drives this cost {much}, with a part in {strongest.total:.0%} of all"
        f" differences: {from_low_to_high(first, strongest, cost)}."
    )
    rest = "Nothing else matters much." if len(drivers) < len(ordered) else ""
    if not others:
        return f"{sentence} {rest}".rstrip()
    named = joined([f"{PARAMETERS[name].label} ({effect.total:.0%})" for name, effect in others])
    following = f"Next {'comes' if len(others) == 1 else 'come'} {named}"
    return f"{sentence} {following}; n{rest[1:]}" if rest else f"{sentence} {following}."


def from_low_to_high(name: str, effect: Effect, cost: Cost) -> str:
    """Return the mean cost at a low and a high value of a parameter, over all values of the others.

    Example: `14 records on average at 1 element, 37 at 8 elements`.
    """
    low, high = SPACE[name].ends
    parameter = PARAMETERS[name]
    return (
        f"{_amount(effect.low)} {cost.unit} on average at {parameter.text(low)},"
        f" {_amount(effect.high)} at {parameter.text(high)}"
    )


def _amount(mean: float) -> str:
    # A polynomial that is fitted to non-negative values may be negative.
    return number(round(max(0.0, mean), 1))


def sensitivity_of(
    family: str, experiment: Experiment, trials: Sequence[DesignedTrial], command: str = ""
) -> Sensitivity:
    """Return the report's section on an experiment, from its trials.

    Args:
        command: the command line that repeats the experiment.
    """
    return Sensitivity(
        family=family,
        seed=experiment.seed,
        scenarios=len(trials),
        points=len(experiment.points),
        failed=sum(not trial.outcome.passed for trial in trials),
        parameters=tuple(
            (parameter.label, parameter.meaning, _range(name, parameter.marginal))
            for name, parameter in PARAMETERS.items()
            if name in experiment.space
        ),
        drivers=tuple(
            _drivers(cost, experiment.space, means_of(experiment, trials, index))
            for index, cost in enumerate(COSTS)
        ),
        command=command,
    )


def with_sensitivity(report: Report, study: Sensitivity) -> tuple[Sensitivity, ...]:
    """Return the experiments of a report with one added; it replaces an earlier one of the same family."""
    others = [other for other in report.sensitivity if other.family != study.family]
    return tuple(sorted((*others, study), key=lambda each: each.family))


def _drivers(cost: Cost, space: Space, means: Means) -> Drivers:
    try:
        explained = explain_values(space, means.points, means.values)
    except DesignTooSmall:
        sentence = f"Not measured: only at {len(means.points)} points did a scenario pass."
        return Drivers(cost=cost.name, sentence=sentence)
    drivers = Drivers(
        cost=cost.name,
        sentence=cost_sentence(cost, explained),
        q2=None if explained.q2 is None else round(explained.q2, 4),
        chance=None if means.chance is None else round(means.chance, 4),
        mean=round(explained.mean, 2),
        unit=cost.unit,
        meaning=cost.meaning,
        degree=explained.degree,
    )
    # Indices of a model that does not explain the cost would mislead, so they are not kept.
    return replace(drivers, influences=_influences(cost, explained)) if drivers.is_explained else drivers


def _influences(cost: Cost, explained: Explained) -> tuple[Influence, ...]:
    return tuple(
        Influence(
            PARAMETERS[name].label.removeprefix("the "),
            round(effect.first_order, 4),
            round(effect.total, 4),
            from_low_to_high(name, effect, cost),
        )
        for name, effect in explained.effects.items()
    )


def _range(name: str, marginal: Marginal) -> str:
    parameter = PARAMETERS[name]
    return f"{parameter.text(marginal.low)} to {parameter.text(marginal.high)}"
