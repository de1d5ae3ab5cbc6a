"""The single parts of a scenario, and the scenario without each of them.

The rules this module lives by:

- A part is a record, a fault, a requested operation, or a choice that a fair schedule would not make. They
  are what ``size_of`` counts, and the operations. A schedule that draws its steps is not divided.
- A removal changes nothing else: the other records keep their times, the other choices their steps.
- A scenario that stays large is minimal only if each removal was run. That is stated in the scenario itself
  (``Needed``), so its file carries it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers.checker import Signature
from onceproof.harness.model.scenario import Needed, Scenario, Schedule
from onceproof.harness.shrinking.reductions import Size, listed_records, size_of, with_records

LARGE: Final = Size(records=10, faults=3, schedule=20)
"""A shrunk scenario with more of anything must need each part."""


def is_large(size: Size) -> bool:
    """Return whether a shrunk scenario of this size has more of anything than LARGE."""
    return size.records > LARGE.records or size.faults > LARGE.faults or size.schedule > LARGE.schedule


def single_removals(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario without each of its parts in turn."""
    pairs = listed_records(scenario)
    for place in range(len(pairs)):
        yield with_records(scenario, [*pairs[:place], *pairs[place + 1 :]])
    faults = scenario.faults
    for place in range(len(faults)):
        yield replace(scenario, faults=(*faults[:place], *faults[place + 1 :]))
    asked = scenario.asked
    for place in range(len(asked)):
        yield replace(scenario, operations=(*asked[:place], *asked[place + 1 :]) or UNSET)
    for schedule in _without_a_choice(scenario.schedule):
        yield replace(scenario, schedule=schedule)


def _without_a_choice(schedule: Schedule) -> Iterator[Schedule]:
    for place in range(len(schedule.preemptions)):
        rest = (*schedule.preemptions[:place], *schedule.preemptions[place + 1 :])
        yield replace(schedule, preemptions=rest)
    for action in schedule.priorities:
        few = {each: priority for each, priority in schedule.priorities.items() if each != action}
        yield replace(schedule, priorities=few)
    for place in range(len(schedule.changes)):
        yield replace(schedule, changes=(*schedule.changes[:place], *schedule.changes[place + 1 :]))
    if schedule.seed:
        yield replace(schedule, seed=0)


def needed_of(scenario: Scenario, signature: Signature) -> Needed:
    """Return the statement that each part of a scenario is needed for a failure with the signature."""
    size = size_of(scenario)
    return Needed(signature, size.records, size.faults, len(scenario.asked), size.schedule)
