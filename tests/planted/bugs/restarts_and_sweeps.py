"""Mutants of restarts that meet, of what dead attempts leave behind, and of sinks that clean up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from onceproof.engine.configuration.alignment import AlignmentKind
from onceproof.engine.connectors.two_phase import _STATE, Recovery, TwoPhaseCommitSinkFunction
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.functions import FunctionInitializationContext
from onceproof.engine.job.events import DeploymentFailed, MasterEffect, RestartDue
from onceproof.engine.job.master import JobMaster, JobState
from onceproof.engine.messages import TaskFailed
from onceproof.engine.operators.base import OperatorContext
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.keyed import KeyedStateBackend
from onceproof.engine.state.snapshot import OperatorSnapshot, TaskSnapshot, encode_task_snapshot
from onceproof.engine.state.snapshot import decode_task_snapshot as decode
from onceproof.engine.task.barriers import choice
from onceproof.engine.task.barriers.events import BarrierEffect, StartCheckpoint
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.types import TypeInformation
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

FIRST_ATTEMPT: Final = "1.1"
"""No attempt of the job has died before it."""


@mutant(
    id="failure-during-a-restart-begins-another",
    origin="FLINK-9788",
    breaks="fencing",
    summary="a failure that is reported while the job waits to restart begins another restart beside it",
)
def failure_during_a_restart_begins_another(reached: Reached) -> Iterator[None]:
    """The second one deploys an attempt too, and does not end the attempt of the first."""
    task_failed, restart_due = JobMaster.task_failed, JobMaster.restart_due

    def also_while_restarting(self: JobMaster, event: TaskFailed, now: int) -> Sequence[MasterEffect]:
        if self.state is JobState.RESTARTING and event.attempt == self.attempt:
            # Past the table of transitions, which refuses a restart during a restart.
            self.state = JobState.RUNNING
            return self._schedule_restart(now)
        return task_failed(self, event, now)

    def whatever_has_begun(self: JobMaster, event: RestartDue, now: int) -> Sequence[MasterEffect]:
        if self.state is JobState.RUNNING and event.attempt != self.attempt:
            reached()
            return self.deploy()
        return restart_due(self, event, now)

    with (
        replaced(JobMaster, "task_failed", also_while_restarting),
        replaced(JobMaster, "restart_due", whatever_has_begun),
    ):
        yield


@mutant(
    id="deployment-that-may-be-tried-again-is-forgotten",
    origin="KAFKA-17098",
    breaks="liveness",
    summary="a deployment that fails with an error that may pass is neither carried out nor tried again",
)
def deployment_that_may_be_tried_again_is_forgotten(reached: Reached) -> Iterator[None]:
    """Nothing holds the tasks any more, and the job counts as running."""
    deployment_failed = JobMaster.deployment_failed

    def forgotten(self: JobMaster, event: DeploymentFailed, now: int) -> Sequence[MasterEffect]:
        if not event.may_pass:
            return deployment_failed(self, event, now)
        reached()
        return ()

    with replaced(JobMaster, "deployment_failed", forgotten):
        yield


@mutant(
    id="older-checkpoint-begins-behind-a-newer-one",
    origin="FLINK-17994",
    breaks="no_error",
    summary="a task takes an unaligned checkpoint though it has taken a newer one since that was triggered",
)
def older_checkpoint_begins_behind_a_newer_one(reached: Reached) -> Iterator[None]:
    """Its id is compared with that of the newest checkpoint too early: before it waits for its turn."""

    class WithoutASecondLook(UnalignedBarrierHandler):
        __slots__ = ("known",)

        def __init__(self, channels: int, *, checkpoints_after_tasks_finish: bool = True) -> None:
            super().__init__(channels, checkpoints_after_tasks_finish=checkpoints_after_tasks_finish)
            self.known: set[int] = set()
            """The checkpoints that have begun here, or were given up."""

        def barrier_arrived(
            self, channel: int, barrier: CheckpointBarrier, now: int, effects: list[BarrierEffect]
        ) -> None:
            checkpoint_id = barrier.checkpoint_id
            overtakes = barrier.options.alignment is AlignmentKind.UNALIGNED
            if overtakes and checkpoint_id < self.latest_checkpoint_id and checkpoint_id not in self.known:
                reached()
                self.known.add(checkpoint_id)
                effects.append(StartCheckpoint(barrier))
                return
            super().barrier_arrived(channel, barrier, now, effects)

        def _begin(self, barrier: CheckpointBarrier, now: int, effects: list[BarrierEffect]) -> None:
            self.known.add(barrier.checkpoint_id)
            super()._begin(barrier, now, effects)

        def abort(self, checkpoint_id: int, reason: str, effects: list[BarrierEffect]) -> None:
            self.known.add(checkpoint_id)
            super().abort(checkpoint_id, reason, effects)

    with replaced(choice, "UnalignedBarrierHandler", WithoutASecondLook):
        yield


@mutant(
    id="state-of-a-dead-attempt-is-found-again",
    origin="KAFKA-7192",
    breaks="exactly_once",
    summary="an attempt without a checkpoint to restore goes on with the keyed state of the one that died",
)
def state_of_a_dead_attempt_is_found_again(reached: Reached) -> Iterator[None]:
    """The store is where the dead task had it, and only a checkpoint would have it wiped."""
    make = OperatorContext.keyed_backend
    left: dict[tuple[str, str, int], tuple[str, HashMapStateBackend]] = {}

    def found(self: OperatorContext, key_type: TypeInformation | None) -> KeyedStateBackend:
        backend = make(self, key_type)
        if type(backend) is not HashMapStateBackend:
            return backend
        place = self.job_id, self.operator_id, self.subtask
        if self.attempt == FIRST_ATTEMPT and place in left:
            # What is left is of another run of the job.
            left.clear()
        attempt, dead = left.get(place, ("", backend))
        if self.restored_checkpoint_id is None and attempt not in ("", self.attempt):
            taken = encode_task_snapshot(TaskSnapshot({"": OperatorSnapshot(dead.snapshot())}))
            tables = decode(taken.data, "the store of the dead task")[""].keyed
            if any(table.counts for table in tables.values()):
                reached()
                backend.restore(tables, allow_pickle=self.allow_pickle)
        left[place] = self.attempt, backend
        return backend

    with replaced(OperatorContext, "keyed_backend", found):
        yield


@mutant(
    id="restart-aborts-what-its-own-attempt-has-begun",
    origin="FLINK-7978",
    breaks="exactly_once",
    summary="a subtask that starts aborts open transactions that other subtasks of its attempt have begun",
)
def restart_aborts_what_its_own_attempt_has_begun(reached: Reached) -> Iterator[None]:
    """The ids to clean up are not kept apart from those in use, and subtasks start one after the other."""
    may_abort, abort_unlisted = Recovery.may_abort, TwoPhaseCommitSinkFunction.abort_unlisted
    while_running: list[None] = []

    def of_others_too(self: Recovery, subtask: int, epoch: int, attempt: str, owner: str) -> bool:
        if may_abort(self, subtask, epoch, attempt, owner):
            return True
        is_of_this_attempt = owner == self.owner and attempt == self.attempt
        if while_running or not is_of_this_attempt or subtask == self.subtask:
            return False
        reached()
        return True

    def as_it_was(self: TwoPhaseCommitSinkFunction) -> None:
        while_running.append(None)
        try:
            abort_unlisted(self)
        finally:
            while_running.pop()

    with (
        replaced(Recovery, "may_abort", of_others_too),
        replaced(TwoPhaseCommitSinkFunction, "abort_unlisted", as_it_was),
    ):
        yield


@mutant(
    id="restore-without-state-is-not-finished",
    origin="hazelcast-jet#541",
    breaks="no_leaks",
    summary="a restored sink aborts what dead attempts left open only if its share of the state is not empty",
)
def restore_without_state_is_not_finished(reached: Reached) -> Iterator[None]:
    """The sink hears of the end of a restore with the last entry of the state, and there is none."""
    initialize_state = TwoPhaseCommitSinkFunction.initialize_state

    def with_the_last_entry(self: Any, context: FunctionInitializationContext) -> None:
        is_restored = context.get_restored_checkpoint_id() is not None
        if not is_restored or context.get_operator_state_store().get_list_state(_STATE).get():
            initialize_state(self, context)
            return
        reached()
        self.abort_unknown = lambda recovery: None
        try:
            initialize_state(self, context)
        finally:
            del self.abort_unknown

    with replaced(TwoPhaseCommitSinkFunction, "initialize_state", with_the_last_entry):
        yield
