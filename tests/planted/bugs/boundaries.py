"""Mutants at boundaries: off by one where a window ends, where a timer is due, and where ids get more digits.

They change nothing but the one case, so only input that lies exactly there can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.runtime import recovery
from onceproof.engine.state.timers import TimerQueue, Timers
from onceproof.engine.windows.assigners import AssignerContext, _Sliding, _Tumbling
from onceproof.engine.windows.triggers import FIRE, EventTimeTrigger, TriggerResult, TriggerScope
from onceproof.engine.windows.windows import TimeWindow
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

WINDOWED: Final = ("percentiles", "sliding_word_count", "window_sum")
"""The families with windows of event time whose records are drawn where these end."""


@mutant(
    id="window-has-its-end",
    breaks="exactly_once",
    summary="a record at the end of a tumbling window is put into it instead of the next one",
)
def window_has_its_end(reached: Reached) -> Iterator[None]:
    """Only a record with exactly that timestamp tells."""
    sound = _Tumbling.assign_windows

    def inclusive(
        self: _Tumbling, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        (window,) = sound(self, element, timestamp, context)
        if self.is_event_time() and timestamp == window.start:
            reached()
            size = window.end - window.start
            return (TimeWindow(window.start - size, window.start),)
        return (window,)

    with replaced(_Tumbling, "assign_windows", inclusive):
        yield


@mutant(
    id="window-lacks-its-last-millisecond",
    breaks="exactly_once",
    summary="a record in the last millisecond of a tumbling window is put into the next one",
)
def window_lacks_its_last_millisecond(reached: Reached) -> Iterator[None]:
    """Only a record with exactly that timestamp tells."""
    sound = _Tumbling.assign_windows

    def short(
        self: _Tumbling, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        (window,) = sound(self, element, timestamp, context)
        if self.is_event_time() and timestamp == window.end - 1:
            reached()
            size = window.end - window.start
            return (TimeWindow(window.end, window.end + size),)
        return (window,)

    with replaced(_Tumbling, "assign_windows", short):
        yield


@mutant(
    id="sliding-windows-have-their-end",
    breaks="exactly_once",
    summary="a record at the end of a sliding window is also put into that window",
)
def sliding_windows_have_their_end(reached: Reached) -> Iterator[None]:
    """The record counts once too often."""
    sound = _Sliding.assign_windows

    def inclusive(
        self: _Sliding, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        windows = list(sound(self, element, timestamp, context))
        size, slide = self._size, self._slide
        if windows and self.is_event_time() and windows[-1].end - slide == timestamp:
            reached()
            windows.append(TimeWindow(timestamp - size, timestamp))
        return windows

    with replaced(_Sliding, "assign_windows", inclusive):
        yield


@mutant(
    id="timers-wait-for-a-later-watermark",
    breaks="exactly_once",
    summary="an event-time timer fires behind its time, not at it",
)
def timers_wait_for_a_later_watermark(reached: Reached) -> Iterator[None]:
    """What comes in between finds a window that should be over."""
    sound = TimerQueue.pop_due

    def later(self: TimerQueue, limit: int) -> tuple[Any, Any] | None:
        due = self.next_timestamp()
        if due == limit:
            reached()
            return None
        return sound(self, limit)

    with replaced(TimerQueue, "pop_due", later):
        yield


@mutant(
    id="window-before-zero-starts-late",
    breaks="exactly_once",
    summary="the window of a time before zero is cut off towards zero, so it is the one behind",
    families=("late_readings", "window_sum"),
)
def window_before_zero_starts_late(reached: Reached) -> Iterator[None]:
    """That is how C and Java divide a negative number."""
    sound = _Tumbling.assign_windows

    def towards_zero(
        self: _Tumbling, element: Any, timestamp: int | None, context: AssignerContext
    ) -> Collection[TimeWindow]:
        (window,) = sound(self, element, timestamp, context)
        if self.is_event_time() and timestamp is not None and timestamp < 0 and timestamp != window.start:
            reached()
            return (TimeWindow(window.end, 2 * window.end - window.start),)
        return (window,)

    with replaced(_Tumbling, "assign_windows", towards_zero):
        yield


@mutant(
    id="event-time-begins-at-zero",
    breaks="exactly_once",
    summary="the watermark of an operator is 0 until the first one comes",
    families=("late_readings", "periodic_page_views", "sliding_word_count", "window_sum"),
)
def event_time_begins_at_zero(reached: Reached) -> Iterator[None]:
    """Records before it are late, and timers before it are due, though no watermark has come."""
    sound = Timers.__init__

    def at_zero(self: Timers, *arguments: Any, **named: Any) -> None:
        sound(self, *arguments, **named)
        reached()
        self.watermark = 0

    with replaced(Timers, "__init__", at_zero):
        yield


@mutant(
    id="timers-fire-a-millisecond-early",
    breaks="exactly_once",
    summary="a timer fires when the time is one millisecond before it",
)
def timers_fire_a_millisecond_early(reached: Reached) -> Iterator[None]:
    """A record for the last millisecond may still come, and is not in the row."""
    sound = TimerQueue.pop_due

    def earlier(self: TimerQueue, limit: int) -> tuple[Any, Any] | None:
        if self.next_timestamp() == limit + 1:
            reached()
            limit += 1
        return sound(self, limit)

    with replaced(TimerQueue, "pop_due", earlier):
        yield


@mutant(
    id="windows-are-cleaned-up-late",
    breaks="exactly_once",
    summary="the contents of a window are kept for one millisecond too long",
    families=("sliding_word_count", "window_sum"),
)
def windows_are_cleaned_up_late(reached: Reached) -> Iterator[None]:
    """A record that comes then is no longer late: its window fires once more."""
    sound = WindowOperator.cleanup_ms

    def late(self: WindowOperator, window: Any) -> int:
        cleanup_ms = sound(self, window)
        if self._by_event_time and cleanup_ms == self.timers.watermark:
            reached()
        return cleanup_ms + 1 if self._by_event_time else cleanup_ms

    with replaced(WindowOperator, "cleanup_ms", late):
        yield


@mutant(
    id="windows-are-cleaned-up-early",
    breaks="exactly_once",
    summary="a record is late for its window one millisecond too soon",
)
def windows_are_cleaned_up_early(reached: Reached) -> Iterator[None]:
    """A record is neither in a row nor late where it comes at that watermark."""
    sound = WindowOperator.cleanup_ms

    def early(self: WindowOperator, window: Any) -> int:
        cleanup_ms = sound(self, window)
        if self._by_event_time and cleanup_ms == self.timers.watermark + 1:
            reached()
        return cleanup_ms - 1 if self._by_event_time else cleanup_ms

    with replaced(WindowOperator, "cleanup_ms", early):
        yield


@mutant(
    id="window-fires-again-a-millisecond-early",
    breaks="exactly_once",
    summary="the trigger takes a window for over when the watermark is one millisecond before its last",
    families=WINDOWED,
)
def window_fires_again_a_millisecond_early(reached: Reached) -> Iterator[None]:
    """Each record that comes at that watermark gives a row."""
    sound = EventTimeTrigger.on_element

    def early(
        self: EventTimeTrigger, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerScope
    ) -> TriggerResult:
        if window.max_timestamp() == ctx.get_current_watermark() + 1:
            reached()
            return FIRE
        return sound(self, element, timestamp, window, ctx)

    with replaced(EventTimeTrigger, "on_element", early):
        yield


@mutant(
    id="retained-checkpoints-in-the-order-of-names",
    breaks="no_error",
    summary="a recovery orders the retained checkpoints by the text of their ids: 10 before 9",
)
def retained_checkpoints_in_the_order_of_names(reached: Reached) -> Iterator[None]:
    """The job goes on from checkpoint 9 though 10 is complete."""
    sound = recovery._complete

    def by_name(storage: Any, known: dict[int, Any], skips_damaged: bool) -> Any:
        by_text = sorted(known, key=str)
        if by_text != list(known):
            reached()
        return sound(storage, {each: known[each] for each in by_text}, skips_damaged)

    with replaced(recovery, "_complete", by_name):
        yield


class _ByText(int):
    """A number that is compared by its digits: 9 is greater than 10."""

    def __gt__(self, other: int) -> bool:
        return str(int(self)) > str(int(other))

    def __le__(self, other: int) -> bool:
        return not self > other


@mutant(
    id="processes-in-the-order-of-names",
    breaks="no_error",
    summary="a process compares the names of processes as text: process 9 comes after process 10",
)
def processes_in_the_order_of_names(reached: Reached) -> Iterator[None]:
    """The tenth process takes the ninth for one that has taken the job over from it."""
    sound = recovery._markers

    def by_name(paths: Iterable[str]) -> list[int]:
        found = sound(paths)
        if sorted(found, key=str) != sorted(found):
            reached()
        return [_ByText(number) for number in found]

    with replaced(recovery, "_markers", by_name):
        yield
