"""Mutations of a decoded scenario: small changes of its faults, settings, input and schedule.

The rules this module lives by:

- A mutated scenario is valid, and a sound engine passes it: what a family's oracle does not allow for never
  comes in, and its limits are at least those of the generator.
- What is added comes from a scenario that was drawn for the same family, so it fits the family.
- Input is cut, or exchanged whole together with the parameters. Records of two inputs are never mixed: only
  the family knows what its splits have in common.
- A mutated scenario has no seed: no seed gives it again. Its JSON is all of it.
- All choices are those of the ``Chance``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import HIGHEST_PARALLELISM
from onceproof.harness.generation.generator import checkpoint_steps_of, may_expire
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Family, tasks_with
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, ENDS, Fault, Operation, Scenario
from onceproof.harness.model.step_limits import (
    allowed_step_budget,
    ample_horizon,
    ample_step_budget,
    with_ample_limits,
)

MOST_FAULTS: Final = 8
"""A scenario that has as many gets no more; one of a chain of restarts may have had more."""
PATIENCE: Final = 4
"""How many times the steps of a checkpoint its short timeout must be, at least."""
ANY_NUMBER: Final = 1_000_000
_OF_NO_CHECKPOINT: Final[frozenset[Point]] = frozenset(
    {"committing", "aborted", "restoring", "restored", "element", "end_of_data"}
)

Change: TypeAlias = Callable[[Scenario, Scenario, Chance], Scenario]
"""Of a scenario, with a drawn one of the same family."""


def mutated(family: Family, scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """Return the scenario with one to three changes; ``drawn`` is another one, of which parts are taken."""
    changed = scenario
    for _ in range(chance.weighted(((1, 3), (2, 2), (3, 1)))):
        changed = chance.weighted(_CHANGES)(changed, drawn, chance)
    return _with_sound_limits(
        family, replace(changed, seed=None), max(scenario.step_budget, drawn.step_budget)
    )


def _timed_otherwise(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A fault strikes at another passage of its point, some steps earlier or later."""

    def change(fault: Fault) -> Fault:
        which = chance.integer(0, 2)
        if which == 0:
            return replace(fault, occurrence=max(1, fault.occurrence + _step(chance, fault.occurrence)))
        if which == 1:
            return replace(fault, after=max(0, fault.after + _step(chance, fault.after + 2)))
        return replace(fault, checkpoint=max(0, fault.checkpoint + _step(chance, 2)))

    return _with_one_changed(scenario, chance, change)


