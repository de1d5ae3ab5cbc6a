"""Mutants of recoveries that follow each other: a restore that is repeated, or comes back to what it left.

One recovery is sound with each of them. The bug shows when restoring is killed itself, when a restored job
restores again before it has made progress, or when key groups return to a subtask that had them before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import CheckpointPlan, CoordinatorEffect, MetadataStored
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.job.events import Deploy, MasterEffect
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import CHECKPOINT
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.task.events import Restore, TaskEffect
from onceproof.engine.task.outputs import HashOutput
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@contextmanager
def without_commits(is_skipped: Callable[[CheckpointMetadata], bool], reached: Reached) -> Iterator[None]:
    """Let restored sinks skip the listed transactions of the checkpoints for which ``is_skipped`` is true.

    It is asked once for each deployment, with what that restores.
    """
    deploy, recover = JobMaster.deploy, TwoPhaseCommitSinkFunction._recover
    skipped = [False]

    def asking(self: JobMaster) -> Sequence[MasterEffect]:
        effects = deploy(self)
        for effect in effects:
            if isinstance(effect, Deploy):
                skipped[0] = effect.restored is not None and is_skipped(effect.restored)
        return effects

    def skipping(
        self: TwoPhaseCommitSinkFunction, stored: tuple[Any, ...], restored_checkpoint_id: int
    ) -> bool:
        current, pending, user_context = stored
        if skipped[0] and pending:
            reached()
            pending = ()
        return recover(self, (current, pending, user_context), restored_checkpoint_id)

    with (
        replaced(JobMaster, "deploy", asking),
        replaced(TwoPhaseCommitSinkFunction, "_recover", skipping),
    ):
        yield


@mutant(
    id="second-restore-commits-nothing",
    origin="KAFKA-16017",
    breaks="exactly_once",
    summary="a checkpoint that was deployed once counts as restored, so the next restore does not commit it",
)
def second_restore_commits_nothing(reached: Reached) -> Iterator[None]:
    """The first restore may have been killed before its sinks have committed."""
    deployed: set[tuple[int, str]] = set()

    def was_deployed(metadata: CheckpointMetadata) -> bool:
        known = (metadata.checkpoint_id, metadata.attempt)
        if known in deployed:
            return True
        deployed.add(known)
        return False

    with without_commits(was_deployed, reached):
        yield


@mutant(
    id="unannounced-checkpoint-is-not-committed",
    origin="SPARK-51682",
    breaks="exactly_once",
    summary="a process that finds a checkpoint which the dead one had not announced does not commit it",
)
def unannounced_checkpoint_is_not_committed(reached: Reached) -> Iterator[None]:
    """Its metadata are durable, so it is complete, and its input is not read again."""
    stored = CheckpointCoordinator.metadata_stored
    announced: set[tuple[int, str]] = set()

    def announcing(self: CheckpointCoordinator, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        announced.add((event.checkpoint_id, self.pending[event.checkpoint_id].attempt))
        return stored(self, event)

    def is_unknown(metadata: CheckpointMetadata) -> bool:
        return (metadata.checkpoint_id, metadata.attempt) not in announced

    with (
        replaced(CheckpointCoordinator, "metadata_stored", announcing),
        without_commits(is_unknown, reached),
    ):
        yield


@mutant(
    id="restart-without-progress-goes-one-back",
    origin="FLINK-5940",
    breaks="consistent_cut",
    summary="a checkpoint whose restore has failed is taken for damaged, and the one before it is restored",
)
def restart_without_progress_goes_one_back(reached: Reached) -> Iterator[None]:
    """Output of the later one is committed already, and is committed again."""
    deploy = JobMaster.deploy
    last: list[tuple[int, str] | None] = [None]

    def falling_back(self: JobMaster) -> Sequence[MasterEffect]:
        effects = list(deploy(self))
        retained = self.coordinator.store.retained
        for place, effect in enumerate(effects):
            if not isinstance(effect, Deploy) or effect.restored is None:
                continue
            known = (effect.restored.checkpoint_id, effect.restored.attempt)
            if known == last[0] and len(retained) > 1 and effect.restored is retained[-1]:
                reached()
                effects[place] = Deploy(effect.attempt, retained[-2])
            last[0] = known
        return effects

    with replaced(JobMaster, "deploy", falling_back):
        yield


@mutant(
    id="key-groups-come-back-as-they-were",
    origin="risingwave#8199",
    breaks="exactly_once",
    summary="a subtask that gets a key group back after two rescales has what the group held at the first",
)
def key_groups_come_back_as_they_were(reached: Reached) -> Iterator[None]:
    """It kept a cache of its key groups, and does not notice that another subtask has changed one since."""
    restore = HashMapStateBackend.restore
    held: dict[tuple[str, Any, int], list[tuple[tuple[int, int], int, bytes]]] = {}

    def with_the_cache(self: HashMapStateBackend, *arguments: Any, **options: Any) -> None:
        restore(self, *arguments, **options)
        mine = self.key_group_range
        for name, table in list(self._restored.items()):
            counts, groups = dict(table.counts), dict(table.groups)
            for group, data in table.groups.items():
                shape = repr((table.kind, table.key_type, table.value_type, table.namespace_type))
                owners = held.setdefault((name, shape, group), [])
                earlier = [each for each in owners if each[0] == mine]
                if earlier and owners[-1][0] != mine:
                    if earlier[-1][2] != data:
                        reached()
                    _, counts[group], groups[group] = earlier[-1]
                owners.append((mine, counts[group], groups[group]))
            self._restored = {**self._restored, name: replace(table, counts=counts, groups=groups)}

    with replaced(HashMapStateBackend, "restore", with_the_cache):
        yield


class _KnownPlaces(dict[Any, int]):
    """A cache from key to channel that also tells another dict what it learns."""

    def __init__(self, known: dict[Any, int], channels: int) -> None:
        super().__init__({key: index % channels for key, index in known.items()})
        self._known = known

    def __setitem__(self, key: Any, index: int) -> None:
        self._known[key] = index
        super().__setitem__(key, index)


@mutant(
    id="key-cache-outlives-the-rescale",
    origin="risingwave#8652",
    breaks="exactly_once",
    summary="senders go on sending known keys to the subtasks that had them before the rescale",
)
def key_cache_outlives_the_rescale(reached: Reached) -> Iterator[None]:
    """Those begin with empty state for the key, and their snapshot holds a key group that is not theirs."""
    known: dict[Any, tuple[int, dict[Any, int]]] = {}

    def shared(self: HashOutput, index_of_key: dict[Any, int]) -> None:
        channels, places = known.setdefault(self._key_selector, (len(self.queues), {}))
        if channels != len(self.queues) and places:
            reached()
        self._index_of_key = _KnownPlaces(places, len(self.queues))

    with replaced(HashOutput, "share_index", shared):
        yield


@mutant(
    id="aborted-ids-are-used-again",
    origin="risingwave#5396",
    breaks="fencing",
    summary="an attempt counts its checkpoints from the restored one, and uses ids of aborted ones again",
)
def aborted_ids_are_used_again(reached: Reached) -> Iterator[None]:
    """What is late of the aborted checkpoint, an upload or a deletion, meets the new one of the same id."""
    begin = CheckpointCoordinator._begin_attempt

    def counting_anew(
        self: CheckpointCoordinator, plan: CheckpointPlan, effects: list[CoordinatorEffect]
    ) -> None:
        assert isinstance(self, CheckpointCoordinator)
        latest = self.store.latest
        next_id = 1 if latest is None else latest.checkpoint_id + 1
        if len(self._attempts) > 1 and next_id < self.next_id:
            reached()
            self.next_id = next_id
        begin(self, plan, effects)

    with replaced(CheckpointCoordinator, "_begin_attempt", counting_anew):
        yield


@mutant(
    id="first-barrier-after-a-restore-is-swallowed",
    origin="risingwave#19756",
    breaks="timeliness",
    summary="a restored task takes the first barrier for the one that its restore has answered",
)
def first_barrier_is_swallowed(reached: Reached) -> Iterator[None]:
    """The first checkpoint after each restore waits for its time-out."""
    restore, take = Task.restore, Task.take_checkpoint
    restored: dict[int, Task] = {}

    def noting(self: Task, event: Restore) -> Sequence[TaskEffect]:
        if event.checkpoint_id is not None and not self.is_source:
            restored[id(self)] = self
        return restore(self, event)

    def swallowing(self: Task, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        if restored.pop(id(self), None) is not None and barrier.kind == CHECKPOINT:
            reached()
            return
        take(self, barrier, effects)

    with replaced(Task, "restore", noting), replaced(Task, "take_checkpoint", swallowing):
        yield
