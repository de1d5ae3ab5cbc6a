"""What is under way in the simulated world: actions that are possible now, and those that will be later.

The world has one clock, which is changed in place. Objects that need the time hold the clock instead of the
world. So no reference cycle arises, and a finished run is freed without the garbage collector.

Rules:

- ``pending`` holds what the schedule may choose now. What is due later waits in a heap, ordered by the time
  at which it is due, then by the order in which it was added.
- An action without a label is a fault. It strikes when it is due and is never chosen by the schedule.
- The loop of the world looks up from its work only when the clock reaches ``attention``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onceproof.harness.systems.simulation.actions import CLASS_INDEX, Action


class Clock:
    """``now`` is the time in milliseconds; ``step`` counts the steps, including the current one.

    ``ahead_ms`` is how far the wall clock is ahead of ``now``. A fault that sets the wall clock changes it,
    and nothing else: ``now`` never jumps back.

    A step takes 1 ms. ``now`` runs ahead of ``step`` when no action was possible and time jumped to a timer.
    """

    __slots__ = ("ahead_ms", "now", "step")

    def __init__(self) -> None:
        self.now = 0
        self.ahead_ms = 0
        self.step = 0

    def take_back(self) -> None:
        """Undo the beginning of a step in which no action was possible."""
        self.now -= 1
        self.step -= 1


_STORE = CLASS_INDEX["store"]
_METADATA = CLASS_INDEX["metadata"]


class Agenda:
    """The actions of one run that have begun and have not been performed."""

    __slots__ = ("_clock", "_later", "_sequence", "attention", "pending", "slots_are_stale")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._later: list[tuple[int, int, Action]] = []
        self._sequence = 0
        self.pending: list[Action] = []
        self.attention = 0
        """The time in milliseconds until which the world's loop need not ask for anything but actions."""
        self.slots_are_stale = False

    def add(self, class_index: int, label: str, perform: Callable[[Any], None], argument: Any) -> None:
        """Make an action possible from now on."""
        self.pending.append(Action(class_index, label, perform, argument, self._clock.step))

    def add_later(
        self, due: int, class_index: int, label: str, perform: Callable[[Any], None], argument: Any
    ) -> None:
        """Make an action possible once the clock shows ``due`` milliseconds."""
        self._sequence += 1
        action = Action(class_index, label, perform, argument, self._clock.step)
        heapq.heappush(self._later, (due, self._sequence, action))
        if due < self.attention:
            self.attention = due

    def interrupt(self) -> None:
        """Have the world's loop look up before its next action."""
        self.attention = 0

    def renew_slots(self) -> None:
        """Have the slots collected anew before the next choice, because tasks have come or gone."""
        self.slots_are_stale = True
        self.attention = 0

    @property
    def next_due(self) -> int | None:
        """When the next of the later actions is due; None where there is none."""
        return self._later[0][0] if self._later else None

    def take_due(self) -> Iterator[Action]:
        """Make possible what is due, and yield the faults among it, which strike at once."""
        while self._later and self._later[0][0] <= self._clock.now:
            action = heapq.heappop(self._later)[2]
            if action.label:
                self.pending.append(action)
            else:
                yield action

    def forget(self, is_gone: Callable[[Action], bool]) -> None:
        """Drop the actions for which ``is_gone`` returns True."""
        self.pending[:] = [action for action in self.pending if not is_gone(action)]
        self._later = [entry for entry in self._later if not is_gone(entry[2])]
        heapq.heapify(self._later)

    def writes_under_way(self) -> list[Action]:
        """Return the writes that have begun and not reached the storage."""
        return [action for action in self.pending if action.class_index in (_STORE, _METADATA)]

    def is_under_way(self, classes: Sequence[int]) -> bool:
        """Return whether an action of one of these classes is possible now, or will be."""
        later = [action.class_index for _, _, action in self._later]
        return not set(classes).isdisjoint([action.class_index for action in self.pending] + later)

    def clear(self) -> None:
        """Drop everything; the run is over."""
        self.pending.clear()
        self._later.clear()
