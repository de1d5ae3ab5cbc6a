"""Mutants of single calls: of states, timers, triggers and evictors, and of what functions are notified of.

Only jobs that call them see them; random jobs call them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from onceproof.engine.operators.base import FunctionOperator
from onceproof.engine.operators.time_services import KeyTimers
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.state.operator import OperatorBroadcastState
from onceproof.engine.state.states import KeyedListState, KeyedMapState
from onceproof.engine.windows.evictors import CountEvictor
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="put-all-forgets-the-last",
    breaks="exactly_once",
    summary="a map state to which several entries are put at once lacks the last of them",
    families=("random_job",),
)
def put_all_forgets_the_last(reached: Reached) -> Iterator[None]:
    """An offset by one where a batch of entries is written."""
    put_all = KeyedMapState.put_all

    def short(self: KeyedMapState, dict_value: Any) -> None:
        entries = dict(dict_value)
        if len(entries) > 1:
            reached()
            entries.popitem()
        put_all(self, entries)

    with replaced(KeyedMapState, "put_all", short):
        yield


@mutant(
    id="emptied-map-is-not-empty",
    breaks="exactly_once",
    summary="a map state whose entries were removed one by one does not say that it is empty",
    families=("random_job",),
)
def emptied_map_is_not_empty(reached: Reached) -> Iterator[None]:
    """It looks whether the map is there, and not whether it has an entry."""
    remove, is_empty = KeyedMapState.remove, KeyedMapState.is_empty
    emptied: set[int] = set()

    def removed(self: KeyedMapState, key: Any) -> None:
        remove(self, key)
        emptied.add(id(self))

    def looks(self: KeyedMapState) -> bool:
        answer = is_empty(self)
        if answer and id(self) in emptied:
            reached()
            return False
        return answer

    with replaced(KeyedMapState, "remove", removed), replaced(KeyedMapState, "is_empty", looks):
        yield


@mutant(
    id="add-all-replaces",
    breaks="exactly_once",
    summary="a list state to which several values are added has only these",
    families=("random_job",),
)
def add_all_replaces(reached: Reached) -> Iterator[None]:
    """The call of the neighbouring method."""

    def replacing(self: KeyedListState, values: Iterable[Any]) -> None:
        reached()
        self.update(values)

    with replaced(KeyedListState, "add_all", replacing):
        yield


@mutant(
    id="deleted-timer-of-the-clock-fires",
    breaks="exactly_once",
    summary="deleting a timer of processing time does nothing",
    families=("random_job",),
)
def deleted_timer_of_the_clock_fires(reached: Reached) -> Iterator[None]:
    """Only timers of event time are looked for."""

    def deaf(self: KeyTimers, timestamp: int) -> None:
        reached()

    with replaced(KeyTimers, "delete_processing_time_timer", deaf):
        yield


@mutant(
    id="removed-broadcast-entry-stays",
    breaks="exactly_once",
    summary="an entry that is removed from a broadcast state is still there",
    families=("random_job",),
)
def removed_broadcast_entry_stays(reached: Reached) -> Iterator[None]:
    """The broadcast side changes a copy."""

    def kept(self: OperatorBroadcastState, key: Any) -> None:
        reached()

    with replaced(OperatorBroadcastState, "remove", kept):
        yield


@mutant(
    id="window-function-without-notices",
    breaks="conformance",
    summary="a window function that listens to checkpoints hears nothing of them",
    families=("random_job",),
)
def window_function_without_notices(reached: Reached) -> Iterator[None]:
    """Notices go to the functions of other operators."""
    notify = FunctionOperator.notify_checkpoint_complete

    def silent(self: FunctionOperator, checkpoint_id: int) -> None:
        if isinstance(self, WindowOperator) and self._listener is not None:
            reached()
            return
        notify(self, checkpoint_id)

    with replaced(FunctionOperator, "notify_checkpoint_complete", silent):
        yield


@mutant(
    id="window-state-outlives-its-window",
    breaks="conformance",
    summary="a window function is not asked to clear the state of a window that is over",
    families=("random_job",),
)
def window_state_outlives_its_window(reached: Reached) -> Iterator[None]:
    """The contents are cleared, and the trigger."""
    clear = WindowOperator._clear

    def silent(self: WindowOperator, window: Any, window_set: Any) -> None:
        function, self._window_function = self._window_function, None
        if function is not None:
            reached()
        clear(self, window, window_set)
        self._window_function = function

    with replaced(WindowOperator, "_clear", silent):
        yield


@mutant(
    id="evictions-after-a-firing-are-lost",
    breaks="conformance",
    summary="what an evictor takes away after the function is there again in the next firing",
    families=("random_job",),
)
def evictions_after_a_firing_are_lost(reached: Reached) -> Iterator[None]:
    """The contents are written back as they were before."""
    evict_after = CountEvictor.evict_after

    def lost(self: CountEvictor, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        kept = list(elements)
        evict_after(self, elements, size, window, evictor_context)
        if len(kept) > len(elements):
            reached()
            elements[:] = kept

    with replaced(CountEvictor, "evict_after", lost):
        yield
