"""Mutants of edges that are neither keyed nor in turn: random ones, and those with a custom partitioner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onceproof.engine.checkpoint.in_flight_redistribution as redistribution
from onceproof.engine.checkpoint.in_flight_redistribution import ChoiceFilter, SubtaskMapper
from onceproof.engine.elements import Record
from onceproof.engine.graph import PartitionerKind
from onceproof.engine.task import outputs
from onceproof.engine.task.outputs import Queue
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

FAMILIES = ("parcels",)


@mutant(
    id="custom-edge-dealt-out-in-turn",
    breaks="exactly_once",
    summary="records in flight to a custom partitioner are dealt out in turn after a rescale",
    families=FAMILIES,
)
def custom_edge_dealt_out_in_turn(reached: Reached) -> Iterator[None]:
    """They reach subtasks that the partitioner would not choose."""

    class InTurn(dict[PartitionerKind, SubtaskMapper]):
        def __getitem__(self, kind: PartitionerKind) -> SubtaskMapper:
            if kind is PartitionerKind.CUSTOM:
                reached()
                return SubtaskMapper.ROUND_ROBIN
            return super().__getitem__(kind)

    mappers: Mapping[PartitionerKind, SubtaskMapper] = redistribution.MAPPERS
    with replaced(redistribution, "MAPPERS", InTurn(mappers)):
        yield


@mutant(
    id="custom-edge-not-filtered",
    breaks="exactly_once",
    summary="after a rescale each subtask keeps all records in flight to a custom partitioner",
    families=FAMILIES,
)
def custom_edge_not_filtered(reached: Reached) -> Iterator[None]:
    """Each of them is processed once in every subtask."""
    sound = ChoiceFilter.keep

    def keep_all(self: ChoiceFilter, records: Iterable[Record]) -> list[Record]:
        every = list(records)
        if sound(self, every) != every:
            reached()
        return every

    with replaced(ChoiceFilter, "keep", keep_all):
        yield


@mutant(
    id="last-channel-gets-nothing",
    breaks="exactly_once",
    summary="what is chosen for the last channel of a random or custom edge is dropped",
    families=FAMILIES,
)
def last_channel_gets_nothing(reached: Reached) -> Iterator[None]:
    """A loop that ends one too early."""
    sound = outputs._append_split

    def all_but_the_last(queues: Sequence[Queue], records: list[Record], chosen: Sequence[int]) -> None:
        last = len(queues) - 1
        kept = [place for place, index in enumerate(chosen) if index != last]
        if len(kept) < len(records):
            reached()
        sound(queues, [records[place] for place in kept], [chosen[place] for place in kept])

    with replaced(outputs, "_append_split", all_but_the_last):
        yield
