"""Mutants of windows and of idle streams: what a window holds, when it ends, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.watermarks.combined import CombinedWatermark
from onceproof.engine.windows.assigners import AssignerContext, SlidingProcessingTimeWindows
from onceproof.engine.windows.evictors import DeltaEvictor, TimeEvictor, TimestampedValue
from onceproof.engine.windows.triggers import ContinuousEventTimeTrigger, TriggerResult, TriggerScope
from onceproof.engine.windows.windows import TimeWindow, Window
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="time-evictor-keeps-the-cutoff",
    breaks="exactly_once",
    summary="an evictor by time keeps records that are exactly its length older than the newest",
    families=("top_speed",),
)
def time_evictor_keeps_the_cutoff(reached: Reached) -> Iterator[None]:
    """It shows where two positions are exactly five seconds apart."""
    sound = TimeEvictor._evict

    def generous(self: TimeEvictor, elements: list[TimestampedValue], size: int) -> None:
        all_of_them = list(elements)
        sound(self, elements, size)
        newest = max((each.timestamp for each in all_of_them if each.timestamp is not None), default=0)
        kept = [
            each for each in all_of_them if each in elements or each.timestamp == newest - self.window_size_ms
        ]
        if len(kept) > len(elements):
            reached()
        elements[:] = kept

    with replaced(TimeEvictor, "_evict", generous):
        yield


@mutant(
    id="delta-evictor-keeps-the-threshold",
    breaks="exactly_once",
    summary="an evictor by difference keeps records that differ by exactly its threshold",
    families=("steady_batches",),
)
def delta_evictor_keeps_the_threshold(reached: Reached) -> Iterator[None]:
    """It shows where a measurement is exactly ten away from the newest one."""
    sound = DeltaEvictor._evict

    def generous(self: DeltaEvictor, elements: list[TimestampedValue], size: int) -> None:
        last = elements[-1].value
        if any(self.delta_function(each.value, last) == self.threshold for each in elements):
            reached()
            elements[:] = [
                each for each in elements if self.delta_function(each.value, last) <= self.threshold
            ]
        else:
            sound(self, elements, size)

    with replaced(DeltaEvictor, "_evict", generous):
        yield


@mutant(
    id="merged-window-ends-with-the-last-one",
    breaks="exactly_once",
    summary="windows that merge end where the later one ends, not where the longer one does",
    families=("visits",),
)
def merged_window_ends_with_the_last_one(reached: Reached) -> Iterator[None]:
    """It shows where a click with a short gap lies inside of the gap of an earlier one."""
    sound = TimeWindow.cover

    def short(self: TimeWindow, other: TimeWindow) -> TimeWindow:
        later = max(self, other, key=lambda window: window.start)
        covered = sound(self, other)
        if later.end < covered.end:
            reached()
            return TimeWindow(covered.start, later.end)
        return covered

    with replaced(TimeWindow, "cover", short):
        yield


@mutant(
    id="early-firing-at-the-end-is-the-last",
    breaks="exactly_once",
    summary="a window whose last record comes behind an early firing does not fire again at its end",
    families=("early_totals",),
)
def early_firing_at_the_end_is_the_last(reached: Reached) -> Iterator[None]:
    """It shows where the last early firing had not yet all records."""
    sound = ContinuousEventTimeTrigger.on_event_time

    def silent(
        self: ContinuousEventTimeTrigger, time: int, window: Window, ctx: TriggerScope
    ) -> TriggerResult:
        result = sound(self, time, window, ctx)
        is_end = time == window.max_timestamp()
        if is_end and result.is_fire() and ctx.get_current_watermark() < MAX_WATERMARK:
            reached()
            return TriggerResult.CONTINUE
        return result

    with replaced(ContinuousEventTimeTrigger, "on_event_time", silent):
        yield


@mutant(
    id="one-idle-split-idles-its-source",
    breaks="exactly_once",
    summary="a subtask counts as idle as soon as one of its splits is",
    families=("pausing_sensors",),
)
def one_idle_split_idles_its_source(reached: Reached) -> Iterator[None]:
    """Event time goes on without the splits that are active, and their readings are late."""
    sound = CombinedWatermark.combine

    def hasty(self: Any) -> bool:
        advanced = sound(self)
        if any(self._idle.values()) and not self.is_idle:
            reached()
            self.is_idle = True
        return advanced

    with replaced(CombinedWatermark, "combine", hasty):
        yield


@mutant(
    id="sliding-windows-leave-one-out",
    breaks="exactly_once",
    summary="a record at the exact start of a sliding window of processing time is not in that window",
    families=("clock_windows",),
)
def sliding_windows_leave_one_out(reached: Reached) -> Iterator[None]:
    """It shows where the clock is exactly at the start of a window."""
    sound = SlidingProcessingTimeWindows.assign_windows

    def careless(
        self: SlidingProcessingTimeWindows, element: Any, timestamp: int, context: AssignerContext
    ) -> Any:
        now = context.get_current_processing_time()
        windows = list(sound(self, element, timestamp, context))
        kept = [window for window in windows if window.start != now]
        if len(kept) < len(windows):
            reached()
        return kept

    with replaced(SlidingProcessingTimeWindows, "assign_windows", careless):
        yield


@mutant(
    id="late-records-open-their-window",
    breaks="exactly_once",
    summary="a record that is late for its window opens it again, and it fires at once",
    families=("window_sum",),
)
def late_records_open_their_window(reached: Reached) -> Iterator[None]:
    """The rows of a window still add up to its records, so only their number tells."""
    sound = WindowOperator.add

    def lenient(self: Any, value: Any, timestamp: int, windows: Any, results: list[Any]) -> bool:
        if sound(self, value, timestamp, windows, results):
            return True
        for window in windows:
            reached()
            namespace = self._to_data(window)
            self._contents.set_current_namespace(namespace)
            self._add_to(window, namespace, self.cleanup_ms(window), value, timestamp, results)
        return True

    with replaced(WindowOperator, "add", lenient):
        yield
