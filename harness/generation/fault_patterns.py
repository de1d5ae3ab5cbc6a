"""Fault patterns: sequences of faults that break real engines, from which the faults of a scenario are drawn.

The rules this module lives by:

- Uniformly random faults mostly have no effect: a protocol breaks in the few steps around a checkpoint, and
  often only if two faults come in the right order. So most faults are drawn as patterns: an acknowledgement
  delayed until a restarted process takes the same checkpoint again, a lost notification followed by a kill, a
  kill during a recovery. A part stays uniformly random, for sequences that no pattern covers.
- Swarm testing: a scenario first draws which fault kinds it may use, because some states are reached only
  without certain faults.
- Each kind and each pattern draws from a seed of its own, derived from the scenario's and its name: whether
  the scenario may use the kind, which tickets it has where one of several is drawn, and what the pattern
  does. A pattern is taken whole, or left out if there is no room for it or one of its kinds is not allowed;
  then the next one is tried. So a further kind changes only the scenarios in which it occurs.
- Only faults of the fault table are drawn, and the uniform part reaches every point of every row with a
  weight; the property coverage relies on both.
- Kills aim at early checkpoints, because only later input shows an error of the recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import (
    JobOutline,
    delay_of,
    draw_checkpoint,
    draw_commit,
    draw_kill,
    draw_kill_kind,
    draw_kind,
    draw_occurrence,
    draw_task,
)
from onceproof.harness.generation.late_patterns import (
    abort_is_reported_late,
    aborted_barrier_comes_late,
    aborted_checkpoint_goes_on,
    call_takes_place_late,
    decline_is_reported_late,
)
from onceproof.harness.generation.recovery_patterns import (
    commits_pass_to_fewer_subtasks,
    kill_at_completion_and_while_restoring,
    kill_at_each_completion,
    records_in_flight_pass_on,
)
from onceproof.harness.generation.storage_patterns import (
    files_cannot_be_deleted,
    storage_fails,
)
from onceproof.harness.model.chance import Chance, Lots
from onceproof.harness.model.fault_kinds import FaultKind, Point
from onceproof.harness.model.faults import FAULTS, drawn_rows
from onceproof.harness.model.scenario import ANY_TASK, Fault

MOST_FAULTS: Final = 6
RESTARTS: Final = 0.04
"""The share of scenarios whose jobs restart until attempts, checkpoints or processes have longer ids."""
PASSED_ON: Final = 0.12
"""The share of scenarios in which records in flight pass to other subtasks, of those in which they may."""
PROCESSES: Final = -1
"""Drawn in place of a number of complete checkpoints: it is the processes that die."""
LONGEST_JUMP_MS: Final = 120_000
"""Longer than anything a job waits for. Timers that follow each other fire all the way, which takes long."""

_RECOVERY_POINTS: Final[tuple[Point, ...]] = ("restoring", "restored", "aborted", "committing")

# Weights of kills: the most between the completion of a checkpoint and the last commit.
_CHECKPOINT_POINTS: Final[tuple[tuple[Point, int], ...]] = (
    ("completed", 6),
    ("committing", 6),
    ("notified", 4),
    ("acknowledged", 4),
    ("committed", 4),
    ("metadata_written", 3),
    ("uploaded", 3),
    ("snapshotted", 3),
    ("pre_committed", 2),
    ("aligned", 2),
    ("barrier_received", 2),
    ("triggered", 1),
)


Pattern: TypeAlias = Callable[[Chance, JobOutline], list[Fault]]
FaultDraw: TypeAlias = Callable[[Chance, JobOutline, int], tuple[Fault, ...]]


def draw_kinds(chance: Chance) -> frozenset[FaultKind]:
    """Draw which fault kinds a scenario may use."""
    lots = Lots(chance)
    return frozenset([kind for kind, row in FAULTS.items() if lots.chance(kind, row.share)])


def draw_faults(chance: Chance, stage: JobOutline, room: int = MOST_FAULTS) -> tuple[Fault, ...]:
    """Draw patterns and return their faults, at most ``room``."""
    count, lots = chance.weighted(_PATTERN_COUNTS), Lots(chance)
    faults: list[Fault] = []
    if stage.mode.barriers == "unaligned" and stage.rescales and chance.chance(PASSED_ON):
        faults += records_in_flight_pass_on(chance, stage)[:room]
    for pattern in lots.ranked(PATTERNS):
        if not count or len(faults) >= room:
            break
        drawn = pattern(lots.stream(pattern), stage)
        is_allowed = pattern in _ALWAYS_ALLOWED or all(fault.kind in stage.kinds for fault in drawn)
        if drawn and is_allowed and len(faults) + len(drawn) <= room:
            faults += drawn
            count -= 1
    return tuple(faults)


def draw_unaimed_faults(chance: Chance, stage: JobOutline, room: int = MOST_FAULTS) -> tuple[Fault, ...]:
    """Return faults of the allowed kinds without any pattern, about as many as patterns have."""
    count, lots = chance.weighted(_PATTERN_COUNTS), Lots(chance)
    streams = [lots.stream(str(number)) for number in range(min(2 * count, room))]
    return tuple([fault for stream in streams for fault in _anything(stream, stage)])


def draw_restarts(chance: Chance, stage: JobOutline) -> tuple[Fault, ...]:
    """Draw, rarely, a job that restarts until ids get one more digit.

    Each trigger kills the attempt, and the next one takes a checkpoint with a higher id. Either the attempts
    get as far, or a process is killed when checkpoints on both sides of the change are complete. Or each
    trigger kills the process: then the incarnations get as far, and all take a checkpoint of the same id.
    """
    digits, is_drawn = chance.weighted(((10, 24), (100, 1))), chance.chance(RESTARTS)
    complete = chance.choice((0, 2, 2, 3, PROCESSES))
    kind: FaultKind = "kill_process" if complete == PROCESSES else "kill_all"
    if not is_drawn or kind not in stage.kinds:
        return ()
    kill = Fault(kind, "triggered")
    if complete == PROCESSES:
        return (kill,) * min(digits, 10)
    if not complete:
        return (kill,) * digits
    return (*[kill] * (digits - complete), Fault("kill_process", "completed", ANY_TASK, digits))


def _kill_around_a_checkpoint(chance: Chance, stage: JobOutline) -> list[Fault]:
    point = chance.weighted(_CHECKPOINT_POINTS)
    return [draw_kill(chance, stage, point, draw_checkpoint(chance, stage), draw_task(chance, stage, point))]


def _kill_twice(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A second kill during the recovery from the first, or at the repeated checkpoint."""
    first = _kill_around_a_checkpoint(chance, stage)
    point = chance.choice(_RECOVERY_POINTS) if chance.chance(0.6) else chance.weighted(_CHECKPOINT_POINTS)
    checkpoint = 0 if point in _RECOVERY_POINTS else first[0].checkpoint + chance.integer(0, 1)
    return [*first, draw_kill(chance, stage, point, checkpoint)]


