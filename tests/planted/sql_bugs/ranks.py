"""Planted bugs in ranks, in aggregates OVER, and where rows are sorted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine.table.nodes.match import MatchRecognize
from onceproof.engine.table.nodes.over import RowTimeBoundedRange, RowTimeBoundedRows, RowTimeOver
from onceproof.engine.table.nodes.over_updating import UpdatingOver
from onceproof.engine.table.nodes.sort import TimeSort
from onceproof.engine.table.nodes.top_n import AppendedTopN
from onceproof.engine.table.nodes.top_n_updates import RetractedTopN, UpdatedTopN
from onceproof.engine.table.values import ADDS, NANOS_PER_MS
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant
from tests.planted.sql_bugs.attempts import made_here, meets_first, script

BESTSELLERS: Final = script("bestsellers")
LEADERS: Final = script("leaders")
METERS: Final = script("meters")
STANDINGS: Final = script("standings")


def _with_backend(start: Any) -> Any:
    """Return a start that keeps the keyed state, which says what the current key is."""

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend

    return starting


@mutant(
    id="restored-rank-loses-a-retraction",
    breaks="exactly_once",
    summary="the first change that a restored rank gets is dropped where it retracts a row",
    families=(LEADERS,),
)
def restored_rank_loses_a_retraction(reached: Reached) -> Iterator[None]:
    """Without a restore the first change of a rank adds a row."""
    process = RetractedTopN.process

    def forgetting(self: Any, kind: int, row: Any, emit: Any) -> None:
        is_first = not getattr(self, "has_begun", False)
        self.has_begun = True
        if is_first and not ADDS[kind]:
            reached()
            return
        process(self, kind, row, emit)

    with replaced(RetractedTopN, "process", forgetting):
        yield


@mutant(
    id="rank-keeps-only-rows-in-range",
    breaks="exactly_once",
    summary="a rank over changes keeps no more rows than it shows, so none moves up when one leaves",
    families=(LEADERS,),
)
def rank_keeps_only_rows_in_range(reached: Reached) -> Iterator[None]:
    """The sort keys beyond the range are cut off."""
    process = RetractedTopN.process

    def cutting(self: Any, kind: int, row: Any, emit: Any) -> None:
        process(self, kind, row, emit)
        tree, kept = self._tree.value() or [], 0
        for place, (_, count) in enumerate(tree):
            kept += count
            if kept >= self.spec.size and place + 1 < len(tree):
                reached()
                for key, _ in tree[place + 1 :]:
                    self._data.remove(key)
                self._tree.update(tree[: place + 1])
                return

    with replaced(RetractedTopN, "process", cutting):
        yield


@mutant(
    id="restored-top-n-begins-empty",
    origin="risingwave#4631",
    breaks="exactly_once",
    summary="the buffer of a Top-N is not filled from the state for the first row after a restore",
    families=(BESTSELLERS,),
)
def restored_top_n_begins_empty(reached: Reached) -> Iterator[None]:
    """Rows that were there stay in the sink beside the new ones."""
    load = AppendedTopN.load

    def empty(self: Any) -> Any:
        buffer = load(self)
        if meets_first(self, self.backend.current_key) and buffer:
            reached()
            return []
        return buffer

    with (
        replaced(AppendedTopN, "start", _with_backend(AppendedTopN.start)),
        replaced(AppendedTopN, "load", empty),
    ):
        yield


@mutant(
    id="restored-top-n-is-cut",
    breaks="exactly_once",
    summary="of the buffer of a Top-N over growing numbers only the first place is restored",
    families=(BESTSELLERS,),
)
def restored_top_n_is_cut(reached: Reached) -> Iterator[None]:
    """A row that is still in the sink comes in again as a new one."""
    load = UpdatedTopN.load

    def cut(self: Any) -> Any:
        buffer = load(self)
        if meets_first(self, self.backend.current_key) and len(buffer) > 1:
            reached()
            return buffer[:1]
        return buffer

    with (
        replaced(UpdatedTopN, "start", _with_backend(UpdatedTopN.start)),
        replaced(UpdatedTopN, "load", cut),
    ):
        yield


@mutant(
    id="leaving-row-of-a-restored-top-n-stays",
    breaks="exactly_once",
    summary="the first row that enters a restored Top-N pushes the last one out without a -D",
    families=(BESTSELLERS,),
)
def leaving_row_of_a_restored_top_n_stays(reached: Reached) -> Iterator[None]:
    """The sink has a row more than the Top-N."""
    enter = AppendedTopN._emit_entering

    def silent(self: Any, buffer: Any, size: int, row: Any, emit: Any) -> None:
        changes: list[Any] = []
        enter(self, buffer, size, row, changes.append)
        is_first = meets_first(self, self.backend.current_key)
        for change in changes:
            if is_first and size > self.end and not ADDS[change[0]]:
                reached()
            else:
                emit(change)

    with (
        replaced(AppendedTopN, "start", _with_backend(AppendedTopN.start)),
        replaced(AppendedTopN, "_emit_entering", silent),
    ):
        yield


@mutant(
    id="frame-of-rows-is-not-restored",
    breaks="exactly_once",
    summary="a bounded frame OVER rows restores its accumulators, but not the rows that must leave it",
    families=(METERS,),
)
def frame_of_rows_is_not_restored(reached: Reached) -> Iterator[None]:
    """Its results keep what is too far back."""
    fire = RowTimeBoundedRows._fire

    def forgetting(self: Any, time: int, held: Any, rows: Any, emit: Any) -> None:
        if meets_first(self, self.backend.current_key) and self._frame.get():
            reached()
            self._frame.clear()
        fire(self, time, held, rows, emit)

    with (
        replaced(RowTimeBoundedRows, "start", _with_backend(RowTimeBoundedRows.start)),
        replaced(RowTimeBoundedRows, "_fire", forgetting),
    ):
        yield


@mutant(
    id="restored-frame-of-time-takes-nothing-back",
    breaks="exactly_once",
    summary="the first firing after a restore forgets old rows of a frame without taking them back",
    families=(METERS,),
)
def restored_frame_of_time_takes_nothing_back(reached: Reached) -> Iterator[None]:
    """A moving sum keeps what has left its frame."""
    leave = RowTimeBoundedRange._leave

    def forgetting(self: Any, held: Any, oldest: int) -> None:
        old = [time for time, _ in self._rows.items() if time < oldest]
        if meets_first(self, self.backend.current_key) and old:
            reached()
            for time in old:
                self._rows.remove(time)
            return
        leave(self, held, oldest)

    with (
        replaced(RowTimeBoundedRange, "start", _with_backend(RowTimeBoundedRange.start)),
        replaced(RowTimeBoundedRange, "_leave", forgetting),
    ):
        yield


@mutant(
    id="waiting-rows-of-over-have-no-timer",
    breaks="exactly_once",
    summary="rows that wait for their time in an aggregate OVER are restored without their timers",
    families=(METERS,),
)
def waiting_rows_of_over_have_no_timer(reached: Reached) -> Iterator[None]:
    """They never come out."""
    process, start, fire = RowTimeOver.process, RowTimeOver.start, RowTimeOver.on_event_time

    def noting(self: Any, kind: int, row: Any, emit: Any) -> None:
        time = row[self._spec.time_column] // NANOS_PER_MS
        if not self._rows.contains(time):
            made_here(self).add((self.backend.current_key, time))
        process(self, kind, row, emit)

    def firing(self: Any, timestamp: int, emit: Any) -> None:
        if (self.backend.current_key, timestamp) in made_here(self):
            fire(self, timestamp, emit)
        elif self._rows.contains(timestamp):
            reached()

    with (
        replaced(RowTimeOver, "start", _with_backend(start)),
        replaced(RowTimeOver, "process", noting),
        replaced(RowTimeOver, "on_event_time", firing),
    ):
        yield


@mutant(
    id="rows-of-updating-over-are-numbered-anew",
    breaks="exactly_once",
    summary="an aggregate OVER changes restores its rows, but not how many it has numbered",
    families=(STANDINGS,),
)
def rows_of_updating_over_are_numbered_anew(reached: Reached) -> Iterator[None]:
    """A new row takes the place of an old one."""
    process = UpdatingOver.process

    def numbering(self: Any, kind: int, row: Any, emit: Any) -> None:
        if meets_first(self, self.backend.current_key) and self._next_id.value():
            reached()
            self._next_id.clear()
        process(self, kind, row, emit)

    with (
        replaced(UpdatingOver, "start", _with_backend(UpdatingOver.start)),
        replaced(UpdatingOver, "process", numbering),
    ):
        yield


@mutant(
    id="results-behind-a-restored-row-stay",
    breaks="exactly_once",
    summary="the first change after a restore does not update the results of the rows behind it",
    families=(STANDINGS,),
)
def results_behind_a_restored_row_stay(reached: Reached) -> Iterator[None]:
    """Sums up to a row lack what came before it."""
    update = UpdatingOver._update_rest

    def keeping(self: Any, places: Any, start: int, held: Any, emit: Any) -> None:
        is_first = meets_first(self, self.backend.current_key)
        if is_first and places[start:]:
            reached()
            return
        update(self, places, start, held, emit)

    with (
        replaced(UpdatingOver, "start", _with_backend(UpdatingOver.start)),
        replaced(UpdatingOver, "_update_rest", keeping),
    ):
        yield


@mutant(
    id="sort-restores-one-row-of-a-time",
    breaks="exactly_once",
    summary="the first row after a restore takes the place of those of its time that wait to be sorted",
    families=(METERS,),
)
def sort_restores_one_row_of_a_time(reached: Reached) -> Iterator[None]:
    """The others never come out."""
    process = TimeSort.process

    def replacing(self: Any, kind: int, row: Any, emit: Any) -> None:
        time = row[self._rowtime] // NANOS_PER_MS
        if meets_first(self, time) and self._rows.get(time):
            reached()
            self._rows.remove(time)
        process(self, kind, row, emit)

    with replaced(TimeSort, "process", replacing):
        yield


@mutant(
    id="matches-under-way-are-not-restored",
    breaks="exactly_once",
    summary="MATCH_RECOGNIZE restores the rows that wait, but not the matches under way",
    families=(METERS,),
)
def matches_under_way_are_not_restored(reached: Reached) -> Iterator[None]:
    """A match that began before the restore does not end."""
    fire = MatchRecognize.on_event_time

    def forgetting(self: Any, timestamp: int, emit: Any) -> None:
        matches = self._matching._states.matches
        if meets_first(self, self._context.backend.current_key) and matches.value() is not None:
            reached()
            matches.clear()
        fire(self, timestamp, emit)

    with replaced(MatchRecognize, "on_event_time", forgetting):
        yield
