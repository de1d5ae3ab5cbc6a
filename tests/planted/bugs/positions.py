"""Mutants of positions and copies: what a source has read, who reads it on, who has broadcast state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy

from onceproof.engine.checkpoint import redistribution
from onceproof.engine.checkpoint.redistribution import Slice, deal_out
from onceproof.engine.elements import Record
from onceproof.engine.operators.source import STATE_NAME, SourceOperator
from onceproof.engine.state.snapshot import ListSnapshot, OperatorSnapshot
from onceproof.engine.state.stored import BROADCAST, SPLIT_DISTRIBUTE
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

_States = Iterable[tuple[str, str, Sequence[tuple[int, int]]]]
_Dealt = list[dict[str, tuple[str, list[Slice]]]]


@mutant(
    id="positions-are-read-when-the-snapshot-is-written",
    origin="SAMZA-1384",
    breaks="exactly_once",
    summary="the positions of a checkpoint are those of when it is written, behind its state",
)
def positions_are_read_when_the_snapshot_is_written(reached: Reached) -> Iterator[None]:
    """Records that were read in between are in no state, and are not read again."""
    snapshot, poll = SourceOperator.snapshot, SourceOperator.poll
    under_way: dict[int, tuple[SourceOperator, ListSnapshot]] = {}

    def kept(self: SourceOperator, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot:
        taken = snapshot(self, checkpoint_id, timestamp_ms)
        assert taken.operator is not None
        for each in taken.operator.lists:
            if each.name == STATE_NAME:
                under_way[id(self)] = self, each
        return taken

    def moving(self: SourceOperator, limit: int) -> list[Record]:
        records = poll(self, limit)
        if records and id(self) in under_way:
            _, positions = under_way[id(self)]
            reached()
            positions.elements[:] = [
                [split, deepcopy(position)] for split, position in self.positions().items()
            ]
        return records

    with replaced(SourceOperator, "snapshot", kept), replaced(SourceOperator, "poll", moving):
        yield


@mutant(
    id="old-readers-keep-their-splits-after-a-rescale",
    origin="risingwave#18553",
    breaks="exactly_once",
    summary="a rescale gives splits to new subtasks, and does not take them from the old ones",
)
def old_readers_keep_their_splits_after_a_rescale(reached: Reached) -> Iterator[None]:
    """Both read them."""

    def also_to_the_old_ones(states: _States, subtasks: Sequence[int], old: int, new: int) -> _Dealt:
        states = list(states)
        dealt = deal_out(states, subtasks, old, new)
        for name, mode, counts in states:
            if name != STATE_NAME or mode != SPLIT_DISTRIBUTE or new <= old:
                continue
            for place, count in counts:
                share = dealt[subtasks[place]]
                others = [each for each in share.get(name, (mode, []))[1] if each[0] != place]
                kept: list[Slice] = sorted([*others, (place, range(count))], key=lambda each: each[0])
                if share.get(name) != (mode, kept):
                    reached()
                share[name] = (mode, kept)
        return dealt

    with replaced(redistribution, "deal_out", also_to_the_old_ones):
        yield


@mutant(
    id="finished-subtasks-come-back-without-broadcast-state",
    origin="FLINK-23475",
    breaks="exactly_once",
    summary="at the same parallelism a subtask has the broadcast state that it has stored itself",
    unseen="a subtask that has finished alone has no input left after the restore",
)
def finished_subtasks_come_back_without_broadcast_state(reached: Reached) -> Iterator[None]:
    """One that had finished has stored none, and it runs again after a restore."""

    def only_their_own(states: _States, subtasks: Sequence[int], old: int, new: int) -> _Dealt:
        states = list(states)
        dealt = deal_out(states, subtasks, old, new)
        if old != new:
            return dealt
        for name, mode, counts in states:
            if mode != BROADCAST:
                continue
            stored: dict[int, list[Slice]] = {subtasks[place]: [(place, range(n))] for place, n in counts}
            for subtask, share in enumerate(dealt):
                if subtask in stored:
                    share[name] = (mode, stored[subtask])
                else:
                    reached()
                    share.pop(name, None)
        return dealt

    with replaced(redistribution, "deal_out", only_their_own):
        yield
