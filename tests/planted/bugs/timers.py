"""Mutants of timers and event time: timers fire twice, never, or too early.

A timer is both keyed state and an entry of a queue ordered by time. The two must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onceproof.engine.elements import Watermark
from onceproof.engine.key_groups import key_group_of
from onceproof.engine.state import snapshot as snapshots
from onceproof.engine.state.key_blocks import KeySorter, Run
from onceproof.engine.state.timers import TimerQueue
from onceproof.engine.types import Types
from onceproof.engine.watermarks.valve import NOTHING, TimeElement, WatermarkValve
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="timers-fire-twice",
    breaks="exactly_once",
    summary="a timer that is registered again for its key and time is another timer",
)
def timers_fire_twice(reached: Reached) -> Iterator[None]:
    """A function that registers a timer with each record is called once for each record."""
    register, pop_due = TimerQueue.register, TimerQueue.pop_due
    again: list[tuple[TimerQueue, tuple[Any, Any]]] = []

    def registered(self: TimerQueue, key: Any, timer: Any) -> None:
        if (key, timer) in self._table:
            again.append((self, (key, timer)))
        register(self, key, timer)

    def popped(self: TimerQueue, limit: int) -> tuple[Any, Any] | None:
        due = pop_due(self, limit)
        if due is not None and (self, due) in again:
            reached()
            again.remove((self, due))
            register(self, *due)
        return due

    with replaced(TimerQueue, "register", registered), replaced(TimerQueue, "pop_due", popped):
        yield


@mutant(
    id="fired-timers-stay",
    breaks="exactly_once",
    summary="a fired timer is removed from the queue, but not from the state",
)
def fired_timers_stay(reached: Reached) -> Iterator[None]:
    """It fires again after each restore."""
    sound = TimerQueue.pop_due

    def forgotten(self: TimerQueue, limit: int) -> tuple[Any, Any] | None:
        due = sound(self, limit)
        if due is not None:
            reached()
            self._table[due] = True
        return due

    with replaced(TimerQueue, "pop_due", forgotten):
        yield


@mutant(
    id="restored-timers-are-not-queued",
    breaks="exactly_once",
    summary="timers are restored as state, but not entered into the queue",
)
def restored_timers_are_not_queued(reached: Reached) -> Iterator[None]:
    """They never fire, and registering them again has no effect, because the state already has them."""
    sound = TimerQueue.__init__

    def empty(self: TimerQueue, table: Any, has_namespaces: bool) -> None:
        sound(self, table, has_namespaces)
        if self._heap:
            reached()
            self._heap.clear()

    with replaced(TimerQueue, "__init__", empty):
        yield


@mutant(
    id="timers-under-the-key-group-of-their-time",
    breaks="exactly_once",
    summary="the snapshot sorts timers into key groups by their timestamp instead of their key",
)
def timers_under_the_key_group_of_their_time(reached: Reached) -> Iterator[None]:
    """After a rescale a subtask restores timers of keys that it does not own."""
    sound, sound_runs = snapshots.blocks_of, KeySorter.next_runs
    times: list[int] = []

    def noting_times(entries: dict[Any, Any], namespaced: bool, most: int) -> Iterator[Any]:
        for block in sound(entries, namespaced, most):
            namespaces: Any = block[1]
            times[:] = namespaces if namespaced and type(namespaces[0]) is int else ()
            yield block

    def by_time(self: KeySorter, identities: list[Any]) -> list[Run]:
        if not times:
            return sound_runs(self, identities)
        reached()
        groups = [key_group_of(time, self._max_parallelism, Types.LONG()) for time in times]
        return self._runs(identities, groups)

    with replaced(snapshots, "blocks_of", noting_times), replaced(KeySorter, "next_runs", by_time):
        yield


@mutant(
    id="the-furthest-channel-leads",
    breaks="exactly_once",
    summary="event time is that of the channel furthest ahead instead of the one furthest behind",
)
def the_furthest_channel_leads(reached: Reached) -> Iterator[None]:
    """Windows fire while some of their records are still in other channels."""

    def highest(self: WatermarkValve) -> Sequence[TimeElement]:
        counting = [mark for mark, counts in zip(self._watermarks, self._counts, strict=True) if counts]
        if not counting or max(counting) <= self._output:
            return NOTHING
        if min(counting) < max(counting):
            reached()
        self._output = max(counting)
        return (Watermark(self._output),)

    with replaced(WatermarkValve, "_lowest", highest):
        yield
