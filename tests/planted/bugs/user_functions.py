"""Mutants of what calls users' functions: inputs taken for one another, keys skipped, times not taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from onceproof.engine.api.aggregations import ExtremeElement
from onceproof.engine.broadcast_functions import KeyedBroadcastProcessFunction, KeyedStateFunction
from onceproof.engine.elements import Record
from onceproof.engine.operators import firing, process
from onceproof.engine.operators.base import Emit, OperatorContext
from onceproof.engine.operators.co_process import CoMapOperator
from onceproof.engine.operators.side_outputs import emit_side_outputs
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.owned import ValueWatch, own
from onceproof.engine.state.descriptors import StateDescriptor
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

SideOutputs: TypeAlias = Mapping[str, Sequence[Emit]]


@mutant(
    id="broadcast-skips-the-last-key",
    breaks="exactly_once",
    summary="apply_to_keyed_state leaves out the last of several keys",
    families=("bonuses",),
)
def broadcast_skips_the_last_key(reached: Reached) -> Iterator[None]:
    """The owner of the last key misses what was broadcast."""
    context = KeyedBroadcastProcessFunction.Context
    sound = context.apply_to_keyed_state

    def hasty(
        self: Any, descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
    ) -> None:
        apply = function.process if isinstance(function, KeyedStateFunction) else function
        keys: list[Any] = []
        sound(self, descriptor, lambda key, state: keys.append(key))
        last = keys[-1] if len(keys) > 1 else None
        if last is not None:
            reached()
        sound(self, descriptor, lambda key, state: None if key == last else apply(key, state))

    with replaced(context, "apply_to_keyed_state", hasty):
        yield


@mutant(
    id="max-by-keeps-the-last-of-equals",
    breaks="exactly_once",
    summary="min_by and max_by keep the last of equal extremes, not the first",
    families=("rolling_readings",),
)
def max_by_keeps_the_last_of_equals(reached: Reached) -> Iterator[None]:
    """It shows in the other fields of the element."""
    sound = ExtremeElement.reduce

    def late(self: ExtremeElement, value1: Any, value2: Any) -> Any:
        kept = sound(self, value1, value2)
        if kept is value1 and sound(self, value2, value1) is value2:
            reached()
            return value2
        return kept

    with replaced(ExtremeElement, "reduce", late):
        yield


@mutant(
    id="co-map-takes-inputs-for-one-another",
    breaks="exactly_once",
    summary="a co-map function whose task is not the first maps each input by the method of the other one",
    families=("order_lines",),
)
def co_map_takes_inputs_for_one_another(reached: Reached) -> Iterator[None]:
    """It shows where there are several subtasks."""
    sound = CoMapOperator.open

    def swapped(self: CoMapOperator, context: OperatorContext) -> None:
        sound(self, context)
        if context.subtask:
            reached()
            first, second = self._methods
            self._methods = second, first

    with replaced(CoMapOperator, "open", swapped):
        yield


@mutant(
    id="timestamps-of-the-source-stay",
    breaks="exactly_once",
    summary="a timestamp assigner behind the source is not asked for records that have a timestamp",
    families=("visits_and_purchases",),
)
def timestamps_of_the_source_stay(reached: Reached) -> Iterator[None]:
    """Records are in the windows of the timestamps that the source gave them."""
    sound = WatermarkStrategy.create_timestamp_assigner

    def kept(self: WatermarkStrategy) -> TimestampAssigner | None:
        if sound(self) is not None:
            reached()
        return None

    with replaced(WatermarkStrategy, "create_timestamp_assigner", kept):
        yield


@mutant(
    id="side-output-leaves-behind-the-barrier",
    breaks="exactly_once",
    summary="records of a side output leave with what is emitted next, and a barrier may come between",
    families=("textbook_two_phase_commit",),
)
def side_output_leaves_behind_the_barrier(reached: Reached) -> Iterator[None]:
    """The first half of a participant has noted its vote, and the second half has never heard of it."""
    held: dict[int, tuple[SideOutputs, list[Record]]] = {}

    def late(results: list[Record], side_outputs: SideOutputs) -> list[Record]:
        # The outputs are held as well, or others could get their identity.
        _, before = held.pop(id(side_outputs), (side_outputs, []))
        emit_side_outputs(before, side_outputs)
        now: list[Record] = []
        others: list[Record] = []
        for record in results:
            (now if _is_tagged(record[0]) else others).append(record)
        if now:
            reached()
            held[id(side_outputs)] = side_outputs, now
        return others

    with replaced(process, "emit_side_outputs", late), replaced(firing, "emit_side_outputs", late):
        yield


def _is_tagged(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and type(value[0]) is OutputTag


@mutant(
    id="emitted-values-are-not-copied",
    breaks="no_error",
    summary="the next operator gets the list that a function has emitted, and not what was in it then",
    families=("reused_lists",),
)
def emitted_values_are_not_copied(reached: Reached) -> Iterator[None]:
    """The function clears its list, or fills it again, before the next operator reads it."""

    def shared(value: Any) -> Any:
        if own(value) is not value:
            reached()
        return value

    with replaced(ValueWatch, "own_for", lambda self, operator: shared):
        yield