def _moved(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A fault strikes at another point at which its kind makes sense."""

    def change(fault: Fault) -> Fault:
        point = chance.choice(FAULTS[fault.kind].points)
        checkpoint = 0 if point in _OF_NO_CHECKPOINT else fault.checkpoint
        # What was counted at one point says nothing at another; subtasks do not pass the job master's points.
        occurrence = chance.integer(1, 4)
        return replace(fault, point=point, task=ANY_TASK, checkpoint=checkpoint, occurrence=occurrence)

    return _with_one_changed(scenario, chance, change)


def _of_another_kind(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A fault becomes one of another kind that the drawn scenario has; its own where none fits there."""

    def change(fault: Fault) -> Fault:
        row = FAULTS[fault.kind]
        fitting = [
            each
            for each in drawn.faults
            if FAULTS[each.kind].is_kill == row.is_kill and fault.point in FAULTS[each.kind].points
        ]
        if not fitting:
            return fault
        other = _bounded(chance.choice(fitting), scenario)
        return replace(other, point=fault.point, task=fault.task, checkpoint=fault.checkpoint)

    return _with_one_changed(scenario, chance, change)


def _with_more_faults(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A fault of the drawn scenario comes in."""
    if not drawn.faults or len(scenario.faults) >= MOST_FAULTS:
        return scenario
    return replace(scenario, faults=(*scenario.faults, _bounded(chance.choice(drawn.faults), scenario)))


def _with_fewer_faults(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A fault goes."""
    if len(scenario.faults) < 2:
        return scenario
    place = chance.integer(0, len(scenario.faults) - 1)
    return replace(scenario, faults=scenario.faults[:place] + scenario.faults[place + 1 :])


def _again_later(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A fault strikes once more, at the next checkpoint or the next passage."""
    if not scenario.faults or len(scenario.faults) >= MOST_FAULTS:
        return scenario
    fault = chance.choice(scenario.faults)
    again = replace(fault, checkpoint=fault.checkpoint + 1) if fault.checkpoint else fault
    return replace(scenario, faults=(*scenario.faults, again))


def _rescaled_otherwise(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A kill is followed by another parallelism, or by none."""

    def change(fault: Fault) -> Fault:
        if not FAULTS[fault.kind].is_kill:
            return fault
        return replace(fault, rescale_to=chance.integer(0, _most_parallelism(scenario)))

    return _with_one_changed(scenario, chance, change)


def _of_another_size(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """The job begins with another parallelism."""
    return replace(scenario, parallelism=chance.integer(1, _most_parallelism(scenario)))


def _checkpointed_otherwise(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """Interval, mode or what is retained are those of the drawn scenario."""
    which = chance.integer(0, 2)
    if which == 0:
        return replace(scenario, checkpoint_interval_ms=drawn.checkpoint_interval_ms)
    if which == 1:
        # Barriers of concurrent checkpoints must leave room for records.
        room = max(scenario.channel_capacity, drawn.checkpoint_mode.max_concurrent)
        return replace(scenario, mode=drawn.mode, channel_capacity=room)
    return replace(scenario, retained=drawn.retained, restart_delay_ms=drawn.restart_delay_ms)


def _with_other_input(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """The job reads the input of the drawn scenario."""
    most = scenario.max_parallelism
    if drawn.source_parallelism > most:
        return scenario
    return replace(
        scenario,
        parameters=drawn.parameters,
        records=drawn.records,
        source_parallelism=drawn.source_parallelism,
    )


def _with_less_input(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """A split ends earlier."""
    split = chance.choice(list(scenario.records))
    records = scenario.records[split]
    kept = records[: chance.integer(len(records) // 2, len(records))]
    return replace(scenario, records={**scenario.records, split: kept})


def _scheduled_otherwise(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """The schedule is that of the drawn scenario."""
    return replace(scenario, schedule=drawn.schedule)


def _asked_otherwise(scenario: Scenario, drawn: Scenario, chance: Chance) -> Scenario:
    """Savepoints and stops are those of the drawn scenario."""
    most = scenario.max_parallelism
    asked = [replace(each, parallelism=min(each.parallelism, most)) for each in drawn.asked]
    return replace(scenario, operations=tuple(asked) or UNSET)


_CHANGES: Final[tuple[tuple[Change, int], ...]] = (
    (_timed_otherwise, 5),
    (_moved, 3),
    (_of_another_kind, 2),
    (_with_more_faults, 4),
    (_with_fewer_faults, 1),
    (_again_later, 2),
    (_rescaled_otherwise, 2),
    (_of_another_size, 1),
    (_checkpointed_otherwise, 2),
    (_with_other_input, 2),
    (_with_less_input, 1),
    (_scheduled_otherwise, 3),
    (_asked_otherwise, 1),
)


def _with_one_changed(scenario: Scenario, chance: Chance, change: Callable[[Fault], Fault]) -> Scenario:
    if not scenario.faults:
        return scenario
    faults = list(scenario.faults)
    place = chance.integer(0, len(faults) - 1)
    faults[place] = change(faults[place])
    return replace(scenario, faults=tuple(faults))


def _bounded(fault: Fault, scenario: Scenario) -> Fault:
    return replace(fault, rescale_to=min(fault.rescale_to, scenario.max_parallelism))


def _step(chance: Chance, size: int) -> int:
    """Return a whole number other than 0, mostly near it, and at most ``size`` away where that is more."""
    far = chance.weighted(((1, 3), (max(1, size), 1)))
    step = chance.integer(1, far)
    return step if chance.chance(0.5) else -step


def _most_parallelism(scenario: Scenario) -> int:
    return min(HIGHEST_PARALLELISM, scenario.max_parallelism)


def _is_stop(operation: Operation) -> bool:
    return operation.kind in ENDS


def _with_sound_limits(family: Family, scenario: Scenario, budget: int) -> Scenario:
    """Return a scenario with limits that a sound engine does not meet, or may meet and live on.

    :param budget: the step budget that scenarios of this size had
    """
    expires = may_expire(family)
    if expires:
        scenario = replace(scenario, tolerable_failures=ANY_NUMBER)
    may_hurry = scenario.tolerable_failures and not (
        scenario.is_endless or any(map(_is_stop, scenario.asked))
    )
    if may_hurry:
        vertices = tasks_with(family, scenario.parameters)
        steps = checkpoint_steps_of(vertices, scenario.parallelisms(scenario.highest_parallelism))
        least = PATIENCE * scenario.checkpoint_mode.max_concurrent * steps + 20
        schedule = scenario.schedule
        if schedule.kind != "fair":
            schedule = replace(schedule, horizon=ample_horizon(scenario))
        timeout = max(scenario.checkpoint_timeout_ms, least)
        scenario = replace(scenario, schedule=schedule, checkpoint_timeout_ms=timeout)
    else:
        scenario = with_ample_limits(scenario)
    ample = ample_step_budget(scenario) + expires * scenario.checkpoint_timeout_ms
    allowed = allowed_step_budget(max(budget, ample), scenario.record_count())
    return replace(scenario, step_budget=allowed)
