"""The faults of a scenario, drawn as small plots rather than one by one.

The rules this module lives by:

- Faults that are strewn at random mostly miss: a protocol breaks in the few steps around a checkpoint, and
  often only if two things go wrong in the right order. So most faults come as plots: an acknowledgement held
  back until a restarted process takes the same checkpoint again, a notification lost and then a kill, a kill
  while another kill is being recovered from. A share stays strewn at random, for what nobody thought of.
- Swarm: a scenario first draws which kinds it may use at all. One that may use everything seldom gets to the
  states that lie behind the absence of something.
- Nothing is drawn that the fault table does not list, and the random share reaches every point of every row:
  coverage counts on both.
- Kills aim at early checkpoints, because only input that is still to come shows what a recovery got wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.faults import COORDINATOR_POINTS, FAULT_KINDS, FAULTS, FaultKind, Point
from onceproof.harness.model.scenario import ANY_TASK, Fault

MOST_FAULTS: Final = 6
HIGHEST_PARALLELISM: Final = 4

_SINK_POINTS: Final = frozenset({"pre_committed", "committing", "committed", "aborted"})
_RECOVERY_POINTS: Final[tuple[Point, ...]] = ("restoring", "restored", "aborted", "committing")

# Where a kill hurts: after the point of no return and before everyone knows of it, weighs most.
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


@dataclass(slots=True)
class Stage:
    """What the plots play on: the size of the job and what can be expected of its run."""

    tasks: tuple[str, ...]
    """All subtasks that exist at the start."""
    sinks: tuple[str, ...]
    records: int
    checkpoints: int
    """How many will complete, roughly."""
    checkpoint_steps: int
    """Steps of one checkpoint, roughly, apart from the data between them."""
    interval: int
    restart_delay: int
    short_timeout: int
    """When a checkpoint expires, where time is short; in most scenarios it is ample."""
    max_parallelism: int
    kinds: frozenset[FaultKind] = frozenset()
    rescales: bool = False


Plot: TypeAlias = Callable[[Chance, Stage], list[Fault]]


def draw_kinds(chance: Chance) -> frozenset[FaultKind]:
    """Draw which kinds of fault a scenario may use."""
    allowed = set()
    for kind in FAULT_KINDS:
        share = 0.7 if FAULTS[kind].is_kill else 0.5
        if chance.chance(share):
            allowed.add(kind)
    return frozenset(allowed)


def draw_faults(chance: Chance, stage: Stage) -> tuple[Fault, ...]:
    """Draw the plots of a scenario and return their faults, as far as its kinds allow them."""
    count = chance.weighted(_PLOT_COUNTS)
    faults: list[Fault] = []
    for _ in range(count):
        plot = chance.weighted(_PLOTS)
        faults += [fault for fault in plot(chance, stage) if fault.kind in stage.kinds]
    if count and not faults:
        # All of what was plotted is forbidden here: a plain kill does more than an undisturbed run.
        faults += [fault for fault in _kill_around_a_checkpoint(chance, stage) if fault.kind in stage.kinds]
    return tuple(faults[:MOST_FAULTS])


def _kill(
    chance: Chance, stage: Stage, point: Point, checkpoint: int, task: str = ANY_TASK, soon: int = 0
) -> Fault:
    """Return a kill at the point or some steps after it, at least ``soon``, perhaps with a rescale."""
    kinds = [kind for kind in _KILL_ORDER if kind in stage.kinds and point in FAULTS[kind].points]
    kind = chance.choice(kinds) if kinds else "kill_all"
    rescale_to = 0
    if stage.rescales and chance.chance(0.6):
        rescale_to = chance.integer(1, min(HIGHEST_PARALLELISM, stage.max_parallelism))
    after = chance.weighted(_AFTER)
    return Fault(
        kind,
        point,
        task,
        checkpoint,
        _occurrence(chance, stage, point, task, checkpoint),
        max(soon, chance.integer(after // 2, after)),
        0,
        rescale_to,
    )


def _occurrence(chance: Chance, stage: Stage, point: Point, task: str, checkpoint: int) -> int:
    """Return which of the passes to strike at: with one task and one checkpoint there is only one."""
    if point == "element":
        return chance.integer(1, 1 + 2 * stage.records // (1 if task == ANY_TASK else 3))
    passing = 1
    if task == ANY_TASK and point not in COORDINATOR_POINTS:
        passing = len(stage.sinks) if point in _SINK_POINTS else len(stage.tasks)
    if not checkpoint:
        passing *= min(stage.checkpoints, 4)
    return chance.integer(1, passing)


def _checkpoint(chance: Chance, stage: Stage) -> int:
    """Return the id of a checkpoint, more often an early one."""
    return 1 + int(chance.unit() * chance.unit() * max(1, stage.checkpoints))


def _task(chance: Chance, stage: Stage, point: Point) -> str:
    """Return any task, or one that passes the point."""
    if point in COORDINATOR_POINTS or chance.chance(0.6):
        return ANY_TASK
    return chance.choice(stage.sinks if point in _SINK_POINTS else stage.tasks)


def _kill_around_a_checkpoint(chance: Chance, stage: Stage) -> list[Fault]:
    point = chance.weighted(_CHECKPOINT_POINTS)
    return [_kill(chance, stage, point, _checkpoint(chance, stage), _task(chance, stage, point))]


def _kill_twice(chance: Chance, stage: Stage) -> list[Fault]:
    """The second kill comes while the first is recovered from, or at the same checkpoint done again."""
    first = _kill_around_a_checkpoint(chance, stage)
    point = chance.choice(_RECOVERY_POINTS) if chance.chance(0.6) else chance.weighted(_CHECKPOINT_POINTS)
    checkpoint = 0 if point in _RECOVERY_POINTS else first[0].checkpoint + chance.integer(0, 1)
    return [*first, _kill(chance, stage, point, checkpoint)]


def _message_outlives_its_attempt(chance: Chance, stage: Stage) -> list[Fault]:
    """A message of a checkpoint arrives when a new process takes the checkpoint of the same id.

    Only a new process uses an id again, and only if the checkpoint had not completed: so the kill comes a
    few steps after the message was sent. The second kill restores what the message may have spoilt.
    """
    point: Point = chance.weighted((("acknowledged", 6), ("notified", 2), ("triggered", 2)))
    checkpoint = _checkpoint(chance, stage)
    kind: FaultKind = "duplicate_message" if chance.chance(0.2) else "delay_message"
    nth = _occurrence(chance, stage, point, ANY_TASK, checkpoint)
    until_again = stage.restart_delay + 2 * len(stage.tasks) + stage.interval
    delay = until_again + chance.integer(0, 3 * stage.checkpoint_steps)
    kill: FaultKind = "kill_process" if chance.chance(0.8) else "kill_all"
    faults = [
        Fault(kind, point, ANY_TASK, checkpoint, nth, 0, delay),
        Fault(kill, point, ANY_TASK, checkpoint, nth, chance.integer(1, 4)),
    ]
    if chance.chance(0.7):
        faults.append(_kill(chance, stage, "completed", checkpoint + chance.integer(0, 1)))
    return faults


def _notification_goes_astray(chance: Chance, stage: Stage) -> list[Fault]:
    """What was not committed must be committed by a later notification or by the restore after a kill."""
    checkpoint = _checkpoint(chance, stage)
    kinds = [kind for kind in _MESSAGE_ORDER if kind in stage.kinds] or _MESSAGE_ORDER[:1]
    faults = []
    for _ in range(chance.integer(1, 3)):
        kind = chance.choice(kinds)
        task = chance.choice(stage.sinks) if chance.chance(0.7) else ANY_TASK
        delay = 0 if FAULTS[kind].delay == "none" else chance.integer(5, 150)
        nth = _occurrence(chance, stage, "notified", task, checkpoint)
        faults.append(Fault(kind, "notified", task, checkpoint, nth, 0, delay))
    point: Point = chance.choice(("completed", "pre_committed", "acknowledged", "element"))
    later = 0 if point == "element" else checkpoint + chance.integer(0, 1)
    return [*faults, _kill(chance, stage, point, later)]


def _trigger_goes_astray(chance: Chance, stage: Stage) -> list[Fault]:
    """Some sources begin a checkpoint and others do not, so the next one meets it half aligned."""
    checkpoint = _checkpoint(chance, stage)
    nth = chance.integer(1, 3)
    if chance.chance(0.6):
        faults = [Fault("lose_message", "triggered", ANY_TASK, checkpoint, nth)]
    else:
        delay = chance.integer(1, 8 * stage.checkpoint_steps)
        faults = [Fault("delay_message", "triggered", ANY_TASK, checkpoint, nth, 0, delay)]
    if chance.chance(0.6):
        faults.append(_kill(chance, stage, "completed", checkpoint + chance.integer(1, 2)))
    return faults


def _storage_fails(chance: Chance, stage: Stage) -> list[Fault]:
    """A write fails, is torn or is late, and often someone dies before the answer came."""
    point: Point = "snapshotted" if chance.chance(0.5) else "metadata_written"
    checkpoint = _checkpoint(chance, stage) + chance.integer(0, 1)
    kind: FaultKind = chance.weighted((("fail_write", 2), ("tear_write", 2), ("late_write", 3)))
    task = _task(chance, stage, point)
    delay = chance.integer(3, 3 * stage.checkpoint_steps) if kind == "late_write" else 0
    nth = _occurrence(chance, stage, point, task, checkpoint)
    faults = [Fault(kind, point, task, checkpoint, nth, 0, delay)]
    if chance.chance(0.6):
        if point == "metadata_written" and kind != "late_write":
            # What failed does not pass its point; the next checkpoint begins soon, before anything is mended.
            faults.append(_kill(chance, stage, "triggered", checkpoint + 1))
        else:
            faults.append(_kill(chance, stage, point, checkpoint, task, soon=1))
    return faults


def _commit_answers_with_an_error(chance: Chance, stage: Stage) -> list[Fault]:
    """A commit fails, or takes place and is reported as failed; it will be repeated, perhaps after a kill.

    The outside, which answers so, knows nothing of checkpoints.
    """
    kind: FaultKind = "fail_commit" if chance.chance(0.5) else "commit_error_after_success"
    if chance.chance(0.4):
        # The one that fails is the restore's, which commits what the dead attempt did not come to.
        checkpoint = _checkpoint(chance, stage)
        nth = (checkpoint - 1) * len(stage.sinks) + chance.integer(1, len(stage.sinks))
        return [
            _kill(chance, stage, "completed", checkpoint),
            Fault(kind, "committing", ANY_TASK, 0, nth),
        ]
    nth = _occurrence(chance, stage, "committing", ANY_TASK, 0)
    faults = [Fault(kind, "committing", ANY_TASK, 0, nth)]
    if chance.chance(0.5):
        point = chance.choice(_RECOVERY_POINTS)
        faults.append(_kill(chance, stage, point, 0))
    return faults


def _kill_at_the_end(chance: Chance, stage: Stage) -> list[Fault]:
    """The last checkpoint is the one that no later one can repair."""
    return [
        _kill(chance, stage, "end_of_data", 0, ANY_TASK, soon=chance.integer(0, 2 * stage.checkpoint_steps))
    ]


def _kill_while_metadata_is_written(chance: Chance, stage: Stage) -> list[Fault]:
    """Between the last acknowledgement and the metadata nothing is decided; a second death asks what was.

    The first may leave a write behind that lands in the time of a later attempt, or none at all.
    """
    checkpoint = chance.integer(1, stage.checkpoints + 2)
    kill = chance.choice(_KILL_ORDER)
    faults = [Fault(kill, "acknowledged", ANY_TASK, checkpoint, len(stage.tasks), chance.integer(1, 8))]
    if chance.chance(0.8):
        point: Point = chance.choice(("restored", "barrier_received", "element", "triggered"))
        later = chance.integer(0, stage.restart_delay + 2 * stage.checkpoint_steps)
        faults.append(Fault("kill_process", point, ANY_TASK, 0, _soon(chance, stage, point), later))
    return faults


def _master_dies_over_metadata(chance: Chance, stage: Stage) -> list[Fault]:
    """What it was writing may come when another runs the job, and a third one asks what is complete."""
    checkpoint = _checkpoint(chance, stage)
    faults = [
        Fault("kill_master", "acknowledged", ANY_TASK, checkpoint, len(stage.tasks), chance.integer(1, 6))
    ]
    if chance.chance(0.8):
        point: Point = chance.choice(("restored", "barrier_received", "element", "triggered"))
        kind: FaultKind = "kill_process" if chance.chance(0.6) else "kill_master"
        later = chance.integer(0, 2 * stage.checkpoint_steps)
        faults.append(Fault(kind, point, ANY_TASK, 0, _soon(chance, stage, point), later))
    return faults


def _soon(chance: Chance, stage: Stage, point: Point) -> int:
    """Return a pass of the point by the second attempt, or a little later."""
    if point == "restored":
        return len(stage.tasks) + chance.integer(1, len(stage.tasks))
    return 1 if point == "triggered" else chance.integer(1, 2 * len(stage.tasks))


def _acknowledgement_comes_twice(chance: Chance, stage: Stage) -> list[Fault]:
    """The second copy comes while others are awaited, or when the checkpoint is complete and needed."""
    checkpoint = _checkpoint(chance, stage)
    nth = _occurrence(chance, stage, "acknowledged", ANY_TASK, checkpoint)
    delay = chance.integer(0, 2 * stage.checkpoint_steps)
    twice = Fault("duplicate_message", "acknowledged", ANY_TASK, checkpoint, nth, 0, delay)
    return [twice, _kill(chance, stage, "completed", checkpoint, soon=chance.integer(0, delay))]


def _acknowledgement_comes_too_late(chance: Chance, stage: Stage) -> list[Fault]:
    """Nobody waits for it any more, and what it names is gone; a kill asks what was made of it."""
    checkpoint = _checkpoint(chance, stage)
    nth = _occurrence(chance, stage, "acknowledged", ANY_TASK, checkpoint)
    # Time runs from the trigger, which is earlier; and the next checkpoint must not be complete yet.
    delay = stage.short_timeout + chance.integer(0, stage.checkpoint_steps // 8)
    late = Fault("delay_message", "acknowledged", ANY_TASK, checkpoint, nth, 0, delay)
    return [late, _kill(chance, stage, "completed", checkpoint)]


def _end_is_not_heard_by_all(chance: Chance, stage: Stage) -> list[Fault]:
    """Some tasks finish, others do not hear that they may: their checkpoints go on among finished tasks."""
    last = stage.checkpoints + chance.integer(0, 3)
    before = [task for task in stage.tasks if task not in stage.sinks]
    half = len(before) // 2
    if half and chance.chance(0.8):
        # Tasks come in the order of the job: a source, as a rule, and one that it feeds.
        deaf = [chance.choice(before[:half]), chance.choice(before[half:])]
    else:
        deaf = chance.sample(stage.tasks, 2)
    checkpoints = range(last, last + 3)
    return [
        Fault("lose_message", "notified", task, checkpoint) for checkpoint in checkpoints for task in deaf
    ]


def _kill_between_checkpoints(chance: Chance, stage: Stage) -> list[Fault]:
    return [_kill(chance, stage, "element", 0, _task(chance, stage, "element"))]


def _anything(chance: Chance, stage: Stage) -> list[Fault]:
    """Any kind at any of its points: this reaches every point of every row."""
    kind = chance.choice(FAULT_KINDS)
    row = FAULTS[kind]
    point = chance.choice(row.points)
    if row.is_kill:
        drawn = _kill(chance, stage, point, 0)
        return [Fault(kind, point, ANY_TASK, 0, drawn.occurrence, drawn.after, 0, drawn.rescale_to)]
    checkpoint = 0 if chance.chance(0.5) or point == "committing" else _checkpoint(chance, stage)
    task = ANY_TASK if row.strikes == "message" and point == "triggered" else _task(chance, stage, point)
    delay = 0 if row.delay == "none" else chance.integer(1, 120)
    return [
        Fault(kind, point, task, checkpoint, _occurrence(chance, stage, point, task, checkpoint), 0, delay)
    ]


_KILL_ORDER: Final = tuple(row.kind for row in FAULTS.values() if row.is_kill)
_MESSAGE_ORDER: Final = tuple(row.kind for row in FAULTS.values() if row.strikes == "message")

_PLOT_COUNTS: Final = ((0, 1), (1, 6), (2, 5), (3, 2))
_AFTER: Final = ((0, 4), (3, 3), (12, 3), (40, 2))
_PLOTS: Final[tuple[tuple[Plot, int], ...]] = (
    (_kill_around_a_checkpoint, 6),
    (_message_outlives_its_attempt, 4),
    (_kill_twice, 3),
    (_notification_goes_astray, 3),
    (_anything, 3),
    (_storage_fails, 3),
    (_trigger_goes_astray, 2),
    (_commit_answers_with_an_error, 2),
    (_kill_while_metadata_is_written, 2),
    (_master_dies_over_metadata, 2),
    (_end_is_not_heard_by_all, 2),
    (_acknowledgement_comes_twice, 1),
    (_acknowledgement_comes_too_late, 1),
    (_kill_between_checkpoints, 1),
    (_kill_at_the_end, 1),
)
