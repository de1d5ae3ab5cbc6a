"""The report's section on an experiment."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from onceproof.harness.sensitivity.experiment import COSTS, Cost, DesignedTrial, Experiment, Means, means_of
from onceproof.harness.sensitivity.findings import cost_sentence, from_low_to_high
from onceproof.harness.sensitivity.parameters import PARAMETERS, Marginal, Space
from onceproof.harness.sensitivity.sampling import DesignTooSmall, Explained, explain_values
from onceproof.reports.model import Drivers, Influence, Report, Sensitivity


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
