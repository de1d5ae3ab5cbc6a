"""Planted bugs in windows: slices, sessions, the first rows of windows, and windows of GROUP BY."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine.elements import MIN_WATERMARK, Watermark
from onceproof.engine.table.nodes.group_window import ACCUMULATORS, COUNT, EMITTED, GroupWindow
from onceproof.engine.table.nodes.sources import RowWatermarks
from onceproof.engine.table.nodes.window_aggregate import LocalWindowAggregate, WindowAggregate
from onceproof.engine.table.nodes.window_join import WindowJoin
from onceproof.engine.table.nodes.window_rank import AttachedWindows, WindowDeduplicate, WindowRank
from onceproof.engine.table.nodes.window_sessions import Sessions
from onceproof.engine.table.nodes.windows import KeepsWatermark
from onceproof.engine.table.operators import TableContext
from onceproof.engine.watermarks.valve import NOTHING, WatermarkValve
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant
from tests.planted.sql_bugs.attempts import made_here, meets_first, script

BOOKINGS: Final = script("bookings")
DELIVERIES: Final = script("deliveries")
REVENUE: Final = script("revenue")
TRAFFIC: Final = script("traffic")


@mutant(
    id="windows-forget-their-watermark",
    origin="FLINK-24501",
    breaks="exactly_once",
    summary="the watermark of windows is not restored, so a row counts that was late before the failure",
    families=(TRAFFIC,),
)
def windows_forget_their_watermark(reached: Reached) -> Iterator[None]:
    """A window fires again for it."""
    restore = KeepsWatermark.initialize_state

    def forgetting(self: Any, context: Any) -> None:
        restore(self, context)
        if self._restored > MIN_WATERMARK:
            reached()
            self._restored = self.moment.watermark = MIN_WATERMARK

    with replaced(KeepsWatermark, "initialize_state", forgetting):
        yield


@mutant(
    id="first-phase-of-windows-crosses-the-barrier",
    breaks="exactly_once",
    summary="the first phase of a window does not send its accumulators before a barrier",
    families=(REVENUE,),
)
def first_phase_of_windows_crosses_the_barrier(reached: Reached) -> Iterator[None]:
    """They are in no checkpoint."""

    def keeping(self: Any, emit: Any) -> None:
        if self._held:
            reached()

    with replaced(LocalWindowAggregate, "before_barrier", keeping):
        yield


class _HidingSessions:
    """A state of sessions in which those that became part of another one are only hidden."""

    def __init__(self, state: Any, backend: Any, reached: Reached) -> None:
        self._state, self._backend, self._reached = state, backend, reached
        self._hidden: set[Any] = set()

    def _name(self, session: Any) -> Any:
        return self._backend.current_key, session[0], session[1]

    def value(self) -> Any:
        return [each for each in self._state.value() or () if self._name(each) not in self._hidden] or None

    def update(self, sessions: Any) -> None:
        held = self._state.value() or ()
        kept = [each for each in held if self._name(each) in self._hidden]
        bounds = {(each[0], each[1]) for each in sessions}
        for each in held:
            is_part = any(start <= each[0] and each[1] <= end for start, end in bounds)
            if is_part and (each[0], each[1]) not in bounds and each not in kept:
                self._reached()
                self._hidden.add(self._name(each))
                kept.append(each)
        self._hidden -= {self._name(each) for each in sessions}
        self._state.update([*sessions, *[each for each in kept if (each[0], each[1]) not in bounds]])

    def clear(self) -> None:
        self._state.clear()


@mutant(
    id="merged-sessions-stay-in-the-state",
    origin="FLINK-4884",
    breaks="exactly_once",
    summary="sessions that became one stay in the state beside it, and are merged again after a restore",
    families=(TRAFFIC,),
)
def merged_sessions_stay_in_the_state(reached: Reached) -> Iterator[None]:
    """Their rows count twice."""
    start = Sessions.start

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self._state = _HidingSessions(self._state, context.backend, reached)

    with replaced(Sessions, "start", starting):
        yield


@mutant(
    id="restored-session-grows-without-a-timer",
    breaks="exactly_once",
    summary="the first row after a restore that prolongs a session does not register its new end",
    families=(TRAFFIC,),
)
def restored_session_grows_without_a_timer(reached: Reached) -> Iterator[None]:
    """The timer of its old end finds nothing."""
    process = Sessions.process

    def silent(self: Any, kind: int, row: Any, emit: Any) -> None:
        is_first = meets_first(self, self._context.backend.current_key)
        if not is_first or not self._state.value():
            process(self, kind, row, emit)
            return
        reached()
        with replaced(TableContext, "wake_at", lambda *arguments: None):
            process(self, kind, row, emit)

    with replaced(Sessions, "process", silent):
        yield


@mutant(
    id="next-pane-has-no-timer-after-a-restore",
    breaks="exactly_once",
    summary="the timer of a pane that no row has registered is not restored",
    families=(TRAFFIC,),
)
def next_pane_has_no_timer_after_a_restore(reached: Reached) -> Iterator[None]:
    """HOP and CUMULATE lose the panes in which no new row falls."""
    register, fire = WindowAggregate._register, WindowAggregate._fire

    def noting(self: Any, end: int) -> None:
        made_here(self).add((self._context.backend.current_key, end))
        register(self, end)

    def firing(self: Any, end: int, emit: Any) -> None:
        is_noted = (self._context.backend.current_key, end) in made_here(self)
        if self._shares and not is_noted and self._slices.get(end) is None:
            reached()
            return
        fire(self, end, emit)

    with replaced(WindowAggregate, "_register", noting), replaced(WindowAggregate, "_fire", firing):
        yield


@mutant(
    id="hop-merges-into-a-slice",
    breaks="exactly_once",
    summary="a pane of HOP merges its slices into the newest one, which later panes merge again",
    families=(TRAFFIC,),
)
def hop_merges_into_a_slice(reached: Reached) -> Iterator[None]:
    """Rows count several times, with and without a fault."""
    sound = WindowAggregate._merged

    def in_place(self: Any, ends: Any) -> Any:
        merged = sound(self, ends)
        if self._window.kind == "HOP" and merged is not None and self._slices.get(ends[0]) is not None:
            reached()
            self._slices.put(ends[0], copy.deepcopy(merged))
        return merged

    with replaced(WindowAggregate, "_merged", in_place):
        yield


@mutant(
    id="restored-window-ranks-one-row",
    breaks="exactly_once",
    summary="of the first rows of a window only the best one is restored",
    families=(TRAFFIC,),
)
def restored_window_ranks_one_row(reached: Reached) -> Iterator[None]:
    """The second place stays empty, or goes to a later row."""
    start, process, fire = WindowRank.start, WindowRank.process, WindowRank.on_event_time

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.context = context

    def cut(self: Any) -> None:
        if meets_first(self, self.context.backend.current_key):
            for end, rows in list(self._windows.items()):
                if len(rows) > 1:
                    reached()
                    self._windows.put(end, list(rows)[:1])

    def processing(self: Any, kind: int, row: Any, emit: Any) -> None:
        cut(self)
        process(self, kind, row, emit)

    def firing(self: Any, timestamp: int, emit: Any) -> None:
        cut(self)
        fire(self, timestamp, emit)

    with (
        replaced(WindowRank, "start", starting),
        replaced(WindowRank, "process", processing),
        replaced(WindowRank, "on_event_time", firing),
    ):
        yield


@mutant(
    id="restored-window-takes-the-next-row",
    breaks="exactly_once",
    summary="the one row of a restored window gives way to the next that comes, whatever its time",
    families=(TRAFFIC,),
)
def restored_window_takes_the_next_row(reached: Reached) -> Iterator[None]:
    """The time that was compared is not restored."""
    start, kept = AttachedWindows.start, WindowDeduplicate.kept

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.context = context

    def taking(self: Any, held: Any, row: Any) -> Any:
        window = (self.context.backend.current_key, row[self._end_column])
        sound = kept(self, held, row)
        if meets_first(self, window) and held is not None and sound is held:
            reached()
            return row
        return sound

    with replaced(WindowDeduplicate, "start", starting), replaced(WindowDeduplicate, "kept", taking):
        yield


@mutant(
    id="window-join-forgets-windows-of-one-side",
    breaks="exactly_once",
    summary="a restore registers again only the windows that have left rows",
    families=(DELIVERIES,),
)
def window_join_forgets_windows_of_one_side(reached: Reached) -> Iterator[None]:
    """A FULL join loses the right rows of the others."""
    keep, fire, start = WindowJoin._keep, WindowJoin.on_event_time, WindowJoin.start

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend

    def keeping(self: Any, side: int, row: Any) -> None:
        made_here(self).add((self.backend.current_key, row[self._ends[side]]))
        keep(self, side, row)

    def firing(self: Any, timestamp: int, emit: Any) -> None:
        for end, _ in list(self._sides[1].items()):
            if (self.backend.current_key, end) not in made_here(self) and not self._sides[0].contains(end):
                reached()
                self._sides[1].remove(end)
        fire(self, timestamp, emit)

    with (
        replaced(WindowJoin, "start", starting),
        replaced(WindowJoin, "_keep", keeping),
        replaced(WindowJoin, "on_event_time", firing),
    ):
        yield


@mutant(
    id="early-result-is-not-restored",
    breaks="exactly_once",
    summary="a restored window has forgotten which result it has emitted early",
    families=(BOOKINGS,),
)
def early_result_is_not_restored(reached: Reached) -> Iterator[None]:
    """It emits another +I, and never takes the old result back."""
    fire = GroupWindow._fire

    def forgetting(self: Any, window: Any, held: Any, emit: Any) -> None:
        is_first = meets_first(self, (self._context.backend.current_key, window))
        if is_first and held[EMITTED] is not None:
            reached()
            held[EMITTED] = None
        fire(self, window, held, emit)

    with replaced(GroupWindow, "_fire", forgetting):
        yield


@mutant(
    id="restored-session-is-merged-twice",
    origin="FLINK-3740",
    breaks="exactly_once",
    summary="a session of GROUP BY from before a restore is merged twice into the one that covers it",
    families=(TRAFFIC,),
)
def restored_session_is_merged_twice(reached: Reached) -> Iterator[None]:
    """It is there under its old name and under its new one."""
    sound = GroupWindow._merged

    def twice(self: Any, time: int) -> Any:
        key = self._context.backend.current_key
        before = {tuple(window): copy.deepcopy(held) for window, held in self._windows.items()}
        if meets_first(self, key):
            self.__dict__.setdefault("restored", {})[key] = set(before)
        window = sound(self, time)
        parts = [each for each in before if window[0] <= each[0] and each[1] <= window[1]]
        again = [each for each in parts if len(parts) > 1 and each in self.restored[key]]
        if again:
            reached()
            held = list(self._windows.get(window))
            held[COUNT] += before[again[0]][COUNT]
            self._aggregates.merge(held[ACCUMULATORS], before[again[0]][ACCUMULATORS])
            self._windows.put(window, held)
        return window

    with replaced(GroupWindow, "_merged", twice):
        yield


@mutant(
    id="faster-input-decides-event-time",
    breaks="exactly_once",
    summary="where streams are united, the watermark is that of the channel that is ahead",
    families=(DELIVERIES,),
)
def faster_input_decides_event_time(reached: Reached) -> Iterator[None]:
    """Rows of the slower one are late, with and without a fault."""
    lowest = WatermarkValve._lowest

    def highest(self: Any) -> Any:
        ahead = max(self._watermarks)
        if min(self._watermarks) == ahead:
            return lowest(self)
        if ahead <= self._output:
            return NOTHING
        reached()
        self._output = ahead
        return (Watermark(ahead),)

    with replaced(WatermarkValve, "_lowest", highest):
        yield


@mutant(
    id="watermarks-of-rows-run-ahead",
    breaks="exactly_once",
    summary="a source gives out each watermark rounded up to the minute",
    families=(REVENUE,),
)
def watermarks_of_rows_run_ahead(reached: Reached) -> Iterator[None]:
    """Rows in order are late, with and without a fault."""
    emit = RowWatermarks.on_periodic_emit

    def ahead(self: Any, output: Any) -> None:
        if self._watermark > MIN_WATERMARK and self._watermark % 60_000:
            reached()
            self._watermark += 60_000 - self._watermark % 60_000
        emit(self, output)

    with replaced(RowWatermarks, "on_periodic_emit", ahead):
        yield
