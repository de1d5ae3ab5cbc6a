"""Mutants of the runtime mode BATCH: stages that snapshot what they hold, repeat, or lose the order."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.elements import MAX_WATERMARK, CheckpointBarrier, Record
from onceproof.engine.operators.base import InputOrder, OperatorContext
from onceproof.engine.operators.broadcast import BroadcastOperator
from onceproof.engine.operators.reduce import FinalResults
from onceproof.engine.state.external_sort import ExternalSort, Sortable
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.sorted_task import SortedTask
from onceproof.engine.task.timed_task import TimedTask
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="final-results-stay-in-state",
    breaks="exactly_once",
    summary="a final result stays in state, and an operator that is restored behind its end emits it again",
    families=("final_totals",),
)
def final_results_stay_in_state(reached: Reached) -> Iterator[None]:
    """It shows where a job dies between its only checkpoint and the last commit."""
    open_operator = FinalResults.open
    restored: dict[int, list[object]] = {}
    emitted: dict[int, set[object]] = {}

    def open_with_results(self: FinalResults, context: OperatorContext) -> None:
        open_operator(self, context)
        restored[id(self)] = list(self.table)
        emitted[id(self)] = set(self.table)

    def emit_and_keep(self: FinalResults) -> list[Record]:
        before = emitted[id(self)]
        new = [key for key in self.table if key not in before]
        before.update(new)
        return [(self.table[key], MAX_WATERMARK) for key in new]

    def emit_restored(self: FinalResults) -> list[Record]:
        again = restored.pop(id(self))
        if again:
            reached()
        return [(self.table[key], MAX_WATERMARK) for key in again]

    with (
        replaced(FinalResults, "open", open_with_results),
        replaced(FinalResults, "end_key", emit_and_keep),
        replaced(FinalResults, "finish", emit_restored),
    ):
        yield


@mutant(
    id="final-results-of-one-attempt",
    breaks="exactly_once",
    summary="a stage takes a checkpoint in the middle of its input, and the final results are those of the"
    " records that came since the restore",
    families=("final_totals",),
)
def final_results_of_one_attempt(reached: Reached) -> Iterator[None]:
    """No snapshot holds what the stage has collected."""

    def take_anyway(self: SortedTask, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        if self.collects:
            reached()
        TimedTask.take_checkpoint(self, barrier, effects)

    with replaced(SortedTask, "take_checkpoint", take_anyway):
        yield


@mutant(
    id="records-of-a-key-as-they-arrive",
    breaks="exactly_once",
    summary="a sorted input comes key by key, and within a key in the order of arrival",
    families=("ordered_payments",),
)
def records_of_a_key_as_they_arrive(reached: Reached) -> Iterator[None]:
    """The time of a record is left out of the comparison."""
    in_order = ExternalSort.in_order

    def by_key_only(self: ExternalSort) -> Iterator[Sortable]:
        reached()
        self._held = [(key, 0, record) for key, _, record in self._held]
        self._key_of = None
        return in_order(self)

    with replaced(ExternalSort, "in_order", by_key_only):
        yield


@mutant(
    id="broadcast-input-is-not-first",
    breaks="exactly_once",
    summary="a stage sorts its broadcast input in with the other one, by key and time",
    families=("ordered_payments",),
)
def broadcast_input_is_not_first(reached: Reached) -> Iterator[None]:
    """Keys that come before those of the broadcast input miss all of it."""
    order_of = BroadcastOperator.input_order

    def both_sorted(self: BroadcastOperator) -> InputOrder:
        order = order_of(self)
        reached()
        return InputOrder((order.keys[0], order.keys[0]), order.key_type)

    with replaced(BroadcastOperator, "input_order", both_sorted):
        yield
