"""Mutants of sinks without two-phase commit: writers with committers, write-ahead sinks, upsert sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from onceproof.engine.connectors import committables, write_ahead
from onceproof.engine.connectors.committables import CommitState, PendingCommit
from onceproof.engine.connectors.committing import WriterSinkFunction
from onceproof.engine.connectors.idempotent import UpsertSinkFunction
from onceproof.engine.connectors.sink_writer import Committer
from onceproof.engine.connectors.write_ahead import GenericWriteAheadSink, PendingBatch
from onceproof.engine.functions import FunctionInitializationContext, FunctionSnapshotContext
from onceproof.engine.messages import NotifyCheckpointComplete
from onceproof.engine.operators.sink import SinkOperator
from onceproof.engine.task.events import Restore, TaskEffect
from onceproof.engine.task.task import ALIVE, Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="committables-of-the-end-are-lost",
    breaks="exactly_once",
    summary="committables that a writer emits at the end of its input never reach the committer",
)
def committables_of_the_end_are_lost(reached: Reached) -> Iterator[None]:
    """No barrier follows that would carry them, so the final checkpoint must."""
    finish = WriterSinkFunction.finish

    def ending(self: WriterSinkFunction) -> None:
        def lost(checkpoint_id: int) -> None:
            reached()

        self._collect = lost  # type: ignore[method-assign]
        try:
            finish(self)
        finally:
            del self._collect

    with replaced(WriterSinkFunction, "finish", ending):
        yield


@mutant(
    id="FLINK-10377",
    breaks="no_error",
    summary="a sink fails on the notification of a checkpoint that arrives after that of a later one",
)
def overtaken_notification_trips(reached: Reached) -> Iterator[None]:
    """The task forwards the late notification, although the later one has committed everything."""
    completed = Task.checkpoint_completed

    def strict(self: Task, message: NotifyCheckpointComplete) -> Sequence[TaskEffect]:
        is_mine = message.attempt == self.attempt and self.state in ALIVE
        if (
            is_mine
            and message.checkpoint_id < self._last_notified
            and isinstance(self.operators[-1], SinkOperator)
        ):
            reached()
            raise RuntimeError(
                f"checkpoint {message.checkpoint_id} is complete, but nothing is pending for it"
            )
        return completed(self, message)

    with replaced(Task, "checkpoint_completed", strict):
        yield


@mutant(
    id="put-off-is-taken-for-done",
    breaks="exactly_once",
    summary="a commit that its committer asks to retry later is dropped",
)
def put_off_is_taken_for_done(reached: Reached) -> Iterator[None]:
    """The request did not fail, so it is counted as successful."""

    def once(requests: list[PendingCommit], committer: Committer, max_retries: int) -> None:
        committer.commit(tuple(requests))
        for request in requests:
            if request.state is CommitState.RETRY:
                reached()
            if not request.is_done_with:
                request.state = CommitState.COMMITTED

    with replaced(committables, "_try_all", once):
        yield


@mutant(
    id="committables-of-the-newest-only",
    breaks="exactly_once",
    summary="a committer commits what the completed checkpoint lists, but not what earlier checkpoints left",
)
def committables_of_the_newest_only(reached: Reached) -> Iterator[None]:
    """After a lost notification the next one must commit its transactions too."""
    commit_up_to = WriterSinkFunction._commit_up_to

    def newest(self: WriterSinkFunction, checkpoint_id: int) -> None:
        collector = self._collector
        older = {place: each for place, each in collector._batches.items() if place < checkpoint_id}
        for place in older:
            reached()
            del collector._batches[place]
        commit_up_to(self, checkpoint_id)

    with replaced(WriterSinkFunction, "_commit_up_to", newest):
        yield


@mutant(
    id="batch-remembered-before-sent",
    breaks="exactly_once",
    summary="a write-ahead sink records a batch as committed before it sends the batch",
    families=("word_batches",),
)
def batch_remembered_before_sent(reached: Reached) -> Iterator[None]:
    """If the task dies in between, or the target refuses the batch, it is never sent."""

    def hasty(self: GenericWriteAheadSink, batch: PendingBatch) -> bool:
        del self._pending[batch.place]
        try:
            is_sent = self.send_batch(batch)
        except Exception:
            reached()
            raise
        if is_sent:
            self._committer.commit_checkpoint(batch.subtask, batch.checkpoint_id)
        else:
            reached()
        return True

    with replaced(GenericWriteAheadSink, "send_unless_committed", hasty):
        yield


@mutant(
    id="restored-batches-are-forgotten",
    breaks="exactly_once",
    summary="a restored write-ahead sink drops the pending batches of its checkpoint",
)
def restored_batches_are_forgotten(reached: Reached) -> Iterator[None]:
    """Their input is before the restored offsets and is not read again."""
    initialize_state = GenericWriteAheadSink.initialize_state

    def forgetful(self: GenericWriteAheadSink, context: FunctionInitializationContext) -> None:
        initialize_state(self, context)
        if self._pending:
            reached()
        self._pending.clear()

    with replaced(GenericWriteAheadSink, "initialize_state", forgetful):
        yield


@mutant(
    id="batches-are-renamed",
    breaks="consistent_cut",
    summary="a restored write-ahead sink renames its batches, so the target does not recognise them",
)
def batches_are_renamed(reached: Reached) -> Iterator[None]:
    """A batch was sent and the task died before it recorded that; the target accepts it a second time."""
    send = GenericWriteAheadSink.send_unless_committed

    def renamed(self: GenericWriteAheadSink, batch: PendingBatch) -> bool:
        attempt = self.get_runtime_context().get_attempt_id()
        if batch.attempt == attempt:
            return send(self, batch)
        reached()
        anew = PendingBatch(batch.checkpoint_id + 1000, batch.subtask, attempt, 0, batch.values)
        self._pending[anew.place] = self._pending.pop(batch.place)
        return send(self, anew)

    with replaced(GenericWriteAheadSink, "send_unless_committed", renamed):
        yield


@mutant(
    id="batches-without-a-writer",
    breaks="exactly_once",
    summary="a write-ahead sink names its batches by subtask and checkpoint, as another job's sink does",
    families=("word_batches",),
)
def batches_without_a_writer(reached: Reached) -> Iterator[None]:
    """A batch that another job has sent is taken for one of this job, which is dropped."""

    def nameless(*parts: Any) -> PendingBatch:
        reached()
        return PendingBatch(*parts[:5])

    with replaced(write_ahead, "PendingBatch", nameless):
        yield


@mutant(
    id="batch-of-a-stop-waits-for-a-checkpoint",
    breaks="consistent_cut",
    summary="an attempt that only commits the savepoint of a stop leaves the batches of write-ahead sinks",
    families=("word_batches",),
)
def batch_of_a_stop_waits_for_a_checkpoint(reached: Reached) -> Iterator[None]:
    """No checkpoint follows; a job that was drained ends without these rows."""
    restore = Task.restore

    def waiting(self: Task, event: Restore) -> Sequence[TaskEffect]:
        if self.settings.only_commits:
            reached()
            self.settings = msgspec.structs.replace(self.settings, only_commits=False)
        return restore(self, event)

    with replaced(Task, "restore", waiting):
        yield


@mutant(
    id="buffer-outlives-the-snapshot",
    breaks="consistent_cut",
    summary="a sink that writes by key does not write what it has buffered before a snapshot",
)
def buffer_outlives_the_snapshot(reached: Reached) -> Iterator[None]:
    """A restored job continues after rows that were only in the buffer."""

    def unflushed(self: UpsertSinkFunction, context: FunctionSnapshotContext) -> None:
        if self._buffer:
            reached()

    with replaced(UpsertSinkFunction, "snapshot_state", unflushed):
        yield


@mutant(
    id="first-of-a-key-is-kept",
    breaks="exactly_once",
    summary="of several buffered rows of a key a sink writes the first one",
)
def first_of_a_key_is_kept(reached: Reached) -> Iterator[None]:
    """The buffer drops later rows of a key as repetitions."""
    invoke = UpsertSinkFunction.invoke

    def dropping(self: UpsertSinkFunction, value: object, context: object) -> None:
        if self.key_of(value) in self._buffer:
            reached()
        else:
            invoke(self, value, context)

    with replaced(UpsertSinkFunction, "invoke", dropping):
        yield
