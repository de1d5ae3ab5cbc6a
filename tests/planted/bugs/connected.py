"""Mutants of operators with two inputs: equal keys do not meet, event time ignores a side, copies diverge.

Both inputs share the keyed state of a key, and all subtasks hold the same broadcast state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from onceproof.engine.checkpoint import redistribution
from onceproof.engine.graph import JobEdge, PartitionerKind
from onceproof.engine.job import deployment
from onceproof.engine.operators.broadcast import BroadcastOperator
from onceproof.engine.state.stored import BROADCAST
from onceproof.engine.task.outputs import HashOutput, Output, build_output
from onceproof.engine.types import Types
from onceproof.engine.watermarks.combined import CombinedInputs
from onceproof.engine.watermarks.valve import TimeElement
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

BROADCASTING: Final = ("behaviour_patterns", "flight_delays")
"""The families whose jobs have broadcast state."""


@mutant(
    id="new-subtasks-have-no-broadcast-state",
    breaks="exactly_once",
    summary="after a rescale only as many subtasks have the broadcast state as had it before",
    families=BROADCASTING,
)
def new_subtasks_have_no_broadcast_state(reached: Reached) -> Iterator[None]:
    """The copies diverge: new subtasks lack the state that was broadcast before the checkpoint."""

    def emptied(whole: list[tuple[int, range]], subtask: int, old: int) -> Any:
        if subtask < old:
            return whole
        return [(place, range(0)) for place, _ in whole]

    with _broadcast_dealt_out(emptied, reached):
        yield


@mutant(
    id="broadcast-state-is-split",
    breaks="exactly_once",
    summary="after a rescale broadcast state is split over the subtasks, as if it were a list",
    families=BROADCASTING,
)
def broadcast_state_is_split(reached: Reached) -> Iterator[None]:
    """A map with one entry is restored by the first subtask only."""

    def dealt(whole: list[tuple[int, range]], subtask: int, old: int) -> Any:
        return whole if subtask == 0 else [(place, range(0)) for place, _ in whole]

    with _broadcast_dealt_out(dealt, reached):
        yield


@mutant(
    id="broadcast-state-not-stored",
    breaks="exactly_once",
    summary="a snapshot of an operator beside a broadcast stream is without its broadcast state",
    families=BROADCASTING,
)
def broadcast_state_not_stored(reached: Reached) -> Iterator[None]:
    """After a restore all subtasks lack the state that was broadcast before the checkpoint."""
    sound = BroadcastOperator.snapshot

    def forgetful(self: BroadcastOperator, checkpoint_id: int, timestamp_ms: int) -> Any:
        snapshot = sound(self, checkpoint_id, timestamp_ms)
        assert snapshot is not None
        assert snapshot.operator is not None
        for state in snapshot.operator.lists:
            if state.mode == BROADCAST and state.elements:
                reached()
                state.elements = []
        return snapshot

    with replaced(BroadcastOperator, "snapshot", forgetful):
        yield


@mutant(
    id="second-input-under-other-key-groups",
    breaks="exactly_once",
    summary="the keys of the second input are placed as if they had another type than those of the first",
)
def second_input_under_other_key_groups(reached: Reached) -> Iterator[None]:
    """Equal keys of the two inputs are in different subtasks and do not meet."""

    def built(edge: JobEdge, *arguments: Any) -> Output:
        partitioner = edge.partitioner
        if edge.input_number == 0 or partitioner.kind is not PartitionerKind.HASH:
            return build_output(edge, *arguments)
        select_key = partitioner.key_selector
        assert select_key is not None
        wrapped = replace(
            partitioner, key_selector=_WrappedKey(select_key), key_type=Types.TUPLE([Types.DYNAMIC()] * 2)
        )
        output = build_output(replace(edge, partitioner=wrapped), *arguments)
        if isinstance(output, HashOutput):
            reached()
        return output

    with replaced(deployment, "build_output", built):
        yield


@mutant(
    id="the-first-input-leads",
    breaks="exactly_once",
    summary="event time of an operator is that of its first input, however far the second one is behind",
)
def the_first_input_leads(reached: Reached) -> Iterator[None]:
    """State that waits for records of the second input expires before they arrive."""
    sound = CombinedInputs.take

    def of_the_first(
        self: CombinedInputs, number: int, elements: Iterable[TimeElement]
    ) -> Sequence[TimeElement]:
        elements = tuple(elements)
        own = () if number else elements
        if tuple(sound(self, number, elements)) != own:
            reached()
        return own

    with replaced(CombinedInputs, "take", of_the_first):
        yield


class _WrappedKey:
    """A selector whose keys are of another type, and in other key groups."""

    def __init__(self, select_key: Callable[[Any], Any]) -> None:
        self._select_key = select_key

    def __call__(self, value: Any) -> tuple[Any, Any]:
        # A tuple of one element hashes like the element, as in Flink.
        key = self._select_key(value)
        return key, key


def _broadcast_dealt_out(change: Callable[[Any, int, int], Any], reached: Reached) -> Any:
    """Apply ``change`` to each subtask's copy of broadcast state if the parallelism has changed."""
    sound = redistribution.deal_out

    def changed(states: Any, subtasks: Any, old_parallelism: int, new_parallelism: int) -> Any:
        dealt = sound(states, subtasks, old_parallelism, new_parallelism)
        if old_parallelism == new_parallelism:
            return dealt
        for subtask, share in enumerate(dealt):
            for name, (mode, whole) in share.items():
                if mode == BROADCAST:
                    kept = change(whole, subtask, old_parallelism)
                    if kept != whole:
                        reached()
                    share[name] = (mode, kept)
        return dealt

    return replaced(redistribution, "deal_out", changed)
