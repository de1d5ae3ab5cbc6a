"""Choosers pick which of the possible actions the simulated world takes next.

Possible actions are in two lists: slots (a source that may be polled, a channel that may be read) and pending
actions (messages in transit, writes, due timers). A chooser returns an index: below ``len(slots)`` a slot,
from there on a pending action; or NOTHING.

Under the uniform schedule the world draws an index blindly, and draws again if that slot is not ready. So
every ready action has the same chance, and the world need not list them all. After 16 misses it calls the
chooser, which lists them. The other choosers allow no blind draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from math import floor, inf
from random import Random
from typing import ClassVar, Final, Protocol

from onceproof.engine.task.outputs import Queue
from onceproof.harness.model.scenario import ACTION_CLASSES, Schedule
from onceproof.harness.systems.simulation.actions import SLOT_CLASSES, Action, Slot

NOTHING: Final = -1
NO_DRAWS: Final = range(0)
LOOK_STEPS: Final = 25
"""How often a schedule of priorities looks which classes wait."""
PATIENCE: Final = (4, 8, 16)
"""In how many looks one after the other a class is found waiting before it comes first: by seed."""


class Chooser(Protocol):
    """Picks the next action, after ``blind_draws`` have missed (see ``choice_of``)."""

    blind_draws: ClassVar[range]

    @property
    def draw(self) -> Callable[[], float]:
        """The function that returns a random number in [0, 1) for a blind draw."""
        ...

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        """Return an index into slots and pending, or NOTHING if no action is possible."""
        ...


class ListingChooser:
    """A chooser that allows no blind draws."""

    __slots__ = ()

    blind_draws: ClassVar[range] = NO_DRAWS

    def draw(self) -> float:
        """Raise NotImplementedError: there are no blind draws."""
        raise NotImplementedError


class FairChooser(ListingChooser):
    """Round robin: alternates between the next ready slot in turn and the oldest pending action."""

    __slots__ = ("_cursor", "_prefers_pending")

    def __init__(self) -> None:
        self._cursor = 0
        self._prefers_pending = False

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        self._prefers_pending = not self._prefers_pending
        if pending and self._prefers_pending:
            return len(slots)
        count = len(slots)
        cursor = self._cursor
        for offset in range(count):
            index = cursor + offset
            if index >= count:
                index %= count
            slot = slots[index]
            if slot.queue and slot.is_ready():
                self._cursor = index + 1
                return index
        return count if pending else NOTHING


class UniformChooser:
    """All possible actions are equally likely."""

    __slots__ = ("draw",)

    blind_draws: ClassVar[range] = range(16)

    def __init__(self, seed: int) -> None:
        self.draw: Callable[[], float] = Random(seed).random

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        ready = possible(slots, pending)
        return ready[floor(self.draw() * len(ready))] if ready else NOTHING


class PriorityChooser(ListingChooser):
    """Picks an action of the class with the highest priority: at random by the schedule's seed, or in turn.

    Seed 0 means in turn, like FairChooser. So a shrunk schedule is described by its priorities alone, such as
    "store: -1". Under any other, a class that could act for long, and did not, comes first until a change:
    while checkpoints follow each other in front of sources that never read, little is found.
    """

    __slots__ = (
        "_changes",
        "_chosen",
        "_cursor",
        "_highest_of_slots",
        "_in_turn",
        "_next_look",
        "_patience",
        "_prefers_pending",
        "_priorities",
        "_queues",
        "_random",
        "_slots",
        "_waits",
    )

    def __init__(self, schedule: Schedule) -> None:
        self._random = Random(schedule.seed).random
        self._in_turn = schedule.seed == 0
        self._cursor = 0
        self._prefers_pending = False
        self._priorities = [schedule.priorities.get(name, 0) for name in ACTION_CLASSES]
        self._highest_of_slots = self._priority_of_slots()
        self._changes = sorted(schedule.changes)
        self._slots: Sequence[Slot] = ()
        self._queues: list[Queue | list[None]] = []
        """Those of ``_slots``, a list that the world replaces and never changes."""
        self._chosen: set[int] = set()
        """The classes that have acted since the last look."""
        self._waits = [0] * len(ACTION_CLASSES)
        """In how many looks each class was found waiting."""
        self._next_look = LOOK_STEPS
        self._patience = PATIENCE[schedule.seed % len(PATIENCE)]

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        """Return the index of an action with the highest priority.

        To list all that is possible, as ``possible`` does, made choices a tenth of a run. Here no slot is
        asked whether it is ready whose queue is empty, or whose class comes behind a pending action: half
        the time.
        """
        if self._changes and self._changes[0][0] <= step:
            self._change_priorities(step)
        if step >= self._next_look and not self._in_turn:
            self._raise_starved(slots, pending, step)
        if slots is not self._slots:
            self._slots = slots
            self._queues = [slot.queue for slot in slots]
        priorities = self._priorities
        count = len(slots)
        best: list[int] = []
        ranks = [priorities[action.class_index] for action in pending]
        highest: float = max(ranks) if ranks else -inf
        if highest <= self._highest_of_slots:
            for index in compress(range(count), self._queues):
                slot = slots[index]
                priority = priorities[slot.class_index]
                if priority >= highest and slot.is_ready():
                    if priority > highest:
                        highest = priority
                        best = []
                    best.append(index)
        if highest in ranks:
            best += [index for index, rank in enumerate(ranks, count) if rank == highest]
        if not best:
            return NOTHING
        if self._in_turn:
            return self._next_in_turn(best, count)
        index = best[floor(self._random() * len(best))]
        action = slots[index] if index < count else pending[index - count]
        self._chosen.add(action.class_index)
        return index

    def _raise_starved(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> None:
        """Put a class first that has waited for long."""
        self._next_look = step + LOOK_STEPS
        able = {slot.class_index for slot in slots if slot.queue and slot.is_ready()}
        able.update(action.class_index for action in pending)
        able -= self._chosen
        self._chosen.clear()
        self._waits = waits = [count + 1 if index in able else 0 for index, count in enumerate(self._waits)]
        most = max(waits)
        if most >= self._patience:
            self._priorities[waits.index(most)] = max(self._priorities) + 1
            self._highest_of_slots = self._priority_of_slots()

    def _change_priorities(self, step: int) -> None:
        """Apply the changes that are due."""
        while self._changes and self._changes[0][0] <= step:
            _, name, priority = self._changes.pop(0)
            self._priorities[ACTION_CLASSES.index(name)] = priority
        self._highest_of_slots = self._priority_of_slots()

    def _priority_of_slots(self) -> int:
        return max(self._priorities[index] for index in SLOT_CLASSES)

    def _next_in_turn(self, best: list[int], count: int) -> int:
        self._prefers_pending = not self._prefers_pending
        if best[-1] >= count and (self._prefers_pending or best[0] >= count):
            return next(index for index in best if index >= count)
        ready = [index for index in best if index < count]
        chosen = next((index for index in ready if index >= self._cursor), ready[0])
        self._cursor = chosen + 1
        return chosen


class PreemptingChooser(ListingChooser):
    """Picks like FairChooser, but at the listed steps picks the named action if it is possible.

    FairChooser chooses at every step, preempted or not, just as in RecordingChooser. So a recorded schedule
    replays identically.
    """

    __slots__ = ("_fair", "_preemptions")

    def __init__(self, schedule: Schedule) -> None:
        self._fair = FairChooser()
        self._preemptions = dict(schedule.preemptions)

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        fair = self._fair.choose(slots, pending, step)
        label = self._preemptions.get(step)
        if label is not None:
            count = len(slots)
            for index in possible(slots, pending):
                action = slots[index] if index < count else pending[index - count]
                # The label is compared first, because name_of is slow and needed at few steps only.
                if label.startswith(action.label) and name_of(index, slots, pending) == label:
                    return index
        return fair


class RecordingChooser(ListingChooser):
    """Picks like another chooser, and records in ``preemptions`` where FairChooser would pick otherwise."""

    __slots__ = ("_chooser", "_fair", "preemptions")

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser
        self._fair = FairChooser()
        self.preemptions: list[tuple[int, str]] = []

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        choice = choice_of(self._chooser, slots, pending, step)
        if choice != self._fair.choose(slots, pending, step) and choice != NOTHING:
            self.preemptions.append((step, name_of(choice, slots, pending)))
        return choice


def choice_of(chooser: Chooser, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
    """Return the index of the next action: the first blind draw that hits, else the chooser's choice."""
    count = len(slots)
    total = count + len(pending)
    for _ in chooser.blind_draws if total else NO_DRAWS:
        choice = floor(chooser.draw() * total)
        # Most misses are empty channels: testing for that here saves the call.
        if choice >= count or (slots[choice].queue and slots[choice].is_ready()):
            return choice
    return chooser.choose(slots, pending, step)


def name_of(index: int, slots: Sequence[Slot], pending: Sequence[Action]) -> str:
    """Return the label of an action. Later pending actions with the same label get " #2", " #3" and so on."""
    if index < len(slots):
        return slots[index].label
    place = index - len(slots)
    label = pending[place].label
    earlier = sum(1 for action in pending[:place] if action.label == label)
    return f"{label} #{earlier + 1}" if earlier else label


def possible(slots: Sequence[Slot], pending: Sequence[Action]) -> list[int]:
    """Return the indexes of all possible actions, slots first."""
    ready = []
    for index, slot in enumerate(slots):
        if slot.queue and slot.is_ready():
            ready.append(index)
    count = len(slots)
    ready.extend(range(count, count + len(pending)))
    return ready


def chooser_of(schedule: Schedule) -> Chooser:
    """Return a new chooser for a schedule."""
    if schedule.kind == "uniform":
        return UniformChooser(schedule.seed)
    if schedule.kind == "priority":
        return PriorityChooser(schedule)
    if schedule.kind == "preemptions":
        return PreemptingChooser(schedule)
    return FairChooser()
