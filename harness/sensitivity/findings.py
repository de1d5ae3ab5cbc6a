"""What an experiment shows, in sentences for somebody who has never heard of variances.

The rules this module lives by:

- One cost, one statement: what drives it most, by how much from a low to a high value, what comes next, and
  that the rest does not matter.
- What is not explained is told as that: a number that nobody may believe is not printed.
"""

from __future__ import annotations

from typing import Final

from onceproof.harness.sensitivity.experiment import Cost
from onceproof.harness.sensitivity.parameters import PARAMETERS, SPACE
from onceproof.harness.sensitivity.sampling import MOST_DEGREE, Effect, Explained
from onceproof.reports.sections import LEAST_Q2
from onceproof.reports.text import joined, number

LEAST_SHARE: Final = 0.1
"""Of the differences; who has a part in fewer is told as making none."""
ALMOST_ALONE: Final = 0.85


def cost_sentence(cost: Cost, explained: Explained) -> str:
    """Return what drives a cost."""
    if explained.q2 is None:
        return f"It is the same in every scenario: {number(explained.mean)} {cost.unit}."
    if explained.q2 < LEAST_Q2:
        sentence = (
            "Not explained: how much it is does not follow from what was varied, or not in a simple way."
        )
        return f"{sentence} More scenarios may tell." if explained.most_degree < MOST_DEGREE else sentence
    ordered = sorted(explained.effects.items(), key=lambda item: -item[1].total)
    drivers = [(name, effect) for name, effect in ordered if effect.total >= LEAST_SHARE]
    (first, strongest), *others = drivers
    label = PARAMETERS[first].label
    much = "almost alone" if strongest.total >= ALMOST_ALONE and not others else "most"
    sentence = (
        f"{label[:1].upper()}{label[1:]} drives it {much}, with a part in {strongest.total:.0%} of all"
        f" differences: {from_low_to_high(first, strongest, cost)}."
    )
    rest = "Nothing else matters much." if len(drivers) < len(ordered) else ""
    if not others:
        return f"{sentence} {rest}".rstrip()
    named = joined([f"{PARAMETERS[name].label} ({effect.total:.0%})" for name, effect in others])
    following = f"Next {'comes' if len(others) == 1 else 'come'} {named}"
    return f"{sentence} {following}; n{rest[1:]}" if rest else f"{sentence} {following}."


def from_low_to_high(name: str, effect: Effect, cost: Cost) -> str:
    """`14 records on average with 1 element, 37 with 8 elements`: over all values of the others."""
    low, high = SPACE[name].ends
    parameter = PARAMETERS[name]
    return (
        f"{_amount(effect.low)} {cost.unit} on average at {parameter.text(low)},"
        f" {_amount(effect.high)} at {parameter.text(high)}"
    )


def _amount(mean: float) -> str:
    # A polynomial may dip below what it stands for.
    return number(round(max(0.0, mean), 1))
