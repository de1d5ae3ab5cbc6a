"""Fault patterns of what comes late: calls of sinks, and the word that a checkpoint was given up.

The rules this module lives by:

- A call that is answered with an error may have taken place, may take place later, or never. The sink that
  asked may be dead by then, and the next attempt has asked again.
- A target that refuses one batch of a write-ahead sink mostly refuses the next ones, too. What waits then
  must keep its order, which shows only when it takes batches again before the job ends or is killed.
- A producer hears of a row that is lost when it has handed over others, and before the next checkpoint.
- A task hears late, twice or never that a checkpoint was aborted, and the job master hears so of a task that
  has declined one. Both happen only where something has failed, so a pattern has that failure, too.
- What an aborted checkpoint has under way, a barrier, a write or an answer, meets the next checkpoint, or one
  of the next attempt. Then a kill restores what it may have damaged.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import (
    OWN_CALLS,
    WRITE_AHEAD,
    JobOutline,
    delay_of,
    draw_checkpoint,
    draw_commit,
    draw_kill,
    draw_kind,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import KAFKA
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.scenario import ANY_TASK, Fault

REFUSED_BATCHES: Final = 0.4
"""The share of the scenarios with a write-ahead sink whose target refuses several batches in a row."""
LOST_ROWS: Final = 0.25
"""The share of the scenarios with Kafka at an end whose producer hears that a row is lost."""


FAILED_CALLS: Final = 0.4
"""The share of the scenarios with sinks or sources of the user's own in which calls of theirs fail."""
FAILED_DATABASES: Final = 0.3
"""The share of the scenarios with databases in which the disk of one fails."""


