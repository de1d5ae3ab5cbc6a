"""Mutants of what calls users' functions: inputs taken for one another, keys skipped, times not taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from onceproof.engine.api.aggregations import ExtremeElement
from onceproof.engine.broadcast_functions import KeyedBroadcastProcessFunction, KeyedStateFunction
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.operators.co_process import CoMapOperator
from onceproof.engine.state.descriptors import StateDescriptor
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


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
