"""The space of an enumeration: the smallest jobs of a family, the schedules, and the faults that can fire.

The rules this module lives by:

- A fault is a kind at a protocol point of a task, for each checkpoint that passes there. It fires at the
  first passage after the start, or after the fault before it. So a second fault can fire during the recovery
  and at the repeated checkpoint.
- Only passages of an actual run are enumerated. A fault at a point that is never passed does not change the
  run, so leaving it out loses nothing.
- First faults aim at two checkpoints, second faults also at the one that replaces the second. Later
  checkpoints of an unfair schedule add no new situations.
- A pair is two faults in the order in which they fire. Until the second fires, the run is that with the first
  alone; so the passages of that run are all passages at which a second fault can fire.
- Only another late put stands before a late put: it gives the job an object store, whose run has other
  passages than that with the first fault alone.
- A delayed message or write report arrives after the next restart.
- The fair schedule covers bugs that need no special order. In the priority schedules each action class is
  first in one and last in another, for bugs that need one actor to be fast or slow for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from onceproof.harness.generation.drawn_workloads import workload_of
from onceproof.harness.generation.generator import generator_version
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.family import Family, FamilyError, Role, Workload
from onceproof.harness.model.fault_kinds import FaultKind, Point
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.model.scenario import (
    ACTION_CLASSES,
    ActionClass,
    Fault,
    InputRecord,
    Scenario,
    Schedule,
)
from onceproof.harness.model.step_limits import with_ample_limits

MOST_RECORDS: Final = 4
PRIORITY_SCHEDULES: Final = 16
MOST_TRIES: Final = 1000
"""The most workloads that are drawn to find one that is large enough."""

INTERVAL_MS: Final = 12
"""Gives one checkpoint during the input and one at its end."""
RESTART_DELAY_MS: Final = 2
DELAY: Final = 40
"""In steps: longer than a restart and the start of the next checkpoint take."""
HORIZON: Final = 200
"""In steps: three times an undisturbed run. After it a schedule that starves the sources becomes fair."""
MAX_PARALLELISM: Final = 4
CHANNEL_CAPACITY: Final = 2
ANY_NUMBER: Final = 1_000_000
_OF_OBJECT_STORES: Final = frozenset(
    kind for kind, row in FAULTS.items() if row.needs == Capability.LATE_PUTS
)


class Shape(NamedTuple):
    """How many subtasks a job has of each kind."""

    source: int
    keyed: int
    sink: int

    @property
    def name(self) -> str:
        """As in reports: "2x2x1"."""
        return f"{self.source}x{self.keyed}x{self.sink}"


SHAPES: Final = (Shape(1, 1, 1), Shape(2, 2, 1))


class Passage(NamedTuple):
    """A moment of a run at which a fault can fire; ``number`` counts equal passages from 1."""

    is_pass: bool
    """True for what strikes as the point is passed; False for faults of a message, a write or a commit."""
    point: Point
    task: str
    checkpoint: int
    number: int


class Case(msgspec.Struct, frozen=True):
    """One job under one schedule."""

    shape: Shape
    schedule: Schedule


def cases() -> list[Case]:
    """Return all jobs under all schedules, in the order of their numbers."""
    return [Case(shape, schedule) for shape in SHAPES for schedule in schedules()]


def schedules() -> list[Schedule]:
    """Return the fair schedule and the priority schedules."""
    return [Schedule(), *[Schedule("priority", 0, order) for order in _orders()]]


def _orders() -> Iterator[dict[ActionClass, int]]:
    """Yield rotations of the action classes, and then some of them reversed."""
    count = len(ACTION_CLASSES)
    for number in range(PRIORITY_SCHEDULES):
        turn = number % count
        order = ACTION_CLASSES[turn:] + ACTION_CLASSES[:turn]
        if number >= count:
            order = order[::-1]
        yield {name: rank for rank, name in enumerate(order)}


def base_scenario(family: Family, case: Case) -> Scenario:
    """Return the scenario of a case without faults.

    Raises:
        FamilyError: the family generates no suitable input.
    """
    shape = case.shape
    workload = _workload(family, shape.source)
    scenario = with_ample_limits(
        Scenario(
            family=family.name,
            generator_version=generator_version(family),
            seed=None,
            parameters=dict(workload.parameters),
            records=_records(workload, shape.source),
            parallelism=shape.keyed,
            max_parallelism=MAX_PARALLELISM,
            source_parallelism=shape.source,
            sink_parallelism=shape.sink,
            channel_capacity=CHANNEL_CAPACITY,
            checkpoint_interval_ms=INTERVAL_MS,
            checkpoint_timeout_ms=1,
            tolerable_failures=ANY_NUMBER,
            retained=1,
            restart_delay_ms=RESTART_DELAY_MS,
            # The limits must suffice for any two faults.
            faults=(_LATEST, _LATEST),
            schedule=case.schedule,
            step_budget=1,
        )
    )
    if case.schedule.kind != "fair":
        scenario = replace(scenario, schedule=replace(scenario.schedule, horizon=HORIZON))
    return replace(scenario, faults=())


_LATEST: Final = Fault("delay_message", "notified", delay=DELAY)


def with_faults(base: Scenario, *faults: Fault) -> Scenario:
    """Return the scenario of a case with faults, in the order in which they fire."""
    return replace(base, faults=faults)


def _workload(family: Family, splits: int) -> Workload:
    """Return the first workload with enough records in enough splits, and with two values that differ."""
    wanted = MOST_RECORDS // splits
    for seed in range(MOST_TRIES):
        workload = workload_of(family, Random(seed))
        large = [records for records in workload.records.values() if len(records) >= wanted]
        if len(large) >= splits:
            values = {repr(value) for records in large[:splits] for _, value in records[:wanted]}
            if len(values) > 1:
                return workload
    raise FamilyError(
        f"family {family.name!r}: of {MOST_TRIES} workloads none has {splits} splits of {wanted} records:"
        " let generate() draw such small ones as well"
    )


def _records(workload: Workload, splits: int) -> dict[str, tuple[InputRecord, ...]]:
    wanted = MOST_RECORDS // splits
    large = [(split, records) for split, records in workload.records.items() if len(records) >= wanted]
    return {split: tuple(records[:wanted]) for split, records in sorted(large[:splits])}


def faults_at(passages: Sequence[Passage], struck: Sequence[tuple[Fault, Passage]] = ()) -> list[Fault]:
    """Return every fault that can fire at one of the passages, each at its first passage.

    Args:
        struck: the faults that fired before, each with its passage.
    """
    found: dict[tuple[FaultKind, Point, str, int], Fault] = {}
    stores_objects = not struck or any(fault.kind in _OF_OBJECT_STORES for fault, _ in struck)
    for passage in passages:
        for kind in _KINDS[passage.is_pass, passage.point]:
            if kind in _OF_OBJECT_STORES and not stores_objects:
                continue
            key = (kind, passage.point, passage.task, passage.checkpoint)
            if key not in found:
                found[key] = _fault(kind, passage, struck)
    return list(found.values())


def _fault(kind: FaultKind, passage: Passage, struck: Sequence[tuple[Fault, Passage]]) -> Fault:
    # A passage at which a fault fired does not count for later faults.
    hidden = [
        at
        for fault, at in struck
        if at[:4] == passage[:4]
        and at.number < passage.number
        and FAULTS[fault.kind].counts_passes == passage.is_pass
    ]
    return Fault(
        kind,
        passage.point,
        passage.task,
        passage.checkpoint,
        passage.number - len(hidden),
        delay=0 if FAULTS[kind].delay == "none" else DELAY,
    )


def _kinds(is_pass: bool, point: Point) -> tuple[FaultKind, ...]:
    rows = [FAULTS[kind] for kind in JOB_FAULTS]
    return tuple([row.kind for row in rows if row.counts_passes == is_pass and point in row.points])


_KINDS: Final = {
    (is_pass, point): _kinds(is_pass, point)
    for is_pass in (False, True)
    for kind in JOB_FAULTS
    for point in FAULTS[kind].points
}

ROLES: Final[tuple[Role, ...]] = ("source", "keyed", "sink")
