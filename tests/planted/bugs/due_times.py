"""Mutants of what is due: event time of idle inputs, timers of one moment, wake-ups, purged windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onceproof.engine.elements import IDLE, Record
from onceproof.engine.operators.bundle import BundlingOperator
from onceproof.engine.operators.firing import TimerFiring
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.state.timers import TimerQueue
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.watermarks.valve import TimeElement, WatermarkValve
from onceproof.engine.windows.merging import MergingWindowSet
from onceproof.engine.windows.triggers import TriggerResult
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="last-idle-channel-decides-the-time",
    origin="FLINK-7728",
    breaks="exactly_once",
    summary="when all channels have turned idle, event time stays where the last of them had it",
)
def last_idle_channel_decides_the_time(reached: Reached) -> Iterator[None]:
    """It depends on the order in which they turn idle which windows are closed."""
    turned_idle = WatermarkValve._turned_idle

    def not_flushing(self: WatermarkValve, channel: int) -> Sequence[TimeElement]:
        before = self._output
        elements = turned_idle(self, channel)
        if len(elements) < 2:
            return elements
        reached()
        self._output = before
        return (IDLE,)

    with replaced(WatermarkValve, "_turned_idle", not_flushing):
        yield


@mutant(
    id="timers-of-one-moment-cannot-be-deleted",
    origin="beam#15123",
    breaks="exactly_once",
    summary="a timer that is due fires although one that fired before it has deleted it",
)
def timers_of_one_moment_cannot_be_deleted(reached: Reached) -> Iterator[None]:
    """The timers of a bundle are read once, when it begins."""
    fire, delete = TimerFiring.fire, TimerQueue.delete
    due: dict[int, set[Any]] = {}

    def firing(self: TimerFiring, queue: TimerQueue, limit: int, domain: TimeDomain) -> list[Record]:
        table = queue._table
        due[id(queue)] = {entry for time, _, entry in queue._heap if time <= limit and entry in table}
        try:
            return fire(self, queue, limit, domain)
        finally:
            del due[id(queue)]

    def unless_due(self: TimerQueue, key: Any, timer: Any) -> None:
        if (key, timer) in due.get(id(self), ()) and (key, timer) in self._table:
            reached()
            return
        delete(self, key, timer)

    with replaced(TimerFiring, "fire", firing), replaced(TimerQueue, "delete", unless_due):
        yield


@mutant(
    id="waiting-values-ask-for-no-wake-up",
    origin="bytewax#507",
    breaks="liveness",
    summary="an operator that holds values back until a time does not ask to be woken then",
)
def waiting_values_ask_for_no_wake_up(reached: Reached) -> Iterator[None]:
    """What it holds waits for the next record."""
    process = BundlingOperator.process_batch

    def asleep(self: BundlingOperator, records: list[Record], input_index: int) -> list[Record]:
        if not self.uses_time:
            return process(self, records, input_index)
        wake_at, was_due = self._wake_at, self._due_ms
        self._wake_at = lambda due_ms: None
        try:
            return process(self, records, input_index)
        finally:
            self._wake_at = wake_at
            if self._due_ms not in (None, was_due):
                reached()

    with replaced(BundlingOperator, "process_batch", asleep):
        yield


@mutant(
    id="purged-window-leaves-its-session",
    origin="FLINK-4994",
    breaks="exactly_once",
    summary="purging a window clears its trigger and its place among the windows that have merged, too",
)
def purged_window_leaves_its_session(reached: Reached) -> Iterator[None]:
    """A later record of the session begins one of its own."""
    act, windows_of_key = WindowOperator._act, WindowOperator.windows_of_key
    retire = MergingWindowSet.retire
    current: dict[int, MergingWindowSet] = {}

    def remembered(self: WindowOperator) -> MergingWindowSet:
        found = current[id(self)] = windows_of_key(self)
        return found

    def purging(self: WindowOperator, result: TriggerResult, window: Any, results: list[Record]) -> None:
        act(self, result, window, results)
        if not result.is_purge():
            return
        reached()
        self._trigger.clear(window, self._context)
        if self._merging is not None:
            current[id(self)].retire(window)

    def retired_once(self: MergingWindowSet, window: Any) -> None:
        if self.state_window(window) is not None:
            retire(self, window)

    with (
        replaced(WindowOperator, "_act", purging),
        replaced(WindowOperator, "windows_of_key", remembered),
        replaced(MergingWindowSet, "retire", retired_once),
    ):
        yield
