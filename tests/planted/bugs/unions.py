"""Mutants of union list state: at the end of an operator, and where it is restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onceproof.engine.checkpoint import redistribution
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import CoordinatorEffect
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.checkpoint.pending import PendingCheckpoint
from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import TaskId
from onceproof.engine.state.stored import SPLIT_DISTRIBUTE, UNION
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="subtasks-with-union-state-end-alone",
    breaks="liveness",
    summary="a checkpoint completes when some, but not all, subtasks with union list state are at their end",
    families=("raw_numbers",),
)
def subtasks_with_union_state_end_alone(reached: Reached) -> Iterator[None]:
    """The subtasks at their end finish with it; the others are left without any further checkpoint."""
    sound = PendingCheckpoint._check_partly_finished

    def finished_only(self: PendingCheckpoint, vertex: JobVertex, ended: frozenset[TaskId]) -> None:
        if ended != self._finished:
            reached()
        sound(self, vertex, self._finished)

    with replaced(PendingCheckpoint, "_check_partly_finished", finished_only):
        yield


@mutant(
    id="last-completion-not-repeated",
    breaks="liveness",
    summary="a subtask with union list state that missed its last completion is not notified of it again",
    families=("raw_numbers",),
)
def last_completion_not_repeated(reached: Reached) -> Iterator[None]:
    """The others have finished, so no later checkpoint can let it finish."""
    sound = CheckpointCoordinator.notify

    def once(
        self: CheckpointCoordinator,
        completed: PendingCheckpoint | CheckpointMetadata,
        subsumed_id: int,
        effects: list[CoordinatorEffect],
    ) -> None:
        if isinstance(completed, PendingCheckpoint):
            sound(self, completed, subsumed_id, effects)
        else:
            reached()

    with replaced(CheckpointCoordinator, "notify", once):
        yield


@mutant(
    id="union-state-is-split",
    breaks="exactly_once",
    summary="each subtask is restored with its share of a union list instead of all its elements",
    families=("raw_numbers",),
)
def union_state_is_split(reached: Reached) -> Iterator[None]:
    """A subtask that reads the split of another one from now on lacks what was kept for it."""
    sound = redistribution.deal_out

    def shared_out(
        states: Iterable[tuple[str, str, Sequence[tuple[int, int]]]],
        subtasks: Sequence[int],
        old_parallelism: int,
        new_parallelism: int,
    ) -> list[dict[str, Any]]:
        listed = list(states)
        unions = {name for name, mode, _ in listed if mode == UNION}
        if unions and new_parallelism > 1:
            reached()
        split = [(name, SPLIT_DISTRIBUTE if mode == UNION else mode, counts) for name, mode, counts in listed]
        dealt: list[dict[str, Any]] = sound(split, subtasks, old_parallelism, new_parallelism)
        return [
            {name: (UNION if name in unions else mode, taken) for name, (mode, taken) in share.items()}
            for share in dealt
        ]

    with replaced(redistribution, "deal_out", shared_out):
        yield
