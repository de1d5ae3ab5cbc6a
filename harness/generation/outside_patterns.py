"""Fault patterns of what the engine has no hand in: users' functions, inputs, consumers, workers, folders.

The rules this module lives by:

- Each is drawn by a chance of its own, which follows from the seed and the kind: all other scenarios are what
  they are without it. A few of a hundred scenarios have one.
- A function leaves at any record, in some cases soon after a restore: what is left of an attempt shows there.
- What changes of an input matters to a job that reads it again, and output that is taken away to one that
  commits it again. So a kill follows in most cases.
- Only part files have names that can vanish. Of rows in a table, a topic or any other target a consumer takes
  nothing away, so no other job has that fault.
"""

from __future__ import annotations

from typing import Final

from onceproof.harness.generation.drawn_faults import (
    PART_FILES,
    JobOutline,
    draw_kill,
    draw_kill_kind,
    draw_occurrence,
    kills_of_all,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import KAFKA
from onceproof.harness.model.fault_kinds import Means, Point
from onceproof.harness.model.scenario import ANY_TASK, Fault

CHANGED_INPUT: Final = 0.025
"""The share of the scenarios whose input changes. Few: their jobs end early, and show little else."""
LEAVING_FUNCTIONS: Final = 0.03
"""The share of the scenarios in which a function leaves."""
MOVED_OUTPUT: Final = 0.05
"""The share of the scenarios of jobs that write part files in which a consumer takes them away."""
_WAYS_TO_LEAVE: Final[tuple[tuple[Means, int], ...]] = (
    ("", 4),
    ("interrupt", 1),
    ("cancelled", 1),
    ("generator_exit", 1),
    ("stop_iteration", 1),
)


def draw_changed_input(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for a few scenarios, that the input changes that a checkpoint covers; mostly a kill follows."""
    if KAFKA in stage.ends or "change_input" in stage.unfit or not chance.chance(CHANGED_INPUT):
        return ()
    means: Means = chance.weighted((("replaced", 2), ("", 1)))
    nth, after = chance.weighted(((1, 3), (2, 2), (3, 1))), chance.weighted(((0, 2), (6, 1), (20, 1)))
    at = Fault("change_input", "completed", ANY_TASK, 0, nth, after, means=means)
    if chance.chance(0.2):
        return (at,)
    if chance.chance(0.4):
        point: Point = chance.choice(("element", "committing", "snapshotted"))
        return at, draw_kill(chance, stage, point, 0)
    # Soon: the pass at which the input changes does not count for the kill.
    points: tuple[tuple[Point, int], ...] = (("completed", 1), ("notified", len(stage.tasks)))
    point, passes = chance.choice(points)
    kind = draw_kill_kind(chance, stage, point, kills_of_all())
    return at, Fault(kind, point, ANY_TASK, 0, nth * passes, after + chance.weighted(((1, 2), (4, 1))))


def draw_leaving_function(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for a few scenarios, that a function leaves as it is given a record."""
    if not chance.chance(LEAVING_FUNCTIONS):
        return ()
    means = chance.weighted(_WAYS_TO_LEAVE)
    nth = draw_occurrence(chance, stage, "element", ANY_TASK, 0)
    return (Fault("function_leaves", "element", ANY_TASK, 0, nth, means=means),)


def draw_moved_output(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for a few jobs that write part files, that a consumer takes them away; mostly a kill follows."""
    if PART_FILES not in stage.ends or not chance.chance(MOVED_OUTPUT):
        return ()
    nth = draw_occurrence(chance, stage, "committed", ANY_TASK, 0)
    at = Fault("move_output", "committed", ANY_TASK, 0, nth, chance.weighted(((0, 4), (3, 1), (12, 1))))
    if chance.chance(0.2):
        return (at,)
    if chance.chance(0.3):
        point: Point = chance.choice(("element", "committing", "snapshotted"))
        return at, draw_kill(chance, stage, point, 0)
    # Soon: the next checkpoint no longer lists what is committed.
    kind = draw_kill_kind(chance, stage, "committed", kills_of_all())
    return at, Fault(kind, "committed", ANY_TASK, 0, nth, at.after + chance.weighted(((1, 2), (6, 1))))
