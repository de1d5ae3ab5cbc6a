"""The choice by priority, beside one that lists all that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from random import Random
from typing import Any

import pytest

from onceproof.harness.model.scenario import ACTION_CLASSES, Schedule
from onceproof.harness.systems.simulation import schedule
from onceproof.harness.systems.simulation.actions import SLOT_CLASSES, Action, Slot
from onceproof.harness.systems.simulation.schedule import (
    LOOK_STEPS,
    NOTHING,
    PATIENCE,
    chooser_of,
    possible,
)

STEPS = 400


class SlotInAnyState(Slot, eq=False):
    """A slot that is ready or not as the test says."""

    def is_ready(self) -> bool:
        return bool(self.capacity)


def a_slot(random: Random) -> Slot:
    """Return a slot whose ``capacity`` says whether it is ready; it knows no task."""
    unused: Any = None
    kind = random.choice(SLOT_CLASSES)
    ready = random.randrange(2)
    return SlotInAnyState(kind, "slot", unused, unused, [], 0, [False], [], ready)


def an_action(random: Random) -> Action:
    return Action(random.randrange(len(ACTION_CLASSES)), "action", print, None, 0)


def plain_choice(
    slots: Sequence[Slot], pending: Sequence[Action], priorities: dict[str, int], draw: Random
) -> int:
    """Return the choice of one of the highest priority among all that is possible."""
    ready = possible(slots, pending)
    if not ready:
        return NOTHING
    ranks = [priorities.get(ACTION_CLASSES[[*slots, *pending][index].class_index], 0) for index in ready]
    best = [index for index, rank in zip(ready, ranks, strict=True) if rank == max(ranks)]
    return best[floor(draw.random() * len(best))]


@pytest.mark.parametrize("seed", range(1, 9))
def test_choice_by_priority_is_that_among_all_possible_actions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "PATIENCE", (STEPS,))
    random = Random(seed)
    values = (-(2**63), 2**62) if seed == 1 else (-1, len(ACTION_CLASSES))
    priorities = {name: random.randint(*values) for name in ACTION_CLASSES if random.random() < 0.8}
    changes = tuple(
        sorted(
            (random.randrange(STEPS), random.choice(ACTION_CLASSES), random.randint(*values))
            for _ in range(4)
        )
    )
    chooser = chooser_of(Schedule("priority", seed, priorities, changes))
    draw = Random(seed)
    chosen = set()
    slots: list[Slot] = []
    for step in range(STEPS):
        if step % 50 == 0:
            # As the world does when tasks have come or gone.
            slots = [a_slot(random) for _ in range(random.randrange(8))]
        for slot in slots:
            slot.capacity = random.randrange(2)
            slot.queue[:] = [None] if random.random() < 0.5 else []  # type: ignore[index]
        pending = [an_action(random) for _ in range(random.choice((0, 0, 1, 2, 5)))]
        for due, name, priority in changes:
            if due == step:
                priorities[name] = priority
        expected = plain_choice(slots, pending, priorities, draw)
        assert chooser.choose(slots, pending, step) == expected
        chosen.add("nothing" if expected == NOTHING else "slot" if expected < len(slots) else "action")
    assert chosen == {"nothing", "slot", "action"}


@pytest.mark.parametrize("seed", [0, 7])
def test_a_class_that_waits_for_long_comes_first_unless_shrunk(seed: int) -> None:
    chooser = chooser_of(Schedule("priority", seed, {name: rank for rank, name in enumerate(ACTION_CLASSES)}))
    last, first = (Action(index, "action", print, None, 0) for index in (0, len(ACTION_CLASSES) - 1))
    chosen = [chooser.choose((), [last, first], step) for step in range(LOOK_STEPS * (PATIENCE[1] + 2))]
    waited = LOOK_STEPS * PATIENCE[1]
    assert chosen == ([1] * len(chosen) if seed == 0 else [1] * waited + [0] * (len(chosen) - waited))


def test_a_class_that_acts_now_and_then_does_not_come_first() -> None:
    chooser = chooser_of(Schedule("priority", 7, {name: rank for rank, name in enumerate(ACTION_CLASSES)}))
    last, first = (Action(index, "action", print, None, 0) for index in (0, len(ACTION_CLASSES) - 1))
    for step in range(LOOK_STEPS * PATIENCE[1] * 3):
        pending = [last] if step % LOOK_STEPS == 1 else [last, first]
        assert chooser.choose((), pending, step) == len(pending) - 1
