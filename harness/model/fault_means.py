"""Draws by which means the faults of a scenario come about in real processes.

The rules this module lives by:

- The draws follow from the seed of the scenario, for each fault apart: drawing again gives the same.
- What is drawn stands in the scenario, fault by fault, so that its JSON replays it.
- About half of the faults that have another means than the plain way get one. Some kills come at a time of
  their own: bugs hide between the protocol points as well.
- A scenario without a seed was written or shrunk, and stays as it is.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, derived_seed
from onceproof.harness.model.fault_kinds import Means
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import Fault, Scenario

SHARE: Final = 0.5
"""The share of the faults with other means that get one of them."""
LATE_SHARE: Final = 0.25
"""The share of the plain kills that come at a time of their own."""
LONGEST_DELAY_MS: Final = 400
MOST_REFUSALS: Final = 4
"""How many further calls a disk may refuse, after the first one."""


def with_means(scenario: Scenario, available: frozenset[Means]) -> Scenario:
    """Return the scenario with means drawn for its faults, from those that a system has."""
    if scenario.seed is None:
        return scenario
    faults = [
        _drawn(fault, Chance(Random(derived_seed("means", scenario.seed, number))), available)
        for number, fault in enumerate(scenario.faults)
    ]
    return replace(scenario, faults=tuple(faults))


def _drawn(fault: Fault, chance: Chance, available: frozenset[Means]) -> Fault:
    """Return a fault with its means; a fault that has a means or a delay keeps it."""
    # The number of draws is always the same, so that no draw depends on another.
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
