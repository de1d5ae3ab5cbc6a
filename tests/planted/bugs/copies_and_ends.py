"""Mutants of copies, ends of ranges and restores, as a change to the engine could introduce them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onceproof.engine.api import adapters
from onceproof.engine.api.join_functions import _CoGroup
from onceproof.engine.checkpoint import redistribution
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.failure_counter import SUBSUMED
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata
from onceproof.engine.functions import Function
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.state.hashmap import HeapLists
from onceproof.engine.task.task import Task
from onceproof.engine.watermarks.generators import WatermarksWithIdleness
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="function-copies-share-their-attributes",
    breaks="conformance",
    summary="the copies of a function object for subtasks and attempts share its lists, dicts and objects",
)
def function_copies_share_their_attributes(reached: Reached) -> Iterator[None]:
    """No attribute is copied deeply, as if each had a class whose objects never change."""
    atomic = adapters._ATOMIC

    class AnyClass:
        def __contains__(self, kind: Any) -> bool:
            if kind not in atomic and not issubclass(kind, tuple | frozenset):
                reached()
            return True

    with replaced(adapters, "_ATOMIC", AnyClass()):
        yield


@mutant(
    id="rescale-loses-a-shared-end-of-ranges",
    breaks="exactly_once",
    summary="a rescale loses keyed state where an old and a new subtask share only the end of their ranges",
)
def rescale_loses_a_shared_end_of_ranges(reached: Reached) -> Iterator[None]:
    """The test whether ranges of key groups overlap takes inclusive ends for exclusive ones."""
    deal_keyed = redistribution.deal_keyed

    def exclusive(operator: OperatorMetadata, parallelism: int, max_parallelism: int) -> list[Any]:
        old = {
            id(state.handle): key_group_range(operator.max_parallelism, operator.parallelism, subtask)
            for subtask, state in enumerate(operator.subtasks)
        }
        dealt: list[Any] = []
        for subtask, holders in enumerate(deal_keyed(operator, parallelism, max_parallelism)):
            low, high = key_group_range(max_parallelism, parallelism, subtask)
            ranges = [(holder, *old[id(holder[0])]) for holder in holders]
            dealt.append(tuple([holder for holder, first, last in ranges if first < high and low < last]))
            if len(dealt[-1]) < len(holders):
                reached()
        return dealt

    with replaced(redistribution, "deal_keyed", exclusive):
        yield


@mutant(
    id="in-flight-records-all-come-by-the-first-input",
    breaks="exactly_once",
    summary="restored records in flight to the second input of an operator come to it by the first one",
)
def in_flight_records_all_come_by_the_first_input(reached: Reached) -> Iterator[None]:
    """The number of the input has a default, and the restore does not give it."""
    restore, emit = Task.restore, Task._emit

    def by_the_first(self: Task, records: Any, first_operator: int, input_index: int = 0) -> None:
        if input_index:
            reached()
        emit(self, records, first_operator)

    def restored(self: Task, event: Any) -> Sequence[Any]:
        with replaced(Task, "_emit", by_the_first):
            return restore(self, event)

    with replaced(Task, "restore", restored):
        yield


@mutant(
    id="list-state-extends-what-a-snapshot-shares",
    breaks="exactly_once",
    summary="add_all and the merge of windows extend a list in place under a snapshot that shares it",
)
def list_state_extends_what_a_snapshot_shares(reached: Reached) -> Iterator[None]:
    """Only ``append`` looks whether the list is shared, and ``extend`` does not."""
    extend = HeapLists.extend

    def in_place(self: HeapLists, entry: Any, elements: list[Any]) -> None:
        found = self.entries.get(entry)
        if found is None:
            extend(self, entry, elements)
            return
        if elements and self._own is not None and entry not in self._own:
            reached()
        found += elements

    with replaced(HeapLists, "extend", in_place):
        yield


@mutant(
    id="idleness-is-noticed-once",
    breaks="conformance",
    summary="a split that was idle once is never marked as idle again, and holds event time back",
)
def idleness_is_noticed_once(reached: Reached) -> Iterator[None]:
    """Of the two fields that a record resets one stays as it is."""
    on_event = WatermarksWithIdleness.on_event

    def still_idle(self: WatermarksWithIdleness, event: Any, event_timestamp: int, output: Any) -> None:
        was_idle = self._is_idle
        on_event(self, event, event_timestamp, output)
        if was_idle:
            reached()
            self._is_idle = True

    with replaced(WatermarksWithIdleness, "on_event", still_idle):
        yield


@mutant(
    id="checkpoint-subsumes-savepoints",
    breaks="conformance",
    summary="a checkpoint that completes aborts older savepoints that are still under way",
)
def checkpoint_subsumes_savepoints(reached: Reached) -> Iterator[None]:
    """All that is older is aborted, whatever its kind."""
    notify = CheckpointCoordinator.notify

    def subsuming(self: CheckpointCoordinator, completed: Any, subsumed_id: int, effects: list[Any]) -> None:
        if not isinstance(completed, CheckpointMetadata):
            for older in list(self.pending.values()):
                if older.checkpoint_id < completed.checkpoint_id:
                    reached()
                    self.abort(older, SUBSUMED, effects)
        notify(self, completed, subsumed_id, effects)

    with replaced(CheckpointCoordinator, "notify", subsuming):
        yield


@mutant(
    id="window-join-never-closes-its-function",
    breaks="conformance",
    summary="the close of a CoGroupFunction, JoinFunction or FlatJoinFunction is never called",
)
def window_join_never_closes_its_function(reached: Reached) -> Iterator[None]:
    """The function around it hands on the runtime context and ``open``, and drops ``close``."""

    def close(self: _CoGroup) -> None:
        if type(self._function).close is not Function.close:
            reached()

    with replaced(_CoGroup, "close", close):
        yield
