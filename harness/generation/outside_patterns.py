"""Fault patterns of what the engine has no hand in: users' functions, inputs, consumers, workers, folders.

The rules this module lives by:

- Each is drawn by a chance of its own, which follows from the seed and the kind: all other scenarios are what
  they are without it. A few of a hundred scenarios have one.
- A function leaves at any record, in some cases soon after a restore: what is left of an attempt shows there.
"""

from __future__ import annotations

from typing import Final

from onceproof.harness.generation.drawn_faults import draw_occurrence
from onceproof.harness.generation.job_outline import JobOutline
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.faults import Means
from onceproof.harness.model.scenario import ANY_TASK, Fault

LEAVING_FUNCTIONS: Final = 0.03
"""The share of the scenarios in which a function leaves."""
_WAYS_TO_LEAVE: Final[tuple[tuple[Means, int], ...]] = (
    ("", 4),
    ("interrupt", 1),
    ("cancelled", 1),
    ("generator_exit", 1),
    ("stop_iteration", 1),
)


def draw_leaving_function(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for a few scenarios, that a function leaves as it is given a record."""
    if not chance.chance(LEAVING_FUNCTIONS):
        return ()
    means = chance.weighted(_WAYS_TO_LEAVE)
    nth = draw_occurrence(chance, stage, "element", ANY_TASK, 0)
    return (Fault("function_leaves", "element", ANY_TASK, 0, nth, means=means),)
