"""What is enumerated: the smallest jobs of a family, the schedules, and the faults that can strike a run.

The rules this module lives by:

- A fault is a kind at a protocol point of a task, for each checkpoint that passes there. It strikes at the
  first passage that is still to come: of the whole run, or of what is left of it when another fault has
  struck. So a second fault meets recovery, and the checkpoint that is taken again, as well as the first time.
- Only passages that a run makes are enumerated. A fault at a point that is not passed never strikes, and the
  run with it is step by step the run without: it is left out, and nothing is lost by it.
- Faults aim at two checkpoints, and a second one also at the one that takes the place of the second. An
  unfair schedule may go on to a third and a fourth; what could strike there could have struck before.
- A pair is two faults in the order in which they strike. Up to the first the run is the undisturbed one, up
  to the second that with the first alone; so the passages of that run are all at which a second one can
  strike.
- A message, or the report of a write, that is late comes after the restart that it was meant to miss.
- The fair schedule shows what needs no luck. Of the priority schedules each class of actions is first in one
  and last in another, for what needs somebody to be quick or slow for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from onceproof.harness.generation.generator import generator_version
from onceproof.harness.model.family import Family, FamilyError, Role, Workload
from onceproof.harness.model.faults import FAULTS, FaultKind, Point
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
"""Workloads that are drawn of a family until one is large enough."""

INTERVAL_MS: Final = 12
"""One checkpoint while there is input, and one at its end."""
RESTART_DELAY_MS: Final = 2
DELAY: Final = 40
"""Steps: longer than it takes to restart and to begin the next checkpoint."""
HORIZON: Final = 200
"""Steps, three times as many as an undisturbed run takes; a schedule that starves the sources ends here."""
MAX_PARALLELISM: Final = 4
CHANNEL_CAPACITY: Final = 2
ANY_NUMBER: Final = 1_000_000


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
    """A place in a run at which a fault can strike; ``number`` counts the passages that look the same."""

    is_kill: bool
    """Whether a kill can; otherwise what is wrong with a message, a write or a commit."""
    point: Point
    task: str
    checkpoint: int
    number: int


class Case(msgspec.Struct, frozen=True):
    """One job under one schedule."""

    shape: Shape
    schedule: Schedule


def cases() -> list[Case]:
    """Return all jobs under all schedules, in the order in which they are numbered."""
    return [Case(shape, schedule) for shape in SHAPES for schedule in schedules()]


def schedules() -> list[Schedule]:
    """Return the fair schedule and the priority schedules."""
    return [Schedule(), *[Schedule("priority", 0, order) for order in _orders()]]


def _orders() -> Iterator[dict[ActionClass, int]]:
    """Yield the classes turned by one place each time, and then some of the same backwards."""
    count = len(ACTION_CLASSES)
    for number in range(PRIORITY_SCHEDULES):
        turn = number % count
        order = ACTION_CLASSES[turn:] + ACTION_CLASSES[:turn]
        if number >= count:
            order = order[::-1]
        yield {name: rank for rank, name in enumerate(order)}


def base_scenario(family: Family, case: Case) -> Scenario:
    """Return the run of a case that nothing disturbs. FamilyError where the family has no input that fits."""
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
            # The limits have to do for two faults, whichever they are.
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
    """Return the run of a case with faults in the order in which they strike."""
    return replace(base, faults=faults)


def _workload(family: Family, splits: int) -> Workload:
    """Return the first workload with enough records in enough splits, and with two values that differ."""
    wanted = MOST_RECORDS // splits
    for seed in range(MOST_TRIES):
        workload = family.generate(Random(seed))
        large = [records for records in workload.records.values() if len(records) >= wanted]
        if len(large) >= splits:
            values = {repr(value) for records in large[:splits] for _, value in records[:wanted]}
            if len(values) > 1:
                return workload
    raise FamilyError(
        f"family {family.name!r}: of {MOST_TRIES} workloads none has {splits} splits of {wanted} records:"
        " let generate() draw such small ones, too"
    )


def _records(workload: Workload, splits: int) -> dict[str, tuple[InputRecord, ...]]:
    wanted = MOST_RECORDS // splits
    large = [(split, records) for split, records in workload.records.items() if len(records) >= wanted]
    return {split: tuple(records[:wanted]) for split, records in sorted(large[:splits])}


def faults_at(passages: Sequence[Passage], struck: Sequence[tuple[Fault, Passage]] = ()) -> list[Fault]:
    """Return every fault that can strike at one of the passages, each at the first that it fits.

    ``struck`` are those that have struck before, with the passage of each.
    """
    found: dict[tuple[FaultKind, Point, str, int], Fault] = {}
    for passage in passages:
        for kind in _KINDS[passage.is_kill, passage.point]:
            key = (kind, passage.point, passage.task, passage.checkpoint)
            if key not in found:
                found[key] = _fault(kind, passage, struck)
    return list(found.values())


def _fault(kind: FaultKind, passage: Passage, struck: Sequence[tuple[Fault, Passage]]) -> Fault:
    # Who strikes at a passage hides it from those behind him.
    hidden = [
        at
        for fault, at in struck
        if at[:4] == passage[:4]
        and at.number < passage.number
        and FAULTS[fault.kind].is_kill == passage.is_kill
    ]
    return Fault(
        kind,
        passage.point,
        passage.task,
        passage.checkpoint,
        passage.number - len(hidden),
        delay=0 if FAULTS[kind].delay == "none" else DELAY,
    )


def _kinds(is_kill: bool, point: Point) -> tuple[FaultKind, ...]:
    return tuple([row.kind for row in FAULTS.values() if row.is_kill == is_kill and point in row.points])


_KINDS: Final = {
    (is_kill, point): _kinds(is_kill, point)
    for is_kill in (False, True)
    for row in FAULTS.values()
    for point in row.points
}

ROLES: Final[tuple[Role, ...]] = ("source", "keyed", "sink")
