"""Mutants of windows, timers and event time, most of which show only behind a restore."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop
from typing import Any

from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK, Record
from onceproof.engine.operators.firing import TimerFiring
from onceproof.engine.operators.interval_join import IntervalJoinOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.keyed import KeyedStateBackend, Registered
from onceproof.engine.state.snapshot import TableSnapshot
from onceproof.engine.state.timers import PROCESSING_TIMERS, TimerQueue, Timers
from onceproof.engine.timer_service import TimeDomain
from onceproof.engine.watermarks.combined import CombinedWatermark
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.windows import triggers
from onceproof.engine.windows.merging import MergingWindowSet, OnMerge
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="merged-windows-are-stored-when-they-fire",
    origin="FLINK-4884",
    breaks="exactly_once",
    summary="which windows have merged is kept in memory, and written to state when one of them fires",
)
def merged_windows_are_stored_when_they_fire(reached: Reached) -> Iterator[None]:
    """A snapshot in between has the contents, and not the windows that they belong to."""
    add, find, persist = (
        WindowOperator.add_and_merge,
        WindowOperator.windows_of_key,
        WindowOperator._persist,
    )
    adding: list[bool] = []
    held: dict[tuple[int, Any], tuple[WindowOperator, MergingWindowSet]] = {}

    def adding_to(self: WindowOperator, *arguments: Any) -> bool:
        adding.append(True)
        try:
            return add(self, *arguments)
        finally:
            adding.pop()

    def in_memory(self: WindowOperator) -> MergingWindowSet:
        known = held.get((id(self), self._keyed.current_key))
        return find(self) if known is None else known[1]

    def later(self: WindowOperator, window_set: MergingWindowSet) -> None:
        place = (id(self), self._keyed.current_key)
        if adding:
            if window_set.has_changed:
                reached()
                held[place] = self, window_set
            return
        held.pop(place, None)
        persist(self, window_set)

    with (
        replaced(WindowOperator, "add_and_merge", adding_to),
        replaced(WindowOperator, "windows_of_key", in_memory),
        replaced(WindowOperator, "_persist", later),
    ):
        yield


@mutant(
    id="restored-windows-forget-where-their-contents-are",
    origin="FLINK-3740",
    breaks="exactly_once",
    summary="a restored window that has merged looks for its contents under its own name",
)
def restored_windows_forget_their_contents(reached: Reached) -> Iterator[None]:
    """They are under that of one of the windows that it was made of."""
    find = WindowOperator.windows_of_key
    touched: dict[tuple[int, Any], WindowOperator] = {}

    def by_own_name(self: WindowOperator) -> MergingWindowSet:
        found, place = find(self), (id(self), self._keyed.current_key)
        if place in touched:
            return found
        touched[place] = self
        pairs = found.pairs()
        if all(window == state for window, state in pairs):
            return found
        reached()
        assert self._merging is not None
        forgetful = MergingWindowSet(self._merging, [(window, window) for window, _ in pairs])
        forgetful.has_changed = True
        return forgetful

    with replaced(WindowOperator, "windows_of_key", by_own_name):
        yield


@mutant(
    id="covered-window-begins-anew",
    origin="FLINK-4589",
    breaks="exactly_once",
    summary="a record whose window lies within an existing one moves that one's contents to a new place",
)
def covered_window_begins_anew(reached: Reached) -> Iterator[None]:
    """What the window held before is not in its row."""
    add = MergingWindowSet.add

    def moving(self: MergingWindowSet, new: Any, on_merge: OnMerge) -> Any:
        before = dict(self._state_windows)
        result = add(self, new, on_merge)
        if result != new and self._state_windows == before:
            reached()
            self._state_windows[result] = new
        return result

    with replaced(MergingWindowSet, "add", moving):
        yield


@mutant(
    id="merged-window-loses-its-next-firing",
    origin="FLINK-5717",
    breaks="exactly_once",
    summary="a window that is merged of others keeps the time of its next early firing, but not the timer",
)
def merged_window_loses_its_next_firing(reached: Reached) -> Iterator[None]:
    """It never fires early again."""

    def without_a_timer(self: Any, ctx: Any, register: Any) -> None:
        reached()
        ctx.merge_partitioned_state(self._next_fire)

    with replaced(triggers._Continuous, "_merge", without_a_timer):
        yield


@mutant(
    id="fired-timers-return-after-a-rescale",
    origin="FLINK-26063",
    breaks="exactly_once",
    summary="a fired timer is removed for the subtask that had it, and is back where another one restores it",
)
def fired_timers_return_after_a_rescale(reached: Reached) -> Iterator[None]:
    """Its removal is noted under a wrong key group. A value of False stands for a timer that has fired."""
    begin, register, delete, pop = Timers.__init__, TimerQueue.register, TimerQueue.delete, TimerQueue.pop_due
    owner: dict[int, tuple[TimerQueue, Any, str]] = {}
    fired_by: dict[tuple[str, Any], Any] = {}

    def restored(self: Timers, backend: KeyedStateBackend, name: str, *arguments: Any) -> None:
        begin(self, backend, name, *arguments)
        for domain, queue in (("event", self.event), ("processing", self.processing)):
            owner[id(queue)] = queue, backend.key_group_range, f"{domain} {name}"
            for entry in [each for each in queue._table if queue._table[each] is False]:
                queue._table[entry] = True
                if fired_by.get((f"{domain} {name}", entry)) == backend.key_group_range:
                    delete(queue, *entry)
                else:
                    reached()

    def registered(self: TimerQueue, key: Any, timer: Any) -> None:
        if self._table.get((key, timer)) is False:
            self._table.pop((key, timer), None)
        register(self, key, timer)

    def deleted(self: TimerQueue, key: Any, timer: Any) -> None:
        if self._table.get((key, timer)) is not False:
            delete(self, key, timer)

    def popped(self: TimerQueue, limit: int) -> tuple[Any, Any] | None:
        heap = self._heap
        while heap and heap[0][0] <= limit and self._table.get(heap[0][2]) is False:
            heappop(heap)
        due = pop(self, limit)
        known = owner.get(id(self))
        if due is not None and known is not None:
            _, key_groups, name = known
            self._table[due] = False
            fired_by[name, due] = key_groups
        return due

    with (
        replaced(Timers, "__init__", restored),
        replaced(TimerQueue, "register", registered),
        replaced(TimerQueue, "delete", deleted),
        replaced(TimerQueue, "pop_due", popped),
    ):
        yield


@mutant(
    id="restored-processing-timers-wait-for-a-new-one",
    origin="bytewax#138",
    breaks="exactly_once",
    summary="a restored timer in processing time asks for no wake-up: it waits until another is registered",
)
def restored_processing_timers_wait(reached: Reached) -> Iterator[None]:
    """A window whose key gets no further record never fires."""
    begin = Timers.__init__

    def silent(self: Timers, *arguments: Any) -> None:
        with replaced(Timers, "request_wakeup", lambda timers: None):
            begin(self, *arguments)
        if len(self.processing):
            reached()

    with replaced(Timers, "__init__", silent):
        yield


@mutant(
    id="processing-timers-are-not-stored",
    origin="BEAM-615",
    breaks="exactly_once",
    summary="snapshots hold the timers of event time, but not those of processing time",
)
def processing_timers_are_not_stored(reached: Reached) -> Iterator[None]:
    """After a restore they never fire."""
    snapshot = HashMapStateBackend.table_snapshot

    def without_them(self: HashMapStateBackend, registered: Registered) -> TableSnapshot:
        taken = snapshot(self, registered)
        if taken.entries and taken.name.startswith(PROCESSING_TIMERS):
            reached()
            taken.entries = {}
        return taken

    with replaced(HashMapStateBackend, "table_snapshot", without_them):
        yield


@mutant(
    id="unread-split-holds-nothing-back",
    origin="FLINK-26018",
    breaks="exactly_once",
    summary="a split that was not read yet does not hold the watermark of its source back",
)
def unread_split_holds_nothing_back(reached: Reached) -> Iterator[None]:
    """The first batch of another split makes its records late."""
    begin, combine = TimestampsAndWatermarks.__init__, CombinedWatermark.combine
    of_splits: dict[int, CombinedWatermark] = {}

    def noting(self: TimestampsAndWatermarks, *arguments: Any) -> None:
        begin(self, *arguments)
        of_splits[id(self._combined)] = self._combined

    def of_those_read(self: CombinedWatermark) -> bool:
        marks = self._watermarks
        unread = [part for part in marks if marks[part] == MIN_WATERMARK and not self._idle[part]]
        if id(self) not in of_splits or not unread or len(unread) == len(marks):
            return combine(self)
        reached()
        self._idle.update(dict.fromkeys(unread, True))
        advanced = combine(self)
        self._idle.update(dict.fromkeys(unread, False))
        self.is_idle = False
        return advanced

    with (
        replaced(TimestampsAndWatermarks, "__init__", noting),
        replaced(CombinedWatermark, "combine", of_those_read),
    ):
        yield


@mutant(
    id="join-takes-equal-times-for-late",
    origin="FLINK-33524",
    breaks="exactly_once",
    summary="an interval join takes a record whose timestamp is the watermark itself for late",
    families=("interval_join",),
)
def join_takes_equal_times_for_late(reached: Reached) -> Iterator[None]:
    """It is dropped, and its pairs are missing."""
    process = IntervalJoinOperator.process_batch

    def strict(self: IntervalJoinOperator, records: list[Record], input_index: int) -> list[Record]:
        in_time = [record for record in records if record[1] != self.timers.watermark]
        if len(in_time) < len(records):
            reached()
            self.late_records_dropped += len(records) - len(in_time)
        return process(self, in_time, input_index)

    with replaced(IntervalJoinOperator, "process_batch", strict):
        yield


@mutant(
    id="timer-results-carry-the-watermark",
    origin="KAFKA-12323",
    breaks="exactly_once",
    summary="what a timer in event time emits carries the watermark that fired it, not the timer's own time",
)
def timer_results_carry_the_watermark(reached: Reached) -> Iterator[None]:
    """Windows behind the function put it where it does not belong."""
    fire = TimerFiring.fire

    def later(self: TimerFiring, queue: TimerQueue, limit: int, domain: TimeDomain) -> list[Record]:
        results = fire(self, queue, limit, domain)
        is_before_the_end = domain is TimeDomain.EVENT_TIME and limit < MAX_WATERMARK
        if not is_before_the_end or all(timestamp == limit for _, timestamp in results):
            return results
        reached()
        return [(value, limit) for value, _ in results]

    with replaced(TimerFiring, "fire", later):
        yield
