"""What the user of a job asks for in a scenario: savepoints, stops with one, and rescales while it runs.

The rules this module lives by:

- A stop whose savepoint expires costs an attempt, so stops are only drawn where the timeout is ample. They
  are drawn while input is left, so that the restarted job has records to read.
- Some stops are aimed at a fault that is drawn with them: transactions wait for a notification that is lost,
  or the savepoint cannot be written. A stop anywhere else seldom meets one. Some savepoints come with a kill
  right behind them: the job comes back from the checkpoint before. Where several checkpoints may be under
  way, the savepoint is slow instead.
- Rescales are aimed at moments in which a sink has written rows that no checkpoint has, or has prepared them
  for one that is not complete. They are drawn by themselves, so a scenario without one is as it was before.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import (
    JobOutline,
    draw_checkpoint,
    draw_kill_kind,
    highest_parallelism,
    kills_of_all,
)
from onceproof.harness.model.chance import Chance, Lots, derived_seed
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.fault_kinds import FaultKind, Point
from onceproof.harness.model.faults import drawn_kinds
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation, OperationKind, StateBackend

OPERATIONS: Final = 0.25
"""The share of scenarios with savepoints or stops."""
AIMED_STOPS: Final = 0.05
"""The share of scenarios with a stop that is aimed at a fault."""
AIMED_SAVEPOINTS: Final = 0.05
"""The share of scenarios with a savepoint that is slow, or with a kill between it and the next checkpoint."""
ASKED_AT: Final[tuple[tuple[Point, int], ...]] = (
    ("element", 6),
    ("triggered", 2),
    ("aligned", 1),
    ("acknowledged", 2),
    ("completed", 3),
    ("committing", 1),
    ("end_of_data", 1),
)
RESCALES: Final = 0.065
"""The share of scenarios with a rescale while the job runs, among those that may change their size."""
RESCALED_AT: Final[tuple[tuple[Point, int], ...]] = (
    ("element", 10),
    ("pre_committed", 2),
    ("acknowledged", 2),
    ("metadata_written", 1),
    ("completed", 2),
    ("committing", 1),
    ("restored", 1),
    ("end_of_data", 1),
)
CANCELS: Final = 0.03
"""The share of scenarios with a cancel, drawn by itself."""
OTHER_BACKEND: Final = 0.02
UPGRADES: Final[tuple[tuple[OperationKind, int], ...]] = (("stop", 4), ("upgrade", 4), ("cancel", 2))
"""How a job is upgraded, with weights."""
_MOST_NOTIFICATIONS: Final = 3


def draw_operations(
    chance: Chance,
    stage: JobOutline,
    aimed: tuple[Operation, ...],
    rescales: tuple[Operation, ...],
    *,
    any_backend: bool,
    may_stop: bool,
) -> tuple[Operation, ...] | UnsetType:
    """Draw savepoints, and stops with one, beside the stop that is aimed at a fault, and the rescales."""
    if not chance.chance(OPERATIONS):
        return (*aimed, *rescales) or UNSET
    stops = may_stop and not aimed and chance.chance(0.5)
    kinds: list[OperationKind] = ["savepoint"] * chance.integer(0 if stops else 1, 2)
    if stops:
        kinds.insert(chance.integer(0, len(kinds)), "stop")
    return (*aimed, *[_operation(chance, stage, kind, any_backend) for kind in kinds], *rescales)


def draw_aimed_operation(
    chance: Chance, stage: JobOutline, *, any_backend: bool
) -> tuple[tuple[Fault, ...], tuple[Operation, ...]]:
    """Draw, for some scenarios, faults and the stop or savepoint that meets them; nothing for the others."""
    share = chance.unit()
    if share < AIMED_STOPS:
        return stop_and_fault(chance, stage, any_backend)
    if share < AIMED_STOPS + AIMED_SAVEPOINTS:
        several = stage.mode.max_concurrent > 1
        return slow_savepoint(chance, stage) if several else savepoint_and_kill(chance, stage, any_backend)
    return (), ()


def slow_savepoint(chance: Chance, stage: JobOutline) -> tuple[tuple[Fault, ...], tuple[Operation, ...]]:
    """Draw a savepoint that takes so long that later checkpoints complete before it."""
    checkpoint = draw_checkpoint(chance, stage)
    savepoint = Operation("savepoint", "triggered", ANY_TASK, checkpoint, 1, chance.integer(0, 2))
    delay = chance.integer(2 * stage.interval, 6 * stage.interval)
    return (Fault("late_write", "snapshotted", ANY_TASK, checkpoint + 1, 1, 0, delay),), (savepoint,)


def savepoint_and_kill(
    chance: Chance, stage: JobOutline, any_backend: bool
) -> tuple[tuple[Fault, ...], tuple[Operation, ...]]:
    """Draw a savepoint, and a kill ahead of the checkpoint behind it."""
    checkpoint = draw_checkpoint(chance, stage)
    savepoint = Operation("savepoint", "completed", ANY_TASK, checkpoint, 1, chance.choice((0, 0, 1)))
    kind = draw_kill_kind(chance, stage, "metadata_written", kills_of_all())
    size = chance.integer(1, highest_parallelism(stage))
    rescale_to = size if stage.rescales and chance.chance(0.4) else 0
    after = chance.weighted(((2, 2), (chance.integer(2, 8), 3), (chance.integer(0, stage.interval), 1)))
    kill = Fault(kind, "metadata_written", ANY_TASK, checkpoint + 1, 1, after, 0, rescale_to)
    return (kill,), (savepoint,)


def stop_and_kill(
    chance: Chance, stage: JobOutline, any_backend: bool
) -> tuple[tuple[Fault, ...], tuple[Operation, ...]]:
    """Draw a stop, and a kill while its savepoint is taken or committed."""
    checkpoint = draw_checkpoint(chance, stage)
    stop = _end(chance, stage, "stop", "completed", checkpoint, 1, chance.integer(0, 2), any_backend)
    point: Point = chance.choice(("snapshotted", "metadata_written", "completed", "committing", "notified"))
    kind = draw_kill_kind(chance, stage, point, kills_of_all())
    return (Fault(kind, point, ANY_TASK, checkpoint + 1, 1, chance.weighted(((0, 3), (1, 1)))),), (stop,)


def stop_and_fault(
    chance: Chance, stage: JobOutline, any_backend: bool
) -> tuple[tuple[Fault, ...], tuple[Operation, ...]]:
    """Draw a stop, and lost notices or a failing write that it meets."""
    checkpoint = draw_checkpoint(chance, stage)
    if chance.chance(0.6):
        kind: FaultKind = "lose_message" if chance.chance(0.7) else "delay_message"
        delay = 0 if kind == "lose_message" else chance.integer(stage.interval, 4 * stage.interval)
        sinks = chance.sample(stage.sinks, min(len(stage.sinks), _MOST_NOTIFICATIONS))
        faults = tuple([Fault(kind, "notified", sink, checkpoint, 1, 0, delay) for sink in sinks])
        after = chance.integer(0, stage.interval)
    else:
        # A checkpoint that has begun is given up for the savepoint, which has the id behind it.
        kind = Lots(chance).first(drawn_kinds("write", delays=("none",)))
        point: Point = chance.choice(("snapshotted", "metadata_written"))
        faults = (Fault(kind, point, ANY_TASK, checkpoint + chance.weighted(((1, 1), (2, 3)))),)
        after = chance.integer(0, 3)
    stop = _end(chance, stage, "stop", "completed", checkpoint, 1, after, any_backend)
    return faults, (stop,)


def draw_rescales(chance: Chance, stage: JobOutline, parallelism: int) -> tuple[Operation, ...]:
    """Draw, for some scenarios, a rescale of the running job, and in some of these one back; else nothing.

    Args:
        parallelism: that of the keyed operators at the start.
    """
    if not stage.rescales or not chance.chance(RESCALES):
        return ()
    most = highest_parallelism(stage)
    others = [size for size in range(1, most + 1) if size != parallelism]
    first = _rescale(chance, stage, chance.choice(others))
    if not chance.chance(0.25):
        return (first,)
    return first, _rescale(chance, stage, parallelism)


def draw_cancel(chance: Chance, stage: JobOutline, *, any_backend: bool) -> tuple[Operation, ...]:
    """Draw, for some scenarios, a cancel with a savepoint; nothing for the others."""
    if not chance.chance(CANCELS):
        return ()
    return (_operation(chance, stage, "cancel", any_backend),)


def draw_upgrade(family: Family, seed: int, stage: JobOutline) -> tuple[Operation, ...]:
    """Draw when and how the job is replaced by its new version; nothing for a family without one."""
    if options_of(family).upgraded is None:
        return ()
    chance = Chance(Random(derived_seed("upgrade", seed)))
    kind = chance.weighted(UPGRADES)
    if kind == "upgrade" or chance.chance(0.7):
        # The earlier the better: behind it, the new version shall meet faults.
        occurrence = chance.integer(1, 1 + stage.records)
        asked = Operation(kind, "element", ANY_TASK, 0, occurrence, chance.integer(0, stage.checkpoint_steps))
    else:
        asked = _operation(chance, stage, kind, any_backend=False)
    parallelism = chance.integer(1, highest_parallelism(stage)) if chance.chance(0.5) else 0
    return (replace(asked, parallelism=parallelism, upgrades=True),)


def _rescale(chance: Chance, stage: JobOutline, parallelism: int) -> Operation:
    point = chance.weighted(RESCALED_AT)
    if point == "element" and chance.chance(0.5):
        # Right behind a row that a sink was given.
        sink = chance.choice(stage.sinks)
        occurrence = chance.integer(1, 1 + stage.records // len(stage.sinks))
        return Operation("rescale", point, sink, 0, occurrence, chance.integer(0, 3), parallelism)
    checkpoint, occurrence = draw_checkpoint(chance, stage), 1
    if point == "element":
        checkpoint, occurrence = 0, chance.integer(1, 1 + 2 * stage.records)
    elif point in ("end_of_data", "restored", "committing"):
        checkpoint, occurrence = 0, chance.integer(1, len(stage.tasks))
    after = chance.choice((0, chance.integer(0, stage.checkpoint_steps), chance.integer(0, stage.interval)))
    return Operation("rescale", point, ANY_TASK, checkpoint, occurrence, after, parallelism)


def _operation(chance: Chance, stage: JobOutline, kind: OperationKind, any_backend: bool) -> Operation:
    point = chance.weighted(ASKED_AT)
    checkpoint, occurrence = 1 + int(chance.unit() * stage.checkpoints), 1
    if point == "element":
        checkpoint, occurrence = 0, chance.integer(1, 1 + 2 * stage.records)
    elif point == "end_of_data":
        checkpoint = 0
    after = chance.integer(0, 2 * stage.checkpoint_steps)
    if kind == "savepoint":
        return Operation(kind, point, ANY_TASK, checkpoint, occurrence, after)
    return _end(chance, stage, kind, point, checkpoint, occurrence, after, any_backend)


def _end(
    chance: Chance,
    stage: JobOutline,
    kind: OperationKind,
    point: Point,
    checkpoint: int,
    occurrence: int,
    after: int,
    any_backend: bool,
) -> Operation:
    most = highest_parallelism(stage)
    parallelism = chance.integer(1, most) if chance.chance(0.6) else 0
    # A run on databases takes several times as long as another one.
    backend: StateBackend | None = "rocksdb" if chance.chance(OTHER_BACKEND) and any_backend else None
    claims = chance.chance(0.4)
    return Operation(kind, point, ANY_TASK, checkpoint, occurrence, after, parallelism, backend, claims)