def _message_outlives_its_attempt(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A message of a checkpoint arrives when a new process takes a checkpoint with the same id.

    Only a new process reuses an id, and only if the checkpoint had not completed; so the kill comes a few
    steps after the message was sent. A second kill restores the checkpoint that the message may have
    corrupted.
    """
    point: Point = chance.weighted((("acknowledged", 6), ("notified", 2), ("triggered", 2)))
    checkpoint = draw_checkpoint(chance, stage)
    kind: FaultKind = "duplicate_message" if chance.chance(0.2) else "delay_message"
    nth = draw_occurrence(chance, stage, point, ANY_TASK, checkpoint)
    until_again = stage.restart_delay + 2 * len(stage.tasks) + stage.interval
    delay = until_again + chance.integer(0, 3 * stage.checkpoint_steps)
    kill: FaultKind = "kill_process" if chance.chance(0.8) else "kill_all"
    faults = [
        Fault(kind, point, ANY_TASK, checkpoint, nth, 0, delay),
        Fault(kill, point, ANY_TASK, checkpoint, nth, chance.integer(1, 4)),
    ]
    if chance.chance(0.7):
        faults.append(draw_kill(chance, stage, "completed", checkpoint + chance.integer(0, 1)))
    return faults


def _notification_lost_or_delayed(chance: Chance, stage: JobOutline) -> list[Fault]:
    """Sinks that miss a notification must commit at a later one, or at the restore after a kill."""
    checkpoint = draw_checkpoint(chance, stage)
    faults = []
    for _ in range(chance.integer(1, 3)):
        kind = draw_kind(chance, stage, "message")
        task = chance.choice(stage.sinks) if chance.chance(0.7) else ANY_TASK
        delay = chance.integer(5, 150)
        nth = draw_occurrence(chance, stage, "notified", task, checkpoint)
        faults.append(Fault(kind, "notified", task, checkpoint, nth, 0, delay_of(kind, delay)))
    point: Point = chance.choice(("completed", "pre_committed", "acknowledged", "element"))
    later = 0 if point == "element" else checkpoint + chance.integer(0, 1)
    return [*faults, draw_kill(chance, stage, point, later)]


def _trigger_lost_or_delayed(chance: Chance, stage: JobOutline) -> list[Fault]:
    """Only some sources start a checkpoint, so the next one arrives during its alignment."""
    checkpoint = draw_checkpoint(chance, stage)
    nth = chance.integer(1, 3)
    if chance.chance(0.6):
        faults = [Fault("lose_message", "triggered", ANY_TASK, checkpoint, nth)]
    else:
        delay = chance.integer(1, 8 * stage.checkpoint_steps)
        faults = [Fault("delay_message", "triggered", ANY_TASK, checkpoint, nth, 0, delay)]
    if chance.chance(0.6):
        faults.append(draw_kill(chance, stage, "completed", checkpoint + chance.integer(1, 2)))
    return faults


def _power_is_cut(chance: Chance, stage: JobOutline) -> list[Fault]:
    """The power is cut where a kill would hit, in some cases after a deletion that the cut undoes."""
    pattern: Pattern = chance.weighted(
        (
            (_kill_around_a_checkpoint, 4),
            (_kill_twice, 3),
            (_kill_while_metadata_is_written, 1),
            (_kill_between_checkpoints, 1),
            (_kill_at_the_end, 1),
        )
    )
    return [replace(fault, kind="power_cut") for fault in pattern(chance, stage)]


def _storage_cannot_be_read(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A file cannot be read as the job comes back after a kill, or is read late, in some cases twice."""
    kill = _kill_around_a_checkpoint(chance, stage)
    # A process lists its folder and reads metadata before the files of its tasks.
    reads = 4 + len(stage.tasks)
    faults = []
    for _ in range(chance.integer(1, 2)):
        nth = chance.integer(1, reads)
        kind = draw_kind(chance, stage, "read")
        delay = chance.integer(1, 3 * stage.checkpoint_steps)
        faults.append(Fault(kind, "restoring", ANY_TASK, 0, nth, 0, delay_of(kind, delay)))
    return [*kill, *faults]


def commit_answers_with_an_error(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A commit fails, or succeeds and is reported as failed; the sink repeats it, in some cases after a kill.

    The external system does not know checkpoints, so the fault names none.
    """
    kind = draw_kind(chance, stage, "commit", delays=("none",))
    if chance.chance(0.4):
        # The failing commit is one of the restore, which commits what the dead attempt did not.
        checkpoint = draw_checkpoint(chance, stage)
        nth = draw_commit(chance, stage, checkpoint)
        return [
            draw_kill(chance, stage, "completed", checkpoint),
            Fault(kind, "committing", ANY_TASK, 0, nth),
        ]
    nth = draw_occurrence(chance, stage, "committing", ANY_TASK, 0)
    faults = [Fault(kind, "committing", ANY_TASK, 0, nth)]
    if chance.chance(0.5):
        point = chance.choice(_RECOVERY_POINTS)
        faults.append(draw_kill(chance, stage, point, 0))
    return faults


def _kill_at_the_end(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A kill around the last checkpoint, whose errors no later one can repair."""
    return [
        draw_kill(
            chance, stage, "end_of_data", 0, ANY_TASK, soon=chance.integer(0, 2 * stage.checkpoint_steps)
        )
    ]


def _kill_while_metadata_is_written(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A kill between the last acknowledgement and the metadata, and a second one in the next attempt.

    The write of the first attempt may succeed during a later attempt, or never.
    """
    checkpoint = chance.integer(1, stage.checkpoints + 2)
    kill = draw_kill_kind(chance, stage, "acknowledged")
    faults = [Fault(kill, "acknowledged", ANY_TASK, checkpoint, len(stage.tasks), chance.integer(1, 8))]
    if chance.chance(0.8):
        point: Point = chance.choice(("restored", "barrier_received", "element", "triggered"))
        later = chance.integer(0, stage.restart_delay + 2 * stage.checkpoint_steps)
        faults.append(Fault("kill_process", point, ANY_TASK, 0, _soon(chance, stage, point), later))
    return faults


def _master_dies_over_metadata(chance: Chance, stage: JobOutline) -> list[Fault]:
    """The job master dies while metadata is written; the write may succeed under the next master."""
    checkpoint = draw_checkpoint(chance, stage)
    faults = [
        Fault("kill_master", "acknowledged", ANY_TASK, checkpoint, len(stage.tasks), chance.integer(1, 6))
    ]
    if chance.chance(0.8):
        point: Point = chance.choice(("restored", "barrier_received", "element", "triggered"))
        kind: FaultKind = "kill_process" if chance.chance(0.6) else "kill_master"
        later = chance.integer(0, 2 * stage.checkpoint_steps)
        faults.append(Fault(kind, point, ANY_TASK, 0, _soon(chance, stage, point), later))
    return faults


def _soon(chance: Chance, stage: JobOutline, point: Point) -> int:
    """Return an early passage of the point in the second attempt."""
    if point == "restored":
        return len(stage.tasks) + chance.integer(1, len(stage.tasks))
    return 1 if point == "triggered" else chance.integer(1, 2 * len(stage.tasks))


def _trigger_comes_twice(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A duplicated trigger, whose copy reaches a source during the checkpoint, behind it or in the next."""
    return _message_comes_twice(chance, stage, "triggered")


def _notification_comes_twice(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A duplicated notification, whose copy may come when the task has heard of a later checkpoint."""
    return _message_comes_twice(chance, stage, "notified")


def _acknowledgement_comes_twice(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A duplicated acknowledgement, whose copy arrives before or after the checkpoint completes."""
    return _message_comes_twice(chance, stage, "acknowledged")


def _message_comes_twice(chance: Chance, stage: JobOutline, point: Point) -> list[Fault]:
    checkpoint = draw_checkpoint(chance, stage)
    nth = draw_occurrence(chance, stage, point, ANY_TASK, checkpoint)
    delay = chance.integer(0, 2 * stage.checkpoint_steps)
    twice = Fault("duplicate_message", point, ANY_TASK, checkpoint, nth, 0, delay)
    return [twice, draw_kill(chance, stage, "completed", checkpoint, soon=chance.integer(0, delay))]


def _acknowledgement_comes_too_late(chance: Chance, stage: JobOutline) -> list[Fault]:
    """An acknowledgement comes when its checkpoint has expired and the files are gone, or never; a kill."""
    checkpoint = draw_checkpoint(chance, stage)
    nth = draw_occurrence(chance, stage, "acknowledged", ANY_TASK, checkpoint)
    if chance.chance(0.15):
        lost = Fault("lose_message", "acknowledged", ANY_TASK, checkpoint, nth)
        return [lost, draw_kill(chance, stage, "completed", 0)]
    # The timeout counts from the trigger, and the next checkpoint must not have completed yet.
    delay = stage.short_timeout + chance.integer(0, stage.checkpoint_steps // 8)
    late = Fault("delay_message", "acknowledged", ANY_TASK, checkpoint, nth, 0, delay)
    return [late, draw_kill(chance, stage, "completed", checkpoint)]


def _final_notification_lost(chance: Chance, stage: JobOutline) -> list[Fault]:
    """Some tasks miss the final notification and keep taking checkpoints, while others have finished."""
    last = stage.checkpoints + chance.integer(0, 3)
    before = [task for task in stage.tasks if task not in stage.sinks]
    half = len(before) // 2
    if half and chance.chance(0.8):
        # Tasks are in the order of the job: mostly a source and a task downstream of it.
        unnotified = [chance.choice(before[:half]), chance.choice(before[half:])]
    else:
        unnotified = chance.sample(stage.tasks, 2)
    checkpoints = range(last, last + 3)
    return [
        Fault("lose_message", "notified", task, checkpoint)
        for checkpoint in checkpoints
        for task in unnotified
    ]


def _clock_is_set(chance: Chance, stage: JobOutline) -> list[Fault]:
    """The wall clock jumps while records are processed and checkpoints are under way."""
    kind = draw_kind(chance, stage, "clock")
    point = chance.choice(FAULTS[kind].points)
    checkpoint = 0 if point in ("element", "restored") else draw_checkpoint(chance, stage)
    nth = draw_occurrence(chance, stage, point, ANY_TASK, checkpoint)
    after = chance.integer(0, 2 * stage.checkpoint_steps)
    return [Fault(kind, point, ANY_TASK, checkpoint, nth, after, _jump(chance))]


def _clock_is_set_while_the_job_is_down(chance: Chance, stage: JobOutline) -> list[Fault]:
    """The wall clock jumps while the job waits for its restart after a kill.

    When the job master learns of the death depends on the schedule, so the clock is set twice.
    """
    kill = draw_kill(chance, stage, "element", 0)
    faults = []
    for latest in (2, 2 + len(stage.tasks)):
        # The pass at which a jump is set off counts for the jump alone: the kill waits for the next one.
        after = kill.after + chance.integer(1, latest + stage.restart_delay)
        kind = draw_kind(chance, stage, "clock")
        faults.append(Fault(kind, "element", ANY_TASK, 0, kill.occurrence, after, _jump(chance)))
    return [*faults, kill]


def _clock_is_set_while_a_checkpoint_waits(chance: Chance, stage: JobOutline) -> list[Fault]:
    """The wall clock jumps while a checkpoint waits for a message that was lost, and for its time-out."""
    checkpoint = draw_checkpoint(chance, stage)
    after = chance.integer(1, 2 * stage.checkpoint_steps)
    return [
        Fault("lose_message", "triggered", ANY_TASK, checkpoint),
        Fault(draw_kind(chance, stage, "clock"), "triggered", ANY_TASK, checkpoint, 1, after, _jump(chance)),
    ]


def _jump(chance: Chance) -> int:
    """Return by how many milliseconds a clock jumps: within an interval, or over many."""
    return chance.weighted(
        ((chance.integer(1, 200), 2), (chance.integer(201, LONGEST_JUMP_MS), 2), (LONGEST_JUMP_MS, 1))
    )


def _kill_between_checkpoints(chance: Chance, stage: JobOutline) -> list[Fault]:
    return [draw_kill(chance, stage, "element", 0, draw_task(chance, stage, "element"))]


def _anything(chance: Chance, stage: JobOutline) -> list[Fault]:
    """A kind that the scenario may use, drawn by its weight, at any of its points."""
    weights = {row.kind: row.weight for row in drawn_rows() if row.kind in stage.kinds}
    if not weights:
        return []
    kind = Lots(chance).first(weights)
    row = FAULTS[kind]
    point = chance.choice(row.points)
    if row.strikes == "clock":
        nth = draw_occurrence(chance, stage, point, ANY_TASK, 0)
        return [Fault(kind, point, ANY_TASK, 0, nth, chance.integer(0, 40), _jump(chance))]
    if row.is_kill:
        drawn = draw_kill(chance, stage, point, 0)
        return [Fault(kind, point, ANY_TASK, 0, drawn.occurrence, drawn.after, 0, drawn.rescale_to)]
    checkpoint = 0 if chance.chance(0.5) or point == "committing" else draw_checkpoint(chance, stage)
    task = ANY_TASK if row.strikes == "message" and point == "triggered" else draw_task(chance, stage, point)
    delay = 0 if row.delay == "none" else chance.integer(1, 120)
    return [
        Fault(
            kind, point, task, checkpoint, draw_occurrence(chance, stage, point, task, checkpoint), 0, delay
        )
    ]


_PATTERN_COUNTS: Final = ((0, 1), (1, 8), (2, 4), (3, 1))
PATTERNS: Final[Mapping[Pattern, int]] = {
    _kill_around_a_checkpoint: 6,
    _message_outlives_its_attempt: 4,
    _kill_twice: 3,
    _notification_lost_or_delayed: 3,
    _anything: 4,
    storage_fails: 3,
    _trigger_lost_or_delayed: 2,
    commit_answers_with_an_error: 2,
    _kill_while_metadata_is_written: 2,
    _master_dies_over_metadata: 2,
    _final_notification_lost: 4,
    _trigger_comes_twice: 1,
    _acknowledgement_comes_twice: 1,
    _notification_comes_twice: 1,
    _acknowledgement_comes_too_late: 2,
    _kill_between_checkpoints: 1,
    _clock_is_set: 1,
    _power_is_cut: 3,
    _storage_cannot_be_read: 3,
    files_cannot_be_deleted: 2,
    _clock_is_set_while_the_job_is_down: 2,
    _clock_is_set_while_a_checkpoint_waits: 1,
    _kill_at_the_end: 1,
    kill_at_each_completion: 4,
    kill_at_completion_and_while_restoring: 2,
    call_takes_place_late: 2,
    abort_is_reported_late: 1,
    decline_is_reported_late: 1,
    aborted_checkpoint_goes_on: 3,
    aborted_barrier_comes_late: 5,
    commits_pass_to_fewer_subtasks: 3,
}
_ALWAYS_ALLOWED: Final = frozenset({aborted_checkpoint_goes_on, aborted_barrier_comes_late})
"""These need so many kinds that few scenarios would allow them all."""
