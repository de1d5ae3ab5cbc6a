"""Mutants of map, filter, flat-map and reduce functions with keyed state: wrong keys, and lost state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.elements import Record
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.reduce import STATE_NAME, RichReduceOperator
from onceproof.engine.operators.rich import KeyedFunctionOperator, KeyedMapOperator
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.snapshot import KeyedSnapshot
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="rich-map-keeps-the-first-key",
    breaks="exactly_once",
    summary="a map function has the state of the buffer's first key for all records of the buffer",
    families=("rich_functions",),
)
def rich_map_keeps_the_first_key(reached: Reached) -> Iterator[None]:
    """It shows where a buffer holds records of two keys."""

    def one_key(self: KeyedMapOperator, records: list[Record], input_index: int) -> list[Record]:
        backend = self.begin_buffer(records)
        if records:
            backend.current_key = self._key_selector(records[0][0])
        if any(self._key_selector(value) != backend.current_key for value, _ in records):
            reached()
        return [(self.function.map(value), timestamp) for value, timestamp in records]

    with replaced(KeyedMapOperator, "process_batch", one_key):
        yield


@mutant(
    id="rich-functions-forget",
    breaks="exactly_once",
    summary="a map, filter or flat-map function restores no keyed state in any subtask but the first",
    families=("rich_functions",),
)
def rich_functions_forget(reached: Reached) -> Iterator[None]:
    """Only subtasks past the first forget, so that a job of one subtask is right."""
    create = KeyedFunctionOperator.create_backend

    def forgetful(self: KeyedFunctionOperator, context: OperatorContext) -> KeyedStateBackend:
        if context.subtask and context.keyed is not None:
            reached()
            context.keyed = None
        return create(self, context)

    with replaced(KeyedFunctionOperator, "create_backend", forgetful):
        yield


@mutant(
    id="state-beside-a-reduction-is-not-kept",
    breaks="exactly_once",
    summary="a snapshot of a reduce function holds the reduced values but not the function's own state",
    families=("rich_functions",),
)
def state_beside_a_reduction_is_not_kept(reached: Reached) -> Iterator[None]:
    """After a restore the function's own state begins anew."""
    snapshot = RichReduceOperator.snapshot

    def only_reduced(self: RichReduceOperator, checkpoint_id: int, timestamp_ms: int) -> Any:
        taken = snapshot(self, checkpoint_id, timestamp_ms)
        if taken is not None and isinstance(taken.keyed, KeyedSnapshot):
            own = [table for table in taken.keyed.tables if table.name != STATE_NAME]
            for table in own:
                reached()
                taken.keyed.tables.remove(table)
        return taken

    with replaced(RichReduceOperator, "snapshot", only_reduced):
        yield
