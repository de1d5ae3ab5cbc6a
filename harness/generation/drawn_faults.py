"""The parts of which fault patterns are made: a kill, a checkpoint, a task, a passage of a point."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, get_args

from msgspec.structs import replace

from onceproof.harness.model.chance import Chance, Lots, derived_seed
from onceproof.harness.model.family import Vertices
from onceproof.harness.model.fault_kinds import (
    CLIENT_ANSWERS,
    COORDINATOR_POINTS,
    Delay,
    FaultKind,
    Point,
    Target,
)
from onceproof.harness.model.faults import FAULTS, KILL_TARGETS, drawn_kinds
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import ANY_TASK, Fault, Scenario

WRITE_AHEAD: Final = "write-ahead"
PART_FILES: Final = "part files"
OWN_CALLS: Final = "calls of the user's own"


@dataclass(slots=True)
class JobOutline:
    """The size of a job and estimates of its run, from which patterns draw tasks, checkpoints and delays."""

    tasks: tuple[str, ...]
    """All subtasks at the start."""
    sinks: tuple[str, ...]
    sources: int
    """How many subtasks of sources it has at the start."""
    records: int
    checkpoints: int
    """About how many checkpoints will complete."""
    checkpoint_steps: int
    """About how many steps a checkpoint takes, apart from the data in between."""
    interval: int
    restart_delay: int
    short_timeout: int
    """The steps after which a checkpoint expires, in scenarios with a short timeout."""
    max_parallelism: int
    kinds: frozenset[FaultKind] = frozenset()
    rescales: bool = False
    """Whether faults may bring the job back at another parallelism."""
    mode: CheckpointMode = CheckpointMode()  # noqa: RUF009
    """How the checkpoints are taken."""
    unfit: frozenset[FaultKind] = frozenset()
    """The kinds of faults that the family's oracle does not allow for."""
    ends: frozenset[str] = frozenset()
    """What is at its ends, as far as faults are drawn for it: servers, and the kinds of sinks above."""


def writing_vertices(vertices: Vertices) -> list[str]:
    """Return the vertices that faults strike as sinks: those with that role, or else the last one.

    A sink that is chained to a keyed operator has the role of that operator, whose parallelism it takes.
    """
    return [name for name, role in vertices.items() if role == "sink"] or list(vertices)[-1:]


HIGHEST_PARALLELISM: Final = 4
ANSWERS: Final = 0.6
"""The share of the failed commits and aborts that an end reports as its client does."""
_SINK_POINTS: Final = frozenset({"pre_committed", "committing", "committed", "aborted"})
_AFTER: Final = ((0, 4), (3, 3), (12, 3), (40, 2))


def highest_parallelism(stage: JobOutline) -> int:
    """Return the highest parallelism at which the job may come back."""
    return min(HIGHEST_PARALLELISM, stage.max_parallelism)


def usual_kills() -> list[FaultKind]:
    """Return the kinds of kills that patterns use.

    Power cuts have a pattern of their own: a storage on a disk costs more steps of the machine.
    """
    return [kind for kind in drawn_kinds(*KILL_TARGETS) if kind != "power_cut"]


def kills_of_all() -> list[FaultKind]:
    """Return those that end the attempt of all tasks."""
    return [kind for kind in usual_kills() if FAULTS[kind].victims != "passing"]


def draw_kind(
    chance: Chance, stage: JobOutline, target: Target, delays: Container[Delay] = get_args(Delay)
) -> FaultKind:
    """Return a kind that strikes the target, one that the scenario may use if there is one."""
    kinds = drawn_kinds(target, delays=delays)
    return Lots(chance).first({kind: kinds[kind] for kind in kinds if kind in stage.kinds} or kinds)


def delay_of(kind: FaultKind, delay: int) -> int:
    """Return the delay of a kind, 0 if it has none. It is drawn for all: later draws keep their place."""
    return 0 if FAULTS[kind].delay == "none" else delay


def draw_kill(
    chance: Chance, stage: JobOutline, point: Point, checkpoint: int, task: str = ANY_TASK, soon: int = 0
) -> Fault:
    """Return a kill at the point or some steps after it, at least ``soon``, in some cases with a rescale."""
    kind = draw_kill_kind(chance, stage, point)
    rescale_to = 0
    if stage.rescales and chance.chance(0.6):
        rescale_to = chance.integer(1, highest_parallelism(stage))
    after = chance.weighted(_AFTER)
    return Fault(
        kind,
        point,
        task,
        checkpoint,
        draw_occurrence(chance, stage, point, task, checkpoint),
        max(soon, chance.integer(after // 2, after)),
        0,
        rescale_to,
    )


def draw_kill_kind(
    chance: Chance, stage: JobOutline, point: Point, among: Iterable[FaultKind] | None = None
) -> FaultKind:
    """Return a kind of kill that the scenario may use at a point; where there is none, that of all tasks.

    Args:
        among: the kinds to choose from; None for the usual ones.
    """
    kinds = usual_kills() if among is None else among
    fitting = {
        kind: FAULTS[kind].weight for kind in kinds if kind in stage.kinds and point in FAULTS[kind].points
    }
    if not fitting:
        chance.unit()  # The draws that follow keep their places.
        return "kill_all"
    return Lots(chance).first(fitting)


def draw_occurrence(chance: Chance, stage: JobOutline, point: Point, task: str, checkpoint: int) -> int:
    """Return at which passage of the point the fault fires, counted from 1."""
    if point == "element":
        return chance.integer(1, 1 + 2 * stage.records // (1 if task == ANY_TASK else 3))
    passing = 1
    if task == ANY_TASK and point not in COORDINATOR_POINTS:
        passing = len(stage.sinks) if point in _SINK_POINTS else len(stage.tasks)
    if not checkpoint:
        passing *= min(stage.checkpoints, 4)
    return chance.integer(1, passing)


def draw_commit(chance: Chance, stage: JobOutline, checkpoint: int) -> int:
    """Return which commit of the run, counted from 1, may be one of the checkpoint."""
    return (checkpoint - 1) * len(stage.sinks) + chance.integer(1, len(stage.sinks))


def draw_checkpoint(chance: Chance, stage: JobOutline) -> int:
    """Return the id of a checkpoint; early ones are more likely."""
    return 1 + int(chance.unit() * chance.unit() * max(1, stage.checkpoints))


def draw_task(chance: Chance, stage: JobOutline, point: Point) -> str:
    """Return any task, or one that passes the point."""
    if point in COORDINATOR_POINTS or chance.chance(0.6):
        return ANY_TASK
    return chance.choice(stage.sinks if point in _SINK_POINTS else stage.tasks)


def with_client_answers(scenario: Scenario, seed: int) -> Scenario:
    """Return a drawn scenario that says of some failed commits and aborts how the client reports them.

    Equal faults are one trouble that lasts, and are reported alike.

    Args:
        scenario: the drawn one.
        seed: the one from which it was drawn.
    """
    chance = Chance(Random(derived_seed("answers of clients", seed)))
    reported = {
        fault: replace(fault, means=chance.choice(CLIENT_ANSWERS))
        for fault in dict.fromkeys(scenario.faults)
        if FAULTS[fault.kind].means == CLIENT_ANSWERS and chance.chance(ANSWERS)
    }
    if not reported:
        return scenario
    return replace(scenario, faults=tuple([reported.get(fault, fault) for fault in scenario.faults]))
