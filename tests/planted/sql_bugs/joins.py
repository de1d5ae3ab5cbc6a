"""Planted bugs in joins: regular ones, joins of intervals, and joins with versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine.table.nodes import join as joins
from onceproof.engine.table.nodes.interval_join import IntervalJoin
from onceproof.engine.table.nodes.join import RegularJoin, SemiJoin, TwoSides
from onceproof.engine.table.nodes.join_spec import SideRows, side_rows
from onceproof.engine.table.nodes.temporal_join import TemporalJoin
from onceproof.engine.table.values import ADDS, NANOS_PER_MS
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant
from tests.planted.sql_bugs.attempts import made_here, meets_first, script

DELIVERIES: Final = script("deliveries")
LEADERS: Final = script("leaders")
STOCK: Final = script("stock")


@mutant(
    id="join-forgets-right-rows-that-met-nothing",
    breaks="exactly_once",
    summary="a join does not keep a right row that no left row has met yet",
    families=(LEADERS,),
)
def join_forgets_right_rows(reached: Reached) -> Iterator[None]:
    """A left row that comes later finds nothing, with and without a fault."""
    process = RegularJoin.process_second

    def forgetting(self: Any, kind: int, row: Any, emit: Any) -> None:
        process(self, kind, row, emit)
        if ADDS[kind] and not self._of_right(row):
            reached()
            self._right.retract(row)

    with replaced(RegularJoin, "process_second", forgetting):
        yield


@mutant(
    id="moved-key-has-no-right-side",
    breaks="exactly_once",
    summary="a subtask that gets a key in a rescale gets the left rows of a join only",
    families=(STOCK,),
)
def moved_key_has_no_right_side(reached: Reached) -> Iterator[None]:
    """Nothing matches any more, and nothing is taken back."""
    start, process, process_second = RegularJoin.start, RegularJoin.process, RegularJoin.process_second

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend
        self.home = context.value_state("home")

    def move(self: Any) -> None:
        home, now = self.home.value(), list(self.backend.key_group_range)
        if home != now:
            self.home.update(now)
            rows = [] if home is None else list(self._right.pairs())
            if rows:
                reached()
            for row, _ in rows:
                self._right.retract(row)

    def left(self: Any, kind: int, row: Any, emit: Any) -> None:
        move(self)
        process(self, kind, row, emit)

    def right(self: Any, kind: int, row: Any, emit: Any) -> None:
        move(self)
        process_second(self, kind, row, emit)

    with (
        replaced(RegularJoin, "start", starting),
        replaced(RegularJoin, "process", left),
        replaced(RegularJoin, "process_second", right),
    ):
        yield


class _CountsInMemory(SideRows):
    """Rows of a side whose numbers of matches are written once, and changed in memory."""

    def __init__(self, rows: SideRows, backend: Any, reached: Reached) -> None:
        self._rows, self._backend, self._reached = rows, backend, reached
        self._counts: dict[Any, int] = {}

    def add(self, row: Any, matches: int) -> None:
        self._counts[self._backend.current_key, row] = matches
        self._rows.add(row, matches)

    def update(self, row: Any, matches: int) -> None:
        self._reached()
        self._counts[self._backend.current_key, row] = matches

    def retract(self, row: Any) -> None:
        self._rows.retract(row)

    def pairs(self) -> Any:
        key = self._backend.current_key
        return [(row, self._counts.get((key, row), matches)) for row, matches in self._rows.pairs()]


@mutant(
    id="numbers-of-matches-are-not-written",
    origin="risingwave#2794",
    breaks="exactly_once",
    summary="how many rows a row of an outer side matches is changed in memory only",
    families=(STOCK,),
)
def numbers_of_matches_are_not_written(reached: Reached) -> Iterator[None]:
    """After a restore the padded row comes too early, or is not taken back."""

    def in_memory(context: Any, spec: Any) -> SideRows:
        return _CountsInMemory(side_rows(context, spec), context.backend, reached)

    with replaced(joins, "side_rows", in_memory):
        yield


@mutant(
    id="padded-row-stays-beside-its-first-match",
    origin="risingwave#6093",
    breaks="exactly_once",
    summary="a restored row of an outer side is taken for one that has matched already",
    families=(STOCK,),
)
def padded_row_stays_beside_its_first_match(reached: Reached) -> Iterator[None]:
    """Its padded row is not retracted when it gets its first match."""
    start, of_left, of_right = TwoSides.start, TwoSides._of_left, TwoSides._of_right

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend

    def counted(self: Any, found: Any) -> Any:
        if not meets_first(self, self.backend.current_key) or all(matches for _, matches in found):
            return found
        reached()
        return [(row, matches or 1) for row, matches in found]

    with (
        replaced(RegularJoin, "start", starting),
        replaced(RegularJoin, "_of_left", lambda self, row: counted(self, of_left(self, row))),
        replaced(RegularJoin, "_of_right", lambda self, row: counted(self, of_right(self, row))),
    ):
        yield


@mutant(
    id="restored-right-rows-hold-nothing-back",
    breaks="exactly_once",
    summary="the first left row that a restored ANTI or SEMI join gets does not see the right rows",
    families=(STOCK,),
)
def restored_right_rows_hold_nothing_back(reached: Reached) -> Iterator[None]:
    """It goes out, or does not, and is not taken back when it should be."""
    start, of_left, second = TwoSides.start, TwoSides._of_left, SemiJoin.process_second

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend

    def blind(self: Any, row: Any) -> Any:
        found = of_left(self, row)
        if meets_first(self, self.backend.current_key) and found:
            reached()
            return ()
        return found

    def meeting(self: Any, kind: int, row: Any, emit: Any) -> None:
        meets_first(self, self.backend.current_key)
        second(self, kind, row, emit)

    with (
        replaced(SemiJoin, "start", starting),
        replaced(SemiJoin, "_of_left", blind),
        replaced(SemiJoin, "process_second", meeting),
    ):
        yield


@mutant(
    id="restored-intervals-are-not-cleared",
    breaks="exactly_once",
    summary="a join of intervals restores when its rows are cleared, but not the timer for it",
    families=(DELIVERIES,),
)
def restored_intervals_are_not_cleared(reached: Reached) -> Iterator[None]:
    """Rows without a match are never padded."""
    later, on_timer = IntervalJoin._clear_later, IntervalJoin._on_timer

    def noting(self: Any, side: Any, time: int) -> None:
        later(self, side, time)
        made_here(self).add((self._context.backend.current_key, side.timer.value()))

    def firing(self: Any, timestamp: int, emit: Any) -> None:
        if (self._context.backend.current_key, timestamp) not in made_here(self):
            reached()
            return
        on_timer(self, timestamp, emit)

    with replaced(IntervalJoin, "_clear_later", noting), replaced(IntervalJoin, "_on_timer", firing):
        yield


@mutant(
    id="matches-of-intervals-are-noted-in-memory",
    breaks="exactly_once",
    summary="that a row of a join of intervals has matched is not written where the match came later",
    families=(DELIVERIES,),
)
def matches_of_intervals_are_noted_in_memory(reached: Reached) -> Iterator[None]:
    """After a restore it goes out padded as well."""
    pair, pad = IntervalJoin._pair, IntervalJoin._pad

    def noting(self: Any, own: Any, other: Any, row: Any, at: int, kept: Any, emit: Any) -> bool:
        has_matched = pair(self, own, other, row, at, kept, emit)
        if has_matched and other.is_outer:
            reached()
            key = self._context.backend.current_key
            now = other.rows.get(at)
            made_here(self).update([(key, other.is_left, each) for each, matched in now if matched])
            other.rows.put(at, list(kept))
        return has_matched

    def padding(self: Any, side: Any, kept: Any, emit: Any) -> None:
        key, noted = self._context.backend.current_key, made_here(self)
        pad(self, side, [(row, was or (key, side.is_left, row) in noted) for row, was in kept], emit)

    with replaced(IntervalJoin, "_pair", noting), replaced(IntervalJoin, "_pad", padding):
        yield


@mutant(
    id="version-that-holds-is-dropped-after-a-restore",
    breaks="exactly_once",
    summary="the first firing of a restored key drops the version that holds, too",
    families=(DELIVERIES,),
)
def version_that_holds_is_dropped_after_a_restore(reached: Reached) -> Iterator[None]:
    """Rows that come later meet no version."""
    start, fire = TemporalJoin.start, TemporalJoin.on_event_time
    sides = TemporalJoin.process, TemporalJoin.process_second

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend, self.restored = context.backend, {}

    def note(self: Any) -> None:
        if self.backend.current_key not in self.restored:
            self.restored[self.backend.current_key] = not self._versions.is_empty()

    def left(self: Any, kind: int, row: Any, emit: Any) -> None:
        note(self)
        sides[0](self, kind, row, emit)

    def right(self: Any, kind: int, row: Any, emit: Any) -> None:
        note(self)
        sides[1](self, kind, row, emit)

    def firing(self: Any, timestamp: int, emit: Any) -> None:
        note(self)
        fire(self, timestamp, emit)
        if self.restored[self.backend.current_key]:
            self.restored[self.backend.current_key] = False
            for time in [each for each, _ in self._versions.items() if each <= self.moment.watermark]:
                reached()
                self._versions.remove(time)

    with (
        replaced(TemporalJoin, "start", starting),
        replaced(TemporalJoin, "process", left),
        replaced(TemporalJoin, "process_second", right),
        replaced(TemporalJoin, "on_event_time", firing),
    ):
        yield


@mutant(
    id="waiting-rows-are-numbered-anew",
    breaks="exactly_once",
    summary="a join with versions restores the rows that wait, but not how many it has numbered",
    families=(DELIVERIES,),
)
def waiting_rows_are_numbered_anew(reached: Reached) -> Iterator[None]:
    """The next row takes the place of one that waits."""
    start, process = TemporalJoin.start, TemporalJoin.process

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend

    def numbering(self: Any, kind: int, row: Any, emit: Any) -> None:
        if meets_first(self, self.backend.current_key) and not self._waiting.is_empty():
            reached()
            self._next.update(min(index for index, _ in self._waiting.items()))
        process(self, kind, row, emit)

    with replaced(TemporalJoin, "start", starting), replaced(TemporalJoin, "process", numbering):
        yield


@mutant(
    id="version-of-a-later-time-is-met",
    breaks="exactly_once",
    summary="a row meets the newest version that has come, whatever its own time",
    families=(DELIVERIES,),
)
def version_of_a_later_time_is_met(reached: Reached) -> Iterator[None]:
    """A rate from after the order converts it, with and without a fault."""
    sound = TemporalJoin._join

    def newest(self: Any, change: Any, version: Any, emit: Any) -> None:
        versions = sorted(self._versions.items())
        time = change[1][self._spec.left_time] // NANOS_PER_MS
        if versions and versions[-1][0] > time:
            reached()
            version = versions[-1][1]
        sound(self, change, version, emit)

    with replaced(TemporalJoin, "_join", newest):
        yield
