"""Faults of what the engine has no hand in, for real processes: functions, inputs, consumers, folders.

The rules this module lives by:

- They are drawn behind the faults of a scenario, by a chance of their own that follows from its seed: a run
  in the simulation has the scenario without them. Only a system that can carry a kind out has it drawn.
- Drawing again gives the same: a scenario that has such a fault keeps it, and one without a seed was written
  or shrunk, and stays as it is.
- Nearly half of the scenarios have one. A process takes a second, so runs are small, and each kind, by each
  of its means, has to come in some fifty of them. The kinds have tickets of their own (`outside_weight`).
- What is taken away, or changed, matters to a job that comes back: so a kill follows.
- A topic of Kafka changes by a chance of its own, in place of the others: only few families have one. A job
  that reads none keeps its input.
"""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec.structs import replace

from onceproof.harness.generation.generator import unfit_kinds
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.chance import Chance, Lots, derived_seed
from onceproof.harness.model.family import KAFKA, S3, Family, options_of, tasks_with
from onceproof.harness.model.fault_kinds import TOPIC_CHANGES, FaultKind, Means, Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, Scenario

SHARE: Final = 0.45
"""The share of the scenarios that have such a fault."""

CHANGED_TOPICS: Final = 0.2
"""The share of the scenarios of a job with Kafka at its ends in which the topic of the input changes."""

_WAYS_TO_LEAVE: Final[tuple[tuple[Means, int], ...]] = tuple(
    # What only real processes have is not drawn in the simulation.
    [
        (each, 3 if each in ("fork", "chdir") else 1 + (not each))
        for each in ("", *FAULTS["function_leaves"].means)
    ]
)


def with_outside_faults(family: Family, scenario: Scenario, capabilities: frozenset[Capability]) -> Scenario:
    """Return the scenario with a fault drawn, for some scenarios of a system with real processes."""
    rows = [row for row in FAULTS.values() if row.outside_weight and row.needs in capabilities]
    kinds = {row.kind: row.outside_weight for row in rows}
    has_one = any(fault.kind in kinds for fault in scenario.faults)
    if scenario.seed is None or not kinds or has_one or Capability.SCHEDULES in capabilities:
        return scenario
    if "change_input" in kinds and _may_change_topic(family, scenario):
        changing = Chance(Random(derived_seed("changed topic", scenario.seed)))
        if changing.chance(CHANGED_TOPICS):
            # In front: each pass belongs to one fault, and later checkpoints may cover all that there is.
            return replace(scenario, faults=(*_changed_topic(family, changing, scenario), *scenario.faults))
    chance = Chance(Random(derived_seed("outside faults", scenario.seed)))
    if not chance.chance(SHARE):
        return scenario
    unfit = _unfit(family, scenario)
    kind = Lots(chance).first({each: weight for each, weight in kinds.items() if each not in unfit})
    drawn = _drawn(family, kind, chance, scenario)
    if FAULTS[kind].strikes == "input":
        # In front: each pass belongs to one fault, and later checkpoints may cover all that there is.
        return replace(scenario, faults=(*drawn, *scenario.faults))
    return replace(scenario, faults=(*scenario.faults, *drawn))


def _may_change_topic(family: Family, scenario: Scenario) -> bool:
    is_at_an_end = KAFKA in options_of(family).servers
    return is_at_an_end and not scenario.is_endless and "change_input" not in unfit_kinds(family)


def _changed_topic(family: Family, chance: Chance, scenario: Scenario) -> list[Fault]:
    means = chance.choice(TOPIC_CHANGES)
    # The first checkpoint covers the least: what it leaves has to be read.
    changes = Fault("change_input", "completed", means=means)
    if means == "recreated" and chance.chance(0.3):
        # The job lives on, and has to notice by itself. Rows that were deleted it may have fetched before.
        return [changes]
    return [changes, _kill_after_notice(family, chance, scenario)]


def _kill_after_notice(family: Family, chance: Chance, scenario: Scenario) -> Fault:
    """Return a kill as the tasks hear, one after the other, of the first checkpoint that is complete."""
    sizes = scenario.parallelisms()._asdict()
    roles = tasks_with(family, scenario.parameters).values()
    subtasks = sum(role if isinstance(role, int) else sizes[role] for role in roles)
    return _kill(chance, "notified", chance.integer(1, subtasks))


def _unfit(family: Family, scenario: Scenario) -> frozenset[FaultKind]:
    """Return the kinds that the job of a family cannot suffer."""
    servers = options_of(family).servers
    unfit: set[FaultKind] = {*unfit_kinds(family)}
    if KAFKA in servers or scenario.is_endless:
        unfit.add("change_input")
    if S3 in servers:
        unfit |= {kind for kind, row in FAULTS.items() if row.strikes in ("folder", "output")}
    return frozenset(unfit)


def _drawn(family: Family, kind: FaultKind, chance: Chance, scenario: Scenario) -> list[Fault]:
    records, sinks = scenario.record_count(), scenario.parallelisms().sink
    element = chance.integer(1, 1 + records)
    match FAULTS[kind].strikes:
        case "function":
            means = chance.weighted(_WAYS_TO_LEAVE)
            return [Fault(kind, "element", ANY_TASK, 0, element, means=means)]
        case "input":
            changed: Means = chance.choice(("", "replaced", "replaced"))
            # The first checkpoint covers the least: what it leaves has to be read.
            return [
                Fault(kind, "completed", means=changed),
                _kill_after_notice(family, chance, scenario),
            ]
        case "output":
            nth = chance.integer(1, 2 * sinks)
            # The pass at which the output is moved does not count for the kill.
            return [Fault(kind, "committed", ANY_TASK, 0, nth), _kill(chance, "committed", nth)]
        case "folder":
            return [Fault(kind, "completed", ANY_TASK, 0, chance.integer(1, 2))]
        case _:
            point = chance.choice(FAULTS[kind].points)
            nth = element if point == "element" else chance.integer(1, 2 * scenario.parallelism)
            return [Fault(kind, point, ANY_TASK, 0, nth)]


def _kill(chance: Chance, point: Point, nth: int) -> Fault:
    kind: FaultKind = "kill_process" if chance.chance(0.5) else "kill_all"
    return Fault(kind, point, ANY_TASK, 0, nth, chance.integer(0, 3))
