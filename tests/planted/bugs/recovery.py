"""Mutants of recovery: the wrong checkpoint, checkpoint id, attempt name or key groups after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onceproof.engine.checkpoint import redistribution
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata
from onceproof.engine.job.events import Deploy, MasterEffect
from onceproof.engine.job.master import JobMaster
from onceproof.engine.key_groups import key_group_range
from onceproof.engine.runtime import recovery
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


@mutant(
    id="FLINK-22502",
    breaks="consistent_cut",
    summary="a restart restores an older checkpoint than the latest completed one",
)
def older_checkpoint_is_restored(reached: Reached) -> Iterator[None]:
    """Output of the latest checkpoint is committed already, and is committed again."""
    deploy = JobMaster.deploy

    def older(self: JobMaster) -> Sequence[MasterEffect]:
        effects = list(deploy(self))
        retained = self.coordinator.store.retained
        for place, effect in enumerate(effects):
            if isinstance(effect, Deploy) and len(retained) > 1:
                reached()
                effects[place] = Deploy(effect.attempt, retained[-2])
        return effects

    with replaced(JobMaster, "deploy", older):
        yield


@mutant(
    id="unreadable-checkpoint-skipped",
    breaks="consistent_cut",
    summary="a new process silently skips metadata that it cannot read, and restores an older checkpoint",
)
def unreadable_checkpoint_is_skipped(reached: Reached) -> Iterator[None]:
    """It cannot read the metadata of a checkpoint that a second attempt of the job took."""
    complete = recovery._complete

    def readable(
        storage: recovery.RecoverableStorage,
        known: Mapping[int, CheckpointMetadata | None],
        skips_damaged: bool,
    ) -> tuple[CheckpointMetadata, ...]:
        found = complete(storage, known, skips_damaged)
        kept = tuple([each for each in found if each.attempt.endswith(".1")])
        if len(kept) < len(found):
            reached()
        return kept

    with replaced(recovery, "_complete", readable):
        yield


@mutant(
    id="checkpoint-ids-begin-anew",
    breaks="no_error",
    summary="a new process counts its checkpoints from 1 again, though it restored a later one",
)
def checkpoint_ids_begin_anew(reached: Reached) -> Iterator[None]:
    """The counter was in memory only."""
    initialise = CheckpointCoordinator.__init__

    def from_one(self: CheckpointCoordinator, *arguments: Any, **options: Any) -> None:
        initialise(self, *arguments, **options)
        if self.next_id != 1:
            reached()
            self.next_id = 1

    with replaced(CheckpointCoordinator, "__init__", from_one):
        yield


@mutant(
    id="incarnation-repeats",
    breaks="fencing",
    summary="every process of a job takes the same incarnation, so attempts of two of them share a name",
)
def incarnation_repeats(reached: Reached) -> Iterator[None]:
    """Resources that are fenced by the attempt's name are no longer fenced."""
    claim = recovery._claim

    def always_the_first(
        storage: recovery.RecoverableStorage, above: int, token: str
    ) -> tuple[int, list[str]]:
        incarnation, paths = claim(storage, above, token)
        if incarnation > 1:
            reached()
        return 1, paths

    with replaced(recovery, "_claim", always_the_first):
        yield


@mutant(
    id="key-groups-cut-unevenly",
    breaks="exactly_once",
    summary="after a rescale the files are assigned by key group ranges that are rounded the wrong way",
    families=SMALL_JOBS,
)
def key_groups_cut_unevenly(reached: Reached) -> Iterator[None]:
    """A key group at the border of two ranges is in neither, and its keys start from empty state."""
    deal = redistribution.deal_keyed

    def rounded_down(max_parallelism: int, parallelism: int, index: int) -> tuple[int, int]:
        low = index * max_parallelism // parallelism
        high = (index + 1) * max_parallelism // parallelism - 1
        if (low, high) != key_group_range(max_parallelism, parallelism, index):
            reached()
        return low, high

    def deal_rounded(operator: OperatorMetadata, parallelism: int, max_parallelism: int) -> Any:
        if parallelism == operator.parallelism:
            return deal(operator, parallelism, max_parallelism)
        with replaced(redistribution, "key_group_range", rounded_down):
            return deal(operator, parallelism, max_parallelism)

    with replaced(redistribution, "deal_keyed", deal_rounded):
        yield


@mutant(
    id="key-groups-stay-with-their-subtask",
    breaks="exactly_once",
    summary="after a rescale subtask i restores the file of the old subtask i, and no other",
)
def key_groups_stay_with_their_subtask(reached: Reached) -> Iterator[None]:
    """State is assigned by subtask index, as without a rescale."""
    deal = redistribution.deal_keyed

    def by_index(operator: OperatorMetadata, parallelism: int, max_parallelism: int) -> Any:
        dealt = deal(operator, parallelism, max_parallelism)
        if parallelism == operator.parallelism:
            return dealt
        kept = []
        for subtask, shares in enumerate(dealt):
            own = operator.subtasks[subtask].handle if subtask < len(operator.subtasks) else None
            kept.append(tuple([share for share in shares if share[0] is own]))
        if kept != dealt:
            reached()
        return kept

    with replaced(redistribution, "deal_keyed", by_index):
        yield


@mutant(
    id="odd-elements-are-dropped",
    breaks="exactly_once",
    summary="after a rescale the elements of a list state that do not divide evenly are lost",
)
def odd_elements_are_dropped(reached: Reached) -> Iterator[None]:
    """An element is a split with its offset, or the transactions of a sink."""
    split = redistribution.split

    def evenly(
        name: str,
        counts: Sequence[tuple[int, int]],
        dealt: list[dict[str, tuple[str, list[redistribution.Slice]]]],
        start: int,
    ) -> int:
        following = split(name, counts, dealt, start)
        for visit in range(sum(count for _, count in counts) % len(dealt)):
            reached()
            _, slices = dealt[(start + visit) % len(dealt)][name]
            holder, taken = slices[-1]
            slices[-1] = (holder, taken[:-1])
        return following

    with replaced(redistribution, "split", evenly):
        yield
