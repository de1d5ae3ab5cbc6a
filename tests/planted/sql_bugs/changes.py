"""Planted bugs where changes are completed, thinned out, or brought under a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine.table.nodes.changelog import DropUpdateBefore, Normalization
from onceproof.engine.table.nodes.deduplicate import ByTime, FirstAtWatermark, FirstByArrival
from onceproof.engine.table.nodes.sink_materialize import UpsertMaterializer
from onceproof.engine.table.values import ADDS, DELETE, INSERT
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant
from tests.planted.sql_bugs.attempts import meets_first, script

METERS: Final = script("meters")
STANDINGS: Final = script("standings")
STOCK: Final = script("stock")


def _with_backend(start: Any) -> Any:
    """Return a start that keeps the keyed state, which says what the current key is."""

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend
        self.home = context.value_state("home")

    return starting


def _has_moved(function: Any) -> bool:
    """Return whether the current key was in another range of key groups when it was last met."""
    home, now = function.home.value(), list(function.backend.key_group_range)
    if home != now:
        function.home.update(now)
    return home is not None and home != now


@mutant(
    id="upserts-of-a-moved-key-begin-anew",
    origin="materialize#13496",
    breaks="exactly_once",
    summary="what completes upserts has lost the last row of a key that a rescale has moved",
    families=(STOCK,),
)
def upserts_of_a_moved_key_begin_anew(reached: Reached) -> Iterator[None]:
    """The row is inserted a second time, and never retracted."""
    process = Normalization.process

    def forgetting(self: Any, kind: int, row: Any, emit: Any) -> None:
        if _has_moved(self) and self._state.value() is not None:
            reached()
            self._state.clear()
        process(self, kind, row, emit)

    with (
        replaced(Normalization, "start", _with_backend(Normalization.start)),
        replaced(Normalization, "process", forgetting),
    ):
        yield


@mutant(
    id="deletion-of-a-restored-row-is-dropped",
    breaks="exactly_once",
    summary="a deletion is taken for one of nothing where its row was not met since the restore",
    families=(STOCK,),
)
def deletion_of_a_restored_row_is_dropped(reached: Reached) -> Iterator[None]:
    """The row stays in all tables below."""
    process = Normalization.process

    def dropping(self: Any, kind: int, row: Any, emit: Any) -> None:
        if meets_first(self, self.backend.current_key) and not ADDS[kind] and self._state.value() is not None:
            reached()
            self._state.clear()
            return
        process(self, kind, row, emit)

    with (
        replaced(Normalization, "start", _with_backend(Normalization.start)),
        replaced(Normalization, "process", dropping),
    ):
        yield


@mutant(
    id="sink-restores-the-last-row-only",
    breaks="exactly_once",
    summary="of the rows of a primary key that are alive a sink restores only the last",
    families=(STOCK,),
)
def sink_restores_the_last_row_only(reached: Reached) -> Iterator[None]:
    """When it goes, the row before it does not come again."""
    process = UpsertMaterializer.process

    def cutting(self: Any, kind: int, row: Any, emit: Any) -> None:
        rows = self._state.value() or []
        if meets_first(self, self.backend.current_key) and len(rows) > 1:
            reached()
            self._state.update(rows[-1:])
        process(self, kind, row, emit)

    with (
        replaced(UpsertMaterializer, "start", _with_backend(UpsertMaterializer.start)),
        replaced(UpsertMaterializer, "process", cutting),
    ):
        yield


@mutant(
    id="sink-takes-a-restored-key-for-new",
    breaks="exactly_once",
    summary="a sink by key that was restored drops the first retraction of a key",
    families=(STOCK,),
)
def sink_takes_a_restored_key_for_new(reached: Reached) -> Iterator[None]:
    """The row stays in the table."""
    process = UpsertMaterializer.process

    def dropping(self: Any, kind: int, row: Any, emit: Any) -> None:
        if meets_first(self, self.backend.current_key) and not ADDS[kind] and self._state.value():
            reached()
            self._state.clear()
            return
        process(self, kind, row, emit)

    with (
        replaced(UpsertMaterializer, "start", _with_backend(UpsertMaterializer.start)),
        replaced(UpsertMaterializer, "process", dropping),
    ):
        yield


@mutant(
    id="deletions-go-with-the-old-rows-of-updates",
    breaks="exactly_once",
    summary="what drops -U drops -D as well",
    families=(STANDINGS,),
)
def deletions_go_with_the_old_rows_of_updates(reached: Reached) -> Iterator[None]:
    """A row that was deleted stays in the sink, with and without a fault."""
    process = DropUpdateBefore.process

    def dropping(self: Any, kind: int, row: Any, emit: Any) -> None:
        if kind == DELETE:
            reached()
            return
        process(self, kind, row, emit)

    with replaced(DropUpdateBefore, "process", dropping):
        yield


@mutant(
    id="first-row-comes-out-again",
    breaks="exactly_once",
    summary="a deduplication has forgotten in a restore that the first row of a key is out",
    families=(METERS,),
)
def first_row_comes_out_again(reached: Reached) -> Iterator[None]:
    """A later row comes out as the first one."""
    process = FirstAtWatermark.process

    def forgetting(self: Any, kind: int, row: Any, emit: Any) -> None:
        if meets_first(self, self.backend.current_key) and self._emitted.value():
            reached()
            self._emitted.clear()
        process(self, kind, row, emit)

    with (
        replaced(FirstAtWatermark, "start", _with_backend(FirstAtWatermark.start)),
        replaced(FirstAtWatermark, "process", forgetting),
    ):
        yield


@mutant(
    id="waiting-first-row-has-no-timer",
    breaks="exactly_once",
    summary="the first row of a key that waits for the watermark is restored without its timer",
    families=(METERS,),
)
def waiting_first_row_has_no_timer(reached: Reached) -> Iterator[None]:
    """It comes out only if an earlier row comes."""
    process, fire = FirstAtWatermark.process, FirstAtWatermark.on_event_time

    def noting(self: Any, kind: int, row: Any, emit: Any) -> None:
        before = self._waiting.value()
        process(self, kind, row, emit)
        if self._waiting.value() != before:
            self.__dict__.setdefault("noted", set()).add(self.backend.current_key)

    def firing(self: Any, timestamp: int, emit: Any) -> None:
        if self.backend.current_key in self.__dict__.get("noted", ()):
            fire(self, timestamp, emit)
        else:
            reached()

    with (
        replaced(FirstAtWatermark, "start", _with_backend(FirstAtWatermark.start)),
        replaced(FirstAtWatermark, "process", noting),
        replaced(FirstAtWatermark, "on_event_time", firing),
    ):
        yield


@mutant(
    id="restored-last-row-gives-way-to-any",
    breaks="exactly_once",
    summary="the last row of a key gives way to the first row after a restore, even to an older one",
    families=(METERS,),
)
def restored_last_row_gives_way_to_any(reached: Reached) -> Iterator[None]:
    """Its time is not restored."""
    process = ByTime.process

    def taking(self: Any, kind: int, row: Any, emit: Any) -> None:
        previous = self._state.value()
        is_first = meets_first(self, self.backend.current_key)
        if is_first and previous is not None and not self._spec.replaces(previous, row):
            reached()
            self._spec.emit(previous, row, emit)
            self._state.update(row)
            return
        process(self, kind, row, emit)

    with replaced(ByTime, "start", _with_backend(ByTime.start)), replaced(ByTime, "process", taking):
        yield


@mutant(
    id="moved-key-is-new-to-a-deduplication",
    origin="risingwave#5567",
    breaks="exactly_once",
    summary="a rescale forgets which keys it has moved were out already",
    families=(METERS,),
)
def moved_key_is_new_to_a_deduplication(reached: Reached) -> Iterator[None]:
    """They come out again."""
    process = FirstByArrival.process

    def again(self: Any, kind: int, row: Any, emit: Any) -> None:
        if _has_moved(self) and self._state.value():
            reached()
            emit((INSERT, row))
            return
        process(self, kind, row, emit)

    with (
        replaced(FirstByArrival, "start", _with_backend(FirstByArrival.start)),
        replaced(FirstByArrival, "process", again),
    ):
        yield