def draw_refused_batches(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for some scenarios with a write-ahead sink, that the target refuses several tries in a row.

    ``chance`` is of this draw alone: all other scenarios are what they are without it.
    """
    if WRITE_AHEAD not in stage.ends or not chance.chance(REFUSED_BATCHES):
        return ()
    # An even checkpoint is refused by an answer and an odd one by an error, so the first one matters.
    nth = chance.weighted(((1, 3), (2, 3), (3, 1)))
    refused = Fault("fail_commit", "committing", chance.choice(stage.sinks), 0, nth)
    # Each counts the tries that no fault before it has struck, so they strike one after the other.
    return (refused,) * chance.weighted(((2, 2), (3, 3), (4, 3)))


def draw_lost_row(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for some scenarios with Kafka at an end, that a row is lost which a producer has handed over.

    ``chance`` is of this draw alone: all other scenarios are what they are without it.
    """
    if KAFKA not in stage.ends or not chance.chance(LOST_ROWS):
        return ()
    return (Fault("lose_row", "element", ANY_TASK, 0, chance.integer(1, max(1, stage.records))),)


def draw_failed_calls(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for some scenarios with ends of the user's own, that one or more of their calls in a row fail.

    ``chance`` is of this draw alone: all other scenarios are what they are without it.
    """
    if OWN_CALLS not in stage.ends or not chance.chance(FAILED_CALLS):
        return ()
    nth = chance.integer(1, 1 + 2 * stage.records)
    failed = Fault("fail_call", "element", ANY_TASK, 0, nth, means=chance.weighted((("", 2), ("answer", 1))))
    # Each counts the calls that no fault before it has struck: what is tried again fails again.
    return (failed,) * chance.weighted(((1, 4), (2, 1), (3, 1)))


def draw_failed_database(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, for some scenarios with databases, that the disk of one or two of them fails.

    ``chance`` is of this draw alone: all other scenarios are what they are without it.
    """
    if not chance.chance(FAILED_DATABASES):
        return ()
    faults = []
    for _ in range(chance.weighted(((1, 3), (2, 1)))):
        # Each task opens a database in each attempt, and writes its files for each checkpoint.
        point: Point = chance.weighted((("snapshotted", 2), ("restoring", 1)))
        uses = len(stage.tasks) * (stage.checkpoints if point == "snapshotted" else 1)
        faults.append(Fault("fail_database", point, ANY_TASK, 0, chance.integer(1, max(1, uses))))
    return tuple(faults)


def call_takes_place_late(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A commit or an abort is answered with an error and takes place later, in many cases behind a kill."""
    delay = chance.weighted(
        (
            (chance.integer(1, stage.restart_delay + stage.checkpoint_steps), 2),
            (stage.restart_delay + stage.interval + chance.integer(1, 3 * stage.checkpoint_steps), 2),
        )
    )
    if chance.chance(0.4):
        # Aborts are asked for by a restored job, and as a job ends.
        first = draw_kill(chance, stage, chance.choice(("element", "snapshotted", "completed")), 0)
        nth = chance.integer(1, 2 * len(stage.sinks))
        return [first, Fault("late_abort", "aborted", ANY_TASK, 0, nth, 0, delay)]
    checkpoint = draw_checkpoint(chance, stage)
    nth = draw_commit(chance, stage, checkpoint)
    faults = [Fault("late_commit", "committing", ANY_TASK, 0, nth, 0, delay)]
    if chance.chance(0.4):
        # The commit is one of the restore.
        faults.insert(0, draw_kill(chance, stage, "completed", checkpoint))
    elif chance.chance(0.5):
        faults.append(draw_kill(chance, stage, chance.choice(("restoring", "restored", "committing")), 0))
    return faults


def abort_is_reported_late(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A write fails, and some tasks hear late, twice or never that its checkpoint is aborted."""
    checkpoint = draw_checkpoint(chance, stage)
    faults = [_failing_write(chance, stage, checkpoint)]
    for _ in range(chance.integer(1, 3)):
        faults.append(_reported_late(chance, stage, "abort_notified", checkpoint, len(stage.tasks)))
    if chance.chance(0.5):
        faults.append(draw_kill(chance, stage, "completed", checkpoint + 1))
    return faults


def decline_is_reported_late(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A write fails, and the job master hears late, twice or never that its task declines the checkpoint."""
    checkpoint = draw_checkpoint(chance, stage)
    failed = _failing_write(chance, stage, checkpoint)
    faults = [failed, _reported_late(chance, stage, "declined", checkpoint, 1)]
    if chance.chance(0.5):
        faults.append(draw_kill(chance, stage, "completed", checkpoint + chance.integer(0, 1)))
    return faults


def aborted_checkpoint_goes_on(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A write fails, and another task's write or answer of the same checkpoint comes late.

    Either the attempt dies before, and the next one takes a checkpoint, or a later checkpoint of the same
    attempt is complete by then.
    """
    checkpoint = draw_checkpoint(chance, stage)
    first, other = chance.sample(range(1, len(stage.tasks) + 1), 2) if len(stage.tasks) > 1 else (1, 1)
    fails = Fault("fail_write", "snapshotted", ANY_TASK, checkpoint, first)
    dies_first = chance.chance(0.6)
    until = stage.checkpoint_steps + (stage.restart_delay + stage.interval if dies_first else stage.interval)
    delay = chance.integer(until // 2, 2 * until + 1)
    if chance.chance(0.5):
        late = Fault("late_write", "snapshotted", ANY_TASK, checkpoint, other, 0, delay)
    else:
        late = Fault("delay_message", "acknowledged", ANY_TASK, checkpoint, 1, 0, delay)
    if dies_first:
        dies = draw_kill(chance, stage, "triggered", checkpoint + 1)
        return [late, fails, replace(dies, kind="kill_all"), draw_kill(chance, stage, "completed", 0)]
    return [late, fails, draw_kill(chance, stage, "completed", checkpoint + chance.integer(1, 2))]


def aborted_barrier_comes_late(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A write fails, and one source is triggered late for that checkpoint and for the next one.

    It does not hear that the first one is aborted, or it would take no notice of the late trigger. So its
    barrier of that checkpoint comes when another source's barrier of the next one has come, and records lie
    between it and its next barrier.
    """
    if stage.sources < 2:
        # All barriers come one behind the other.
        return aborted_checkpoint_goes_on(chance, stage)
    checkpoint = draw_checkpoint(chance, stage)
    source = chance.integer(1, stage.sources)
    # The source goes on reading meanwhile: what comes much later comes when it has read everything.
    late = chance.integer(stage.checkpoint_steps // 3, stage.checkpoint_steps)
    between = chance.integer(stage.checkpoint_steps // 3, 3 * stage.checkpoint_steps // 2)
    return [
        Fault("delay_message", "triggered", ANY_TASK, checkpoint, source, 0, stage.interval + late),
        Fault("delay_message", "triggered", ANY_TASK, checkpoint + 1, source, 0, late + between),
        Fault("fail_write", "snapshotted", ANY_TASK, checkpoint, 1),
        Fault("lose_message", "abort_notified", ANY_TASK, checkpoint, source),
        draw_kill(chance, stage, "completed", checkpoint + 1, soon=1),
    ]


def _failing_write(chance: Chance, stage: JobOutline, checkpoint: int) -> Fault:
    return Fault("fail_write", "snapshotted", ANY_TASK, checkpoint, chance.integer(1, len(stage.tasks)))


def _reported_late(chance: Chance, stage: JobOutline, point: Point, checkpoint: int, most: int) -> Fault:
    kind = draw_kind(chance, stage, "message")
    delay = delay_of(kind, chance.integer(1, 2 * stage.interval + 4 * stage.checkpoint_steps))
    return Fault(kind, point, ANY_TASK, checkpoint, chance.integer(1, most), 0, delay)
