"""Fault patterns of recoveries that follow each other: chains of kills, and kills of the restore itself.

The rules this module lives by:

- A bug of recovery is seldom seen after one kill. What a restored job forgets to store again, hands on
  wrongly or takes for done shows when it is restored once more, from another checkpoint or the same one.
- A chain counts completions, not ids: its kills have no checkpoint, and each waits for the next completion
  after the one before it, whatever the ids of the checkpoints are.
- What a source lists may lack a split, as while a broker is away. A restored job does not need the list.
- Where a chain rescales, it comes back to a parallelism that the job had before: only then a subtask gets key
  groups that it has held, and let go.
"""

from __future__ import annotations

from typing import Final

from onceproof.harness.generation.drawn_faults import (
    JobOutline,
    draw_checkpoint,
    draw_commit,
    draw_kill,
    draw_kill_kind,
    highest_parallelism,
    kills_of_all,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.scenario import ANY_TASK, Fault

SHORT_LISTS: Final = 0.04
"""The share of scenarios whose source lists a split less while the job is restored."""


def draw_short_list(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for some scenarios, a list of splits that lacks one while the job comes back after a kill.

    ``chance`` is of this draw alone: all other scenarios are what they are without it.
    """
    if not chance.chance(SHORT_LISTS):
        return ()
    checkpoint = draw_checkpoint(chance, stage)
    # The pass at which the list gets short counts for that alone: a kill at this point would wait longer.
    point: Point = chance.choice(("notified", "committing", "committed", "element"))
    kill = draw_kill(chance, stage, point, checkpoint if point != "element" else 0)
    delay = stage.restart_delay + stage.interval + chance.integer(0, 4 * stage.checkpoint_steps)
    return Fault("short_list", "completed", ANY_TASK, checkpoint, 1, 0, delay), kill


def kill_at_each_completion(chance: Chance, stage: JobOutline) -> list[Fault]:
    """Two to four kills, each when the attempt before it has completed a checkpoint, or two."""
    count = chance.integer(2, 4)
    rescales = stage.rescales and chance.chance(0.7)
    sizes = _there_and_back(chance, stage, count) if rescales else [0] * count
    faults = []
    for size in sizes:
        after = chance.weighted(((0, 3), (chance.integer(0, 2), 3), (chance.integer(0, stage.interval), 2)))
        nth = chance.weighted(((1, 5), (2, 1)))
        kind = draw_kill_kind(chance, stage, "completed", kills_of_all())
        faults.append(Fault(kind, "completed", ANY_TASK, 0, nth, after, 0, size))
    return faults


def _there_and_back(chance: Chance, stage: JobOutline, count: int) -> list[int]:
    """Return parallelisms that take turns, mostly between two."""
    most = highest_parallelism(stage)
    one = chance.integer(1, most)
    other = chance.integer(1, most)
    if chance.chance(0.2):
        return [chance.integer(1, most) for _ in range(count)]
    return [other if place % 2 else one for place in range(count)]


def commits_pass_to_fewer_subtasks(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A kill when a checkpoint is complete and some of it is not committed; fewer subtasks come back.

    One of them then has what several are to commit.
    """
    kind = draw_kill_kind(chance, stage, "completed", kills_of_all())
    fewer = chance.weighted(((1, 3), (2, 1)))
    checkpoint = draw_checkpoint(chance, stage)
    if chance.chance(0.5):
        return [
            Fault(kind, "completed", ANY_TASK, checkpoint, 1, chance.weighted(((0, 3), (2, 1))), 0, fewer)
        ]
    nth = draw_commit(chance, stage, checkpoint)
    return [Fault(kind, "committing", ANY_TASK, 0, nth, 0, 0, fewer)]


def kill_at_completion_and_while_restoring(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A kill when a checkpoint is complete and not committed, and one or two while it is restored.

    The job is not rescaled: the same subtasks restore the same checkpoint again.
    """
    first = Fault(
        draw_kill_kind(chance, stage, "completed", kills_of_all()),
        "completed",
        ANY_TASK,
        draw_checkpoint(chance, stage),
        1,
        chance.weighted(((0, 3), (chance.integer(0, 6), 2))),
    )
    faults = [first]
    for _ in range(chance.weighted(((1, 3), (2, 1)))):
        point: Point = chance.weighted((("restoring", 3), ("restored", 2), ("committing", 1)))
        nth = chance.integer(1, len(stage.tasks))
        if point == "restored":
            # All tasks of the first attempt pass it, too.
            nth += len(stage.tasks)
        kind = draw_kill_kind(chance, stage, point, kills_of_all())
        faults.append(Fault(kind, point, ANY_TASK, 0, nth, chance.weighted(((0, 3), (1, 1), (3, 1)))))
    return faults


def records_in_flight_pass_on(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A kill when a checkpoint with records in flight is complete; other subtasks get them, mostly more."""
    kind = draw_kill_kind(chance, stage, "completed", kills_of_all())
    most = highest_parallelism(stage)
    size = max(chance.integer(1, most), chance.integer(1, most))
    after = chance.weighted(((0, 3), (chance.integer(0, stage.checkpoint_steps), 2)))
    return [Fault(kind, "completed", ANY_TASK, draw_checkpoint(chance, stage), 1, after, 0, size)]
