"""By which means the faults of a scenario come about in real processes, drawn from its seed.

The rules this module lives by:

- What is drawn stands in the scenario, fault by fault, so that its JSON replays it. Each fault has a draw of
  its own, whatever the others have come to; drawing again gives the same.
- About half of the faults that could come about in another way do. Some kills come at a time of their own,
  and not at the point: a protocol point is where somebody thought that a kill might hurt.
- A scenario without a seed was written or shrunk, and is what it says.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.faults import FAULTS, Means
from onceproof.harness.model.scenario import Fault, Scenario

SHARE: Final = 0.5
"""Of the faults that could come about in another way, how many do."""
LATE_SHARE: Final = 0.25
"""Of the plain kills, how many come at a time of their own."""
LONGEST_DELAY_MS: Final = 400
MOST_REFUSALS: Final = 4
"""How many calls a disk refuses after the first one."""


def with_means(scenario: Scenario, available: frozenset[Means]) -> Scenario:
    """Return the scenario with the means of its faults, of those that a system has."""
    if scenario.seed is None:
        return scenario
    faults = [
        _drawn(fault, Chance(Random(derived_seed("means", scenario.seed, number))), available)
        for number, fault in enumerate(scenario.faults)
    ]
    return replace(scenario, faults=tuple(faults))


def _drawn(fault: Fault, chance: Chance, available: frozenset[Means]) -> Fault:
    """Return a fault with its means; one that has some, or its time, keeps them."""
    # As many draws whatever comes of them.
    changes, place, is_late, delay = chance.unit(), chance.unit(), chance.unit(), chance.unit()
    if fault.means or fault.delay:
        return fault
    row = FAULTS[fault.kind]
    fitting = sorted(means for means in available if row.fits(fault.point, means))
    if fitting and changes < SHARE:
        means = fitting[int(place * len(fitting))]
        left = 1 + int(delay * MOST_REFUSALS) if fault.kind == "fail_write" else 0
        return replace(fault, means=means, delay=left)
    if row.is_kill and is_late < LATE_SHARE:
        return replace(fault, delay=1 + int(delay * LONGEST_DELAY_MS))
    return fault
