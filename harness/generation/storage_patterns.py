"""Fault patterns of the checkpoint storage: writes that fail, tear or are late, and files that stay."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import (
    JobOutline,
    delay_of,
    draw_checkpoint,
    draw_kill,
    draw_kind,
    draw_occurrence,
    draw_task,
)
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault

LATE_PUTS: Final = 0.1
"""The share of scenarios whose checkpoints are in an object store."""


def storage_fails(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A write fails, is torn or is reported late, in many cases followed by a kill before its answer."""
    point: Point = "snapshotted" if chance.chance(0.5) else "metadata_written"
    checkpoint = draw_checkpoint(chance, stage) + chance.integer(0, 1)
    kind = draw_kind(chance, stage, "write")
    task = draw_task(chance, stage, point)
    delay = delay_of(kind, chance.integer(3, 3 * stage.checkpoint_steps))
    nth = draw_occurrence(chance, stage, point, task, checkpoint)
    faults = [Fault(kind, point, task, checkpoint, nth, 0, delay)]
    if chance.chance(0.6):
        if point == "metadata_written" and not delay:
            # A failed write does not pass its point, so the kill waits for the next trigger.
            faults.append(draw_kill(chance, stage, "triggered", checkpoint + 1))
        else:
            faults.append(draw_kill(chance, stage, point, checkpoint, task, soon=1))
    return faults


def draw_late_puts(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for some scenarios, that the checkpoint storage is an object store with late puts and deletions.

    ``chance`` is of this draw alone: all other scenarios are what they are without it.
    """
    if not chance.chance(LATE_PUTS):
        return ()
    pattern = chance.weighted(
        (
            (_put_is_late, 4),
            (_put_outlives_its_process, 6),
            (_deletion_outlives_its_process, 3),
            (_deletion_outlives_the_job, 1),
            (_upload_is_discarded, 4),
        )
    )
    faults = pattern(chance, stage)
    always = Capability.LATE_PUTS
    return tuple([each for each in faults if FAULTS[each.kind].needs == always or each.kind in stage.kinds])


def _put_is_late(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A put of an object store has no answer and comes later; its writer has given it up.

    Metadata come, in most cases, before another checkpoint is complete, and then the process dies.
    """
    checkpoint = draw_checkpoint(chance, stage)
    if chance.chance(0.6):
        delay = chance.integer(1, stage.interval)
        kill = Fault("kill_process", "triggered", ANY_TASK, checkpoint + 1, 1, chance.integer(0, 8))
        return [Fault("late_put", "metadata_written", ANY_TASK, checkpoint, 1, 0, delay), kill]
    task = draw_task(chance, stage, "snapshotted")
    nth = draw_occurrence(chance, stage, "snapshotted", task, checkpoint)
    delay = chance.integer(3, 2 * stage.restart_delay + 6 * stage.checkpoint_steps)
    again: Point = chance.choice(("triggered", "metadata_written", "completed"))
    kill = draw_kill(chance, stage, again, checkpoint + chance.integer(0, 2))
    return [Fault("late_put", "snapshotted", task, checkpoint, nth, 0, delay), kill]


def _put_outlives_its_process(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A process dies in the put of metadata, which come when the next one has completed the same checkpoint.

    That one dies, too, in most cases before it has completed another.
    """
    checkpoint = draw_checkpoint(chance, stage)
    until_again = stage.restart_delay + stage.interval + stage.checkpoint_steps
    delay = until_again + chance.integer(stage.checkpoint_steps // 2, 5 * stage.checkpoint_steps // 2)
    in_the_put = chance.integer(6, 20)
    if chance.chance(0.7):
        dies = Fault("kill_process", "triggered", ANY_TASK, checkpoint + 1, 1, chance.integer(0, 8))
    else:
        dies = Fault("kill_process", "completed", ANY_TASK, checkpoint, 1, chance.integer(1, stage.interval))
    return [
        Fault("late_put", "metadata_written", ANY_TASK, checkpoint, 1, 0, delay),
        Fault("kill_process", "acknowledged", ANY_TASK, checkpoint, len(stage.tasks), in_the_put),
        dies,
    ]


def _deletion_outlives_its_process(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A deletion has no answer and is performed later, mostly under another process."""
    nth = chance.integer(1, 2 + stage.checkpoints * len(stage.tasks))
    delay = chance.integer(1, 2 * (stage.restart_delay + stage.interval) + 6 * stage.checkpoint_steps)
    late = Fault("late_delete", "completed", ANY_TASK, 0, nth, 0, delay)
    point: Point = chance.choice(("triggered", "metadata_written", "completed"))
    after = chance.integer(0, stage.checkpoint_steps)
    return [late, Fault("kill_process", point, ANY_TASK, draw_checkpoint(chance, stage) + 1, 1, after)]


def _deletion_outlives_the_job(chance: Chance, stage: JobOutline) -> list[Fault]:
    """The first deletion of all, that of the mark of an earlier end, is performed when the job has ended."""
    delay = 10 * (stage.records + stage.checkpoints * (stage.interval + stage.checkpoint_steps))
    late = Fault("late_delete", "completed", ANY_TASK, 0, 1, 0, delay)
    if chance.chance(0.5):
        return [late]
    return [late, draw_kill(chance, stage, "completed", draw_checkpoint(chance, stage))]


def _upload_is_discarded(chance: Chance, stage: JobOutline) -> list[Fault]:
    """Uploads take place and are answered with errors: tasks delete them, and store their state again.

    There is a complete checkpoint before, whose files the discarded ones refer to. A deletion may be late. A
    kill restores the checkpoint before, or what was stored again.
    """
    checkpoint = 1 + draw_checkpoint(chance, stage)
    is_deleted_late = chance.chance(0.3)
    # Mostly those that have keyed state, or sources: sinks store little.
    stores = [each for each in stage.tasks if each not in stage.sinks]
    tasks = stage.tasks if is_deleted_late or not stores else stores
    faults = [
        Fault("write_error_after_success", "snapshotted", task, checkpoint)
        for task in chance.sample(tasks, 1 if is_deleted_late else min(2, len(tasks)))
    ]
    if is_deleted_late:
        delay = chance.integer(1, stage.interval + 3 * stage.checkpoint_steps)
        faults.append(Fault("late_delete", "completed", ANY_TASK, checkpoint, chance.integer(1, 2), 0, delay))
    point: Point = chance.choice(("triggered", "completed"))
    return [*faults, draw_kill(chance, stage, point, checkpoint + 1)]


def files_cannot_be_deleted(chance: Chance, stage: JobOutline) -> list[Fault]:
    """Files that are superfluous stay, or are still listed; a process that starts later finds them."""
    if chance.chance(0.5):
        # The metadata, which are deleted first, when a later checkpoint is complete.
        checkpoint = draw_checkpoint(chance, stage)
        delay = chance.integer(stage.checkpoint_steps, 12 * stage.checkpoint_steps)
        stale = Fault("stale_list", "completed", ANY_TASK, checkpoint, 1, 0, delay)
        kill = draw_kill(chance, stage, "completed", checkpoint + chance.integer(1, 2), soon=1)
        return [stale, replace(kill, kind="kill_process") if "kill_process" in stage.kinds else kill]
    nth = chance.integer(1, 2 + stage.checkpoints * len(stage.tasks))
    faults = [Fault("fail_delete", "completed", ANY_TASK, 0, nth)]
    if chance.chance(0.6):
        faults.append(draw_kill(chance, stage, "completed", draw_checkpoint(chance, stage) + 1))
    return faults
