"""Mutants of output that no checkpoint has yet: when it is prepared, and who may commit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.engine.connectors.write_ahead import GenericWriteAheadSink, PendingBatch
from onceproof.engine.elements import BarrierAnnouncement, CancelCheckpointMarker, CheckpointBarrier
from onceproof.engine.functions import FunctionSnapshotContext
from onceproof.engine.job.events import MasterEffect
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import AttemptId
from onceproof.engine.task.events import Deliver, Poll, Restore, TaskEffect, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

_OF_CHECKPOINTS: Final = (CheckpointBarrier, BarrierAnnouncement, CancelCheckpointMarker)


@contextmanager
def _noted_writes(note: Callable[[TwoPhaseCommitSinkFunction], None]) -> Iterator[None]:
    """Call ``note`` with a sink before each row or batch that it is given."""
    invoke, invoke_batch = TwoPhaseCommitSinkFunction.invoke, TwoPhaseCommitSinkFunction.invoke_batch

    def one(self: TwoPhaseCommitSinkFunction, value: Any, context: Any) -> None:
        note(self)
        invoke(self, value, context)

    def many(self: TwoPhaseCommitSinkFunction, values: list[Any]) -> bool:
        note(self)
        return invoke_batch(self, values)

    with (
        replaced(TwoPhaseCommitSinkFunction, "invoke", one),
        replaced(TwoPhaseCommitSinkFunction, "invoke_batch", many),
    ):
        yield


@mutant(
    id="output-of-timers-alone-is-not-prepared",
    origin="KAFKA-6906",
    breaks="exactly_once",
    summary="a checkpoint does not prepare output that timers have sent since a record was read last",
)
def output_of_timers_alone_is_not_prepared(reached: Reached) -> Iterator[None]:
    """The transaction stays open, and a failure aborts it."""
    handle, take = Task.handle, Task.take_checkpoint
    snapshot_state = TwoPhaseCommitSinkFunction.snapshot_state
    has_read: dict[int, Task] = {}
    written: dict[int, TwoPhaseCommitSinkFunction] = {}
    taking: list[Task] = []

    def reads(task: Task, event: TaskEvent) -> bool:
        if isinstance(event, Deliver):
            return type(task.queues[event.channel][0]) not in _OF_CHECKPOINTS
        return isinstance(event, Poll) or (isinstance(event, Restore) and bool(event.in_flight))

    def handled(self: Task, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        if reads(self, event):
            has_read[id(self)] = self
        return handle(self, event, now)

    def taken(self: Task, barrier: CheckpointBarrier, effects: list[TaskEffect]) -> None:
        taking.append(self)
        try:
            take(self, barrier, effects)
        finally:
            taking.pop()
            has_read.pop(id(self), None)

    def note(sink: TwoPhaseCommitSinkFunction) -> None:
        written[id(sink)] = sink

    def only_if_read(self: TwoPhaseCommitSinkFunction, context: FunctionSnapshotContext) -> None:
        if taking and id(taking[-1]) not in has_read and self._open is not None:
            if id(self) in written:
                reached()
            self._state.update([self._stored()])
            return
        written.pop(id(self), None)
        snapshot_state(self, context)

    with (
        replaced(Task, "handle", handled),
        replaced(Task, "take_checkpoint", taken),
        _noted_writes(note),
        replaced(TwoPhaseCommitSinkFunction, "snapshot_state", only_if_read),
    ):
        yield


@mutant(
    id="rescale-commits-what-is-open",
    origin="KAFKA-18943",
    breaks="exactly_once",
    summary="a sink that a rescale takes away commits its open transaction, which no checkpoint has",
)
def rescale_commits_what_is_open(reached: Reached) -> Iterator[None]:
    """Its rows are written again from the checkpoint that is restored."""
    redeploy, close = JobMaster.redeploy, TwoPhaseCommitSinkFunction.close
    revoked: set[AttemptId | None] = set()
    written: dict[int, Any] = {}

    def revoking(self: JobMaster, now: int) -> Sequence[MasterEffect]:
        revoked.add(self.attempt)
        return redeploy(self, now)

    def note(sink: TwoPhaseCommitSinkFunction) -> None:
        written[id(sink)] = sink, sink._open

    def committing(self: TwoPhaseCommitSinkFunction) -> None:
        current = self._open
        if current is not None and self.attempt in revoked:
            if written.get(id(self)) == (self, current):
                reached()
            self._open = None
            self.pre_commit(current.transaction)
            self.commit(current.transaction)
        close(self)

    with (
        replaced(JobMaster, "redeploy", revoking),
        _noted_writes(note),
        replaced(TwoPhaseCommitSinkFunction, "close", committing),
    ):
        yield


@mutant(
    id="sent-batches-looked-up-before-the-old-writer-is-fenced",
    origin="materialize#9249",
    breaks="exactly_once",
    summary="a restored sink asks once what the target has, though its predecessor may still write",
    unseen="equivalent here: the targets of the families recognise a batch that is sent twice",
)
def sent_batches_looked_up_too_early(reached: Reached) -> Iterator[None]:
    """What the predecessor sends after the question is sent again."""
    send = GenericWriteAheadSink.send_unless_committed

    def not_asking_again(self: GenericWriteAheadSink, batch: PendingBatch) -> bool:
        if batch.attempt == self.get_runtime_context().get_attempt_id():
            return send(self, batch)
        committer = self._committer_of(batch)
        if committer.is_checkpoint_committed(batch.subtask, batch.checkpoint_id):
            reached()
        if not self.send_batch(batch):
            return False
        committer.commit_checkpoint(batch.subtask, batch.checkpoint_id)
        del self._pending[batch.place]
        return True

    with replaced(GenericWriteAheadSink, "send_unless_committed", not_asking_again):
        yield
