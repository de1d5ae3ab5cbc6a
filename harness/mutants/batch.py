"""Mutants of the runtime mode BATCH: final results that come twice, and final results that are missing."""

from __future__ import annotations

from collections.abc import Iterator

from onceproof.engine.elements import MAX_WATERMARK, Record
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.reduce import FinalResults
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="final-results-stay-in-state",
    breaks="exactly_once",
    summary="a final result stays in state, and an operator that is restored behind its end emits it again",
    families=("final_totals",),
)
def final_results_stay_in_state(reached: Reached) -> Iterator[None]:
    """It shows where a job dies between the final checkpoint of one task and that of another."""

    def emit_and_keep(self: FinalResults) -> list[Record]:
        if self.table:
            reached()
        return [(self.table[key], MAX_WATERMARK) for key in self.table]

    with replaced(FinalResults, "finish", emit_and_keep):
        yield


@mutant(
    id="final-results-of-one-attempt",
    breaks="exactly_once",
    summary="the final results are those of the keys that came since the restore",
    families=("final_totals",),
)
def final_results_of_one_attempt(reached: Reached) -> Iterator[None]:
    """The restored keys without a record in the last attempt have no result."""
    open_operator, finish = FinalResults.open, FinalResults.finish
    process = FinalResults.process_batch
    came: dict[int, set[object]] = {}

    def open_with_no_key(self: FinalResults, context: OperatorContext) -> None:
        open_operator(self, context)
        came[id(self)] = set()

    def note_keys(self: FinalResults, records: list[Record], input_index: int) -> list[Record]:
        came[id(self)].update(self.key_of(value) for value, _ in records)
        return process(self, records, input_index)

    def emit_what_came(self: FinalResults) -> list[Record]:
        old = [key for key in self.table if key not in came[id(self)]]
        if old:
            reached()
        for key in old:
            self.table.pop(key, None)
        return finish(self)

    with (
        replaced(FinalResults, "open", open_with_no_key),
        replaced(FinalResults, "process_batch", note_keys),
        replaced(FinalResults, "finish", emit_what_came),
    ):
        yield
