"""The findings of an experiment in sentences that need no knowledge of statistics.

The rules this module lives by:

- For each cost one statement: the strongest parameter, the cost at a low and a high value of it, the next
  parameters, and that the rest does not matter.
- A cost that the model does not explain is reported as not explained, without numbers.
"""

from __future__ import annotations

from typing import Final

from onceproof.harness.sensitivity.experiment import Cost
from onceproof.harness.sensitivity.parameters import PARAMETERS, SPACE
from onceproof.harness.sensitivity.sampling import MOST_DEGREE, Effect, Explained
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
