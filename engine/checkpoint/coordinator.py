"""Decides when checkpoints begin, and which of them complete (Flink: CheckpointCoordinator).

The rules it lives by:

- A checkpoint begins only when every task of the attempt runs or has finished. Tasks without a running
  upstream are triggered, all tasks that have not finished must answer.
- It is complete when its metadata is durable, which is written after all else. Only then are older ones
  subsumed, and the tasks told. Notifications are sent once and never repeated.
- While metadata is being written the outcome is open: neither an expiry nor the end of the attempt aborts
  it, and nothing may be restored before it is known. Otherwise a newer attempt could go on from an older
  checkpoint than the one a later recovery would find.
- The metadata of one checkpoint is written at a time. Were there two writes, a process that dies could leave
  the older one behind although the newer one, which is complete, had already deleted its files.
- Not every checkpoint that does not complete is a failure: one that another checkpoint, the end of a task or
  of the attempt has overtaken says nothing of the job's health, and is not counted.
- An answer of another attempt, or for a checkpoint that is not pending, is dropped and its state discarded.
- Ids rise without gaps to be filled: a restored coordinator goes on after the highest completed id. Ids of
  checkpoints that were never completed may be used again by a later process, which is why attempts count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.checkpoint.events import (
    AttemptEnded,
    AttemptStarted,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointExpired,
    CheckpointPlan,
    CheckpointTriggered,
    CoordinatorEffect,
    CoordinatorEvent,
    DiscardCheckpoint,
    DiscardHandle,
    IntervalElapsed,
    MetadataFailed,
    MetadataStored,
    StartTimer,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from engine.checkpoint.pending import DUPLICATE, UNKNOWN, PartlyFinished, PendingCheckpoint
from engine.checkpoint.store import CompletedCheckpointStore
from engine.configuration import CheckpointSettings
from engine.messages import (
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskFinished,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
)

UNCOUNTED: Final = frozenset(
    (DECLINED_SUBSUMED, DECLINED_ON_CANCELLATION_BARRIER, DECLINED_INPUT_END_OF_STREAM)
)
"""Reasons of a task that are no failures (Flink: CheckpointFailureManager)."""

EXPIRED: Final = "CHECKPOINT_EXPIRED"
FAILOVER: Final = "JOB_FAILOVER_REGION"
SUBSUMED: Final = "CHECKPOINT_SUBSUMED"
TASK_FINISHED: Final = "A task finished before it answered"


class CheckpointCoordinator:
    """The checkpoints of one job over all its attempts in this process."""

    __slots__ = (
        "_failures",
        "_finished",
        "_job_id",
        "_job_name",
        "_last_completion_ms",
        "_next_id",
        "_now",
        "_periodic_due_ms",
        "_plan",
        "_request_is_periodic",
        "_request_waits",
        "_running",
        "_settings",
        "pending",
        "store",
    )

    def __init__(
        self, job_id: str, job_name: str, settings: CheckpointSettings, store: CompletedCheckpointStore
    ) -> None:
        self._job_id = job_id
        self._job_name = job_name
        self._settings = settings
        self.store = store
        self.pending: dict[int, PendingCheckpoint] = {}
        self._plan: CheckpointPlan | None = None
        self._running: set[TaskId] = set()
        self._finished: dict[TaskId, None] = {}
        self._next_id = 1 if store.latest is None else store.latest.checkpoint_id + 1
        self._failures = 0
        self._last_completion_ms: int | None = None
        self._periodic_due_ms = 0
        self._request_waits = False
        self._request_is_periodic = False
        self._now = 0

    def handle(self, event: CoordinatorEvent, now: int) -> Sequence[CoordinatorEffect]:
        """Take one event at ``now`` (milliseconds)."""
        self._now = now
        return getattr(self, _METHODS[type(event)])(event)  # type: ignore[no-any-return]

    @property
    def is_finalizing(self) -> bool:
        """Whether the outcome of a checkpoint is open because its metadata is being written."""
        for pending in self.pending.values():  # noqa: SIM110 (asked after most messages)
            if pending.finalizing:
                return True
        return False

    # Attempts.

    def _attempt_started(self, event: AttemptStarted) -> Sequence[CoordinatorEffect]:
        assert self._plan is None, "an attempt starts while another one runs"
        assert not self.pending, "an attempt starts while a checkpoint is pending"
        self._plan = event.plan
        self._running.clear()
        self._finished.clear()
        self._request_waits = False
        if self._settings.interval_ms is None:
            return ()
        return self._start_interval(event.plan, self._now + self._settings.interval_ms)

    def _attempt_ended(self, event: AttemptEnded) -> Sequence[CoordinatorEffect]:
        self._plan = None
        self._request_waits = False
        effects: list[CoordinatorEffect] = []
        for pending in list(self.pending.values()):
            if not pending.finalizing:
                self._abort(pending, FAILOVER, effects)
        return effects

    def _task_running(self, message: TaskRunning) -> Sequence[CoordinatorEffect]:
        if self._plan is None or message.attempt != self._plan.attempt:
            return ()
        self._running.add(message.task)
        return self._start_waiting_request()

    def _task_finished(self, message: TaskFinished) -> Sequence[CoordinatorEffect]:
        if self._plan is None or message.attempt != self._plan.attempt:
            return ()
        self._finished[message.task] = None
        effects: list[CoordinatorEffect] = []
        for pending in list(self.pending.values()):
            if message.task in pending.missing:
                self._abort(pending, TASK_FINISHED, effects)
        effects.extend(self._start_waiting_request())
        return effects

    # Triggers.

    def _interval_elapsed(self, event: IntervalElapsed) -> Sequence[CoordinatorEffect]:
        plan = self._plan
        if plan is None or event.attempt != plan.attempt or self._now < self._periodic_due_ms:
            return ()
        pause_ends_ms = self._pause_ends_ms()
        if pause_ends_ms > self._now:
            return self._start_interval(plan, pause_ends_ms)
        if not self._request_waits:
            self._request_waits = self._request_is_periodic = True
        interval_ms = self._settings.interval_ms
        assert interval_ms is not None
        return (*self._start_interval(plan, self._now + interval_ms), *self._start_waiting_request())

    def _start_interval(self, plan: CheckpointPlan, due_ms: int) -> Sequence[CoordinatorEffect]:
        """Timers are never cancelled: this one counts from now on, an earlier one is stale."""
        self._periodic_due_ms = due_ms
        return (StartTimer(due_ms, IntervalElapsed(plan.attempt)),)

    def _pause_ends_ms(self) -> int:
        """Until when a periodic request is dropped, and made again when the pause is over."""
        last_ms = self._last_completion_ms
        return 0 if last_ms is None else last_ms + self._settings.min_pause_ms

    def _trigger_requested(self, event: TriggerRequested) -> Sequence[CoordinatorEffect]:
        """One request waits at the most: those that come while it does mean the same."""
        self._request_waits = True
        self._request_is_periodic = False
        return self._start_waiting_request()

    def _start_waiting_request(self) -> Sequence[CoordinatorEffect]:
        plan = self._plan
        if not self._request_waits or plan is None or len(self.pending) >= self._settings.max_concurrent:
            return ()
        if len(self._running) < len(plan.upstreams) or len(self._finished) == len(plan.upstreams):
            return ()
        self._request_waits = False
        if self._request_is_periodic and (pause_ends_ms := self._pause_ends_ms()) > self._now:
            return self._start_interval(plan, pause_ends_ms)
        return self._trigger(plan)

    def _trigger(self, plan: CheckpointPlan) -> Sequence[CoordinatorEffect]:
        checkpoint_id = self._next_id
        self._next_id += 1
        finished = self._finished
        answering = [task for task in plan.upstreams if task not in finished]
        self.pending[checkpoint_id] = PendingCheckpoint(
            checkpoint_id, self._now, plan.attempt, answering, finished
        )
        effects: list[CoordinatorEffect] = [
            CheckpointTriggered(checkpoint_id),
            StartTimer(self._now + self._settings.timeout_ms, CheckpointExpired(plan.attempt, checkpoint_id)),
        ]
        for task in answering:
            upstreams = plan.upstreams[task]
            if not upstreams or finished.keys() >= set(upstreams):
                effects.append(Send(TriggerCheckpoint(plan.attempt, task, checkpoint_id, self._now)))
        return effects

    # Answers.

    def _acknowledged(self, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        pending = self.pending.get(message.checkpoint_id)
        if pending is None or not self._is_of_attempt(message, pending):
            return self._discard_unless_used(message)
        answer = pending.acknowledge(message)
        if answer is UNKNOWN:
            return self._discard_unless_used(message)
        if answer is DUPLICATE or not pending.is_fully_acknowledged:
            return ()
        return self._finalize_next()

    def _finalize_next(self) -> Sequence[CoordinatorEffect]:
        """Have the metadata of the oldest checkpoint written that everyone has answered."""
        if self.is_finalizing:
            return ()
        for pending in self.pending.values():
            if pending.is_fully_acknowledged:
                assert self._plan is not None
                try:
                    metadata = pending.metadata(self._plan, self._job_id, self._job_name)
                except PartlyFinished as error:
                    return self._fail(pending, str(error))
                pending.finalizing = True
                pending.published = metadata
                return (StoreMetadata(metadata),)
        return ()

    def _discard_unless_used(self, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        """A repeated answer names files that a completed checkpoint may live on."""
        handle = message.handle
        if handle is None:
            return ()
        for metadata in self.store.retained:
            if metadata.checkpoint_id == message.checkpoint_id and metadata.attempt == message.attempt:
                return ()
        return (DiscardHandle(handle),)

    def _is_of_attempt(
        self, message: AcknowledgeCheckpoint | DeclineCheckpoint, pending: PendingCheckpoint
    ) -> bool:
        return message.attempt == pending.attempt

    def _declined(self, message: DeclineCheckpoint) -> Sequence[CoordinatorEffect]:
        pending = self.pending.get(message.checkpoint_id)
        if pending is None or pending.finalizing or not self._is_of_attempt(message, pending):
            return ()
        return self._fail(pending, message.reason)

    def _expired(self, event: CheckpointExpired) -> Sequence[CoordinatorEffect]:
        pending = self.pending.get(event.checkpoint_id)
        if pending is None or pending.finalizing or pending.attempt != event.attempt:
            return ()
        return self._fail(pending, EXPIRED)

    def _metadata_failed(self, event: MetadataFailed) -> Sequence[CoordinatorEffect]:
        return self._fail(self.pending[event.checkpoint_id], event.reason)

    def _fail(self, pending: PendingCheckpoint, reason: str) -> Sequence[CoordinatorEffect]:
        effects: list[CoordinatorEffect] = []
        self._abort(pending, reason, effects)
        if reason not in UNCOUNTED:
            self._failures += 1
        if self._failures > self._settings.tolerable_failures:
            self._failures = 0
            effects.append(
                TooManyFailures(
                    f"checkpoint {pending.checkpoint_id} failed ({reason}) and"
                    f" {self._settings.tolerable_failures} failures are tolerated"
                )
            )
        else:
            effects.extend(self._start_waiting_request())
            effects.extend(self._finalize_next())
        return effects

    def _abort(self, pending: PendingCheckpoint, reason: str, effects: list[CoordinatorEffect]) -> None:
        checkpoint_id = pending.checkpoint_id
        del self.pending[checkpoint_id]
        effects.append(CheckpointAborted(checkpoint_id, reason))
        if self._plan is not None and pending.attempt == self._plan.attempt:
            for task in self._plan.upstreams:
                if task not in self._finished:
                    effects.append(Send(NotifyCheckpointAborted(pending.attempt, task, checkpoint_id)))
        effects.append(DiscardCheckpoint(checkpoint_id))

    # Completion.

    def _metadata_stored(self, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        """Take the checkpoint into the store, drop what it replaces, then tell everyone."""
        checkpoint_id = event.checkpoint_id
        pending = self.pending.pop(checkpoint_id)
        assert pending.published is not None
        subsumed = self.store.add(pending.published)
        self._failures = 0
        self._last_completion_ms = self._now
        effects: list[CoordinatorEffect] = [CheckpointCompleted(checkpoint_id)]
        for older in [each for each in self.pending.values() if each.checkpoint_id < checkpoint_id]:
            self._abort(older, SUBSUMED, effects)
        for each in subsumed:
            effects.append(DiscardCheckpoint(each.checkpoint_id))
        plan = self._plan
        if plan is not None and plan.attempt == pending.attempt:
            for task in plan.upstreams:
                if task not in self._finished:
                    effects.append(Send(NotifyCheckpointComplete(plan.attempt, task, checkpoint_id)))
        effects.extend(self._start_waiting_request())
        effects.extend(self._finalize_next())
        return effects

    def validate(self) -> None:
        """What must hold between any two events.

        Raises AssertionError naming what does not.
        """
        if not self.pending:
            return
        latest = self.store.latest
        for checkpoint_id, pending in self.pending.items():
            assert checkpoint_id < self._next_id, f"checkpoint {checkpoint_id} is pending before its time"
            assert latest is None or checkpoint_id > latest.checkpoint_id, (
                f"checkpoint {checkpoint_id} is pending although {latest.checkpoint_id} completed"
            )
            assert pending.finalizing or self._plan is not None, (
                f"checkpoint {checkpoint_id} is pending although no attempt runs"
            )
            assert not pending.finalizing or pending.is_fully_acknowledged, (
                f"checkpoint {checkpoint_id} is finalized before everyone answered"
            )


_METHODS: Final[dict[type, str]] = {
    AcknowledgeCheckpoint: "_acknowledged",
    TaskRunning: "_task_running",
    IntervalElapsed: "_interval_elapsed",
    MetadataStored: "_metadata_stored",
    TaskFinished: "_task_finished",
    DeclineCheckpoint: "_declined",
    CheckpointExpired: "_expired",
    MetadataFailed: "_metadata_failed",
    AttemptStarted: "_attempt_started",
    AttemptEnded: "_attempt_ended",
    TriggerRequested: "_trigger_requested",
}
