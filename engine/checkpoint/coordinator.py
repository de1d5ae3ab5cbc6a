"""Decides when checkpoints begin, and which of them complete (Flink: CheckpointCoordinator).

Rules:

- Waiting requests begin in the order of the queue and within its limits (request_queue.py). A request that
  cannot begin in its turn fails, and its sender gets the reason.
- A checkpoint begins only when every task of the attempt runs or has finished; otherwise its request fails.
  All tasks that have not finished must acknowledge. A task without a running upstream gets no barrier, so it
  is triggered, like a source (Flink: DefaultCheckpointPlanCalculator).
- In BATCH mode tasks that sort decline until their input ends. The interval doubles with each such refusal,
  so that the attempts never use up the time of the records.
- A checkpoint is complete when its metadata is durable, which is written last. Only then are older ones
  subsumed and the tasks notified. Notifications are sent once; only those of the latest are repeated where
  union list state keeps the tasks that missed them from any later checkpoint (pending.py).
- While metadata is being written the outcome is open: neither an expiry nor the end of the attempt aborts it,
  and nothing may be restored before it is known. Otherwise a newer attempt could resume from an older
  checkpoint than the one a later recovery would find.
- The metadata of one checkpoint is written at a time. With two writes, a process that dies could leave the
  older one behind although the newer one, which is complete, had already deleted its files.
- A savepoint belongs to its user: no failover restores it, it subsumes nothing, and tasks get no notification
  of it. Only a synchronous savepoint, which ends the job, notifies the tasks, and aborts the checkpoints
  pending before it. Sinks commit what it lists, so from then on it is the ``latest``.
- An acknowledgement of another attempt, or for a checkpoint that is not pending, is ignored and its state
  discarded.
- Checkpoint ids rise: a restored coordinator continues after the highest completed id. A later process may
  reuse the ids of checkpoints that never completed, so an id counts only together with its attempt.
- Shared files outlive the checkpoint that stored them (shared_registry.py). An aborted checkpoint leaves them
  until a later one is complete; metadata name each file by the path that is valid when they are written.
- Effects go out in Flink's order: the job's failure, aborts, notifications, then the next checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore, is_discardable
from onceproof.engine.checkpoint.events import (
    AbortPending,
    AnsweredTooLate,
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
    DiscardSharedFiles,
    IntervalElapsed,
    MetadataFailed,
    MetadataStored,
    PeriodicTriggerRequested,
    RequestResolved,
    Shutdown,
    StartScheduler,
    StartTimer,
    StopScheduler,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.checkpoint.failure_counter import (
    EXPIRED,
    FAILOVER,
    SCHEDULER_STOPPED,
    SHUT_DOWN,
    SUBSUMED,
    SUSPENDED,
    TASKS_NOT_RUNNING,
    TOO_MANY_REQUESTS,
    WITHIN_MIN_PAUSE,
    FailureCounter,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle
from onceproof.engine.checkpoint.pending import DUPLICATE, SUCCESS, UNKNOWN, PartlyFinished, PendingCheckpoint
from onceproof.engine.checkpoint.request_queue import CheckpointRequest, RequestQueue, TooEarly
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry, UnknownSharedFile
from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.messages import (
    CHECKPOINT,
    DECLINED_IN_BATCH,
    SAVEPOINT,
    SYNC_SAVEPOINT,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskFinished,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
    checkpoint_folder,
)
from onceproof.engine.wall_clock import WallClock


class CheckpointTasks(Struct, frozen=True):
    """The tasks of one checkpoint, in topological order.

    Those that must answer also get the notifications of its outcome.
    """

    triggered: tuple[TaskId, ...]
    answering: tuple[TaskId, ...]


def checkpoint_tasks(
    upstreams: Mapping[TaskId, tuple[TaskId, ...]],
    finished: Collection[TaskId] = (),
    *,
    after_tasks_finish: bool = True,
) -> CheckpointTasks | None:
    """Return the tasks of a checkpoint while those in ``finished`` have finished and all others run.

    None without a checkpoint: all have finished, or some have and ``after_tasks_finish`` is off.
    """
    if not finished:
        sources = [task for task, senders in upstreams.items() if not senders]
        return CheckpointTasks(tuple(sources), tuple(upstreams))
    answering = tuple([task for task in upstreams if task not in finished])
    if not answering or not after_tasks_finish:
        return None
    gone = set(finished)
    triggered = [task for task in answering if gone.issuperset(upstreams[task])]
    return CheckpointTasks(tuple(triggered), answering)


TASK_FINISHED: Final = "A task finished before it answered"
REMEMBERED_EXPIRED_CHECKPOINTS: Final = 16
MOST_DOUBLINGS: Final = 4
"""How often the interval doubles at most while tasks decline in BATCH mode."""
_Completed: TypeAlias = PendingCheckpoint | CheckpointMetadata


class CheckpointCoordinator:
    """The checkpoints of one job over all its attempts in this process."""

    __slots__ = (
        "_attempts",
        "_declines_in_batch",
        "_expired_ids",
        "_failures",
        "_finished",
        "_is_scheduling",
        "_is_shut_down",
        "_job_id",
        "_job_name",
        "_last_completion_ms",
        "_now",
        "_periodic_due_ms",
        "_plan",
        "_requests",
        "_running",
        "_savepoints",
        "_settings",
        "_shared",
        "_undisturbed",
        "_wall_clock",
        "next_id",
        "pending",
        "stopped_with",
        "store",
    )

    def __init__(
        self,
        job_id: str,
        job_name: str,
        settings: CheckpointSettings,
        store: CompletedCheckpointStore,
        next_id: int = 1,
        wall_clock: WallClock | None = None,
    ) -> None:
        latest = store.latest
        self._settings = settings
        self.pending: dict[int, PendingCheckpoint] = {}
        self._plan: CheckpointPlan | None = None
        self._undisturbed: CheckpointTasks | None = None
        """The tasks of a checkpoint of this attempt as long as none has finished."""
        self._running: set[TaskId] = set()
        self._finished: dict[TaskId, None] = {}
        self.next_id = next_id if latest is None else max(next_id, latest.checkpoint_id + 1)
        self._requests = RequestQueue(settings.max_concurrent, settings.min_pause_ms)
        self._last_completion_ms: int | None = None
        self._is_scheduling = False
        self._is_shut_down = False
        self._periodic_due_ms = 0
        self._declines_in_batch = 0
        """How many checkpoints of this attempt tasks have declined because they sort their input first."""
        self._now = 0
        self._wall_clock = wall_clock or WallClock()
        self._job_id = job_id
        self._job_name = job_name
        self.store = store
        self._shared = SharedStateRegistry(store.retained)
        self._failures = FailureCounter(settings.tolerable_failures)
        self._expired_ids: deque[int] = deque(maxlen=REMEMBERED_EXPIRED_CHECKPOINTS)
        self._attempts: set[str] = set()
        """All attempts that have run in this process."""
        self._savepoints: dict[int, str] = {}
        """Completed savepoints: checkpoint id -> the attempt that took it."""
        self.stopped_with: CheckpointMetadata | None = None
        """The synchronous savepoint that ends the job, once it is complete."""

    def handle(self, event: CoordinatorEvent, now: int) -> Sequence[CoordinatorEffect]:
        """Process one event at ``now`` (milliseconds of the driver's clock) and return its effects."""
        self._now = now
        kind = type(event)
        other: Any = event
        # The most frequent first, by identity: a `match` takes three to five times as long, because an
        # instance check that misses is slow for a Struct.
        if kind is AcknowledgeCheckpoint:
            return self.acknowledge(other)
        if kind is IntervalElapsed:
            return self.interval_elapsed(other)
        if kind is TaskRunning:
            return self.task_running(other)
        if kind is TaskFinished:
            return self.task_finished(other)
        if kind is MetadataStored:
            return self.metadata_stored(other)
        if kind is AttemptStarted:
            return self.attempt_started(other)
        if kind is DeclineCheckpoint:
            return self.checkpoint_declined(other)
        if kind is CheckpointExpired:
            return self.checkpoint_expired(other)
        if kind is AttemptEnded:
            return self.attempt_ended(other)
        if kind is TriggerRequested:
            return self.trigger_requested(other)
        if kind is MetadataFailed:
            return self.metadata_failed(other)
        if kind is PeriodicTriggerRequested:
            return self.periodic_requested(other)
        if kind is StartScheduler:
            return self.start_scheduler(other)
        if kind is StopScheduler:
            return self.stop_scheduler(other)
        if kind is AbortPending:
            return self.abort_now(other)
        if kind is Shutdown:
            return self.shutdown(other)
        raise TypeError(f"the coordinator handles no {type(event).__name__}")

    @property
    def latest(self) -> CheckpointMetadata | None:
        """Return the checkpoint that a restore would take now, or None."""
        return self.store.latest if self.stopped_with is None else self.stopped_with

    @property
    def all_run(self) -> bool:
        """Return whether every task of the attempt has reported that it runs."""
        return self._plan is not None and len(self._running) == len(self._plan.upstreams)

    @property
    def is_finalizing(self) -> bool:
        """Return whether the outcome of a checkpoint is open because its metadata is being written."""
        for pending in self.pending.values():  # noqa: SIM110 (asked after most messages)
            if pending.finalizing:
                return True
        return False

    # Attempts.

    def attempt_started(self, event: AttemptStarted) -> Sequence[CoordinatorEffect]:
        """Begin with the tasks of an attempt; none of them runs yet."""
        assert self._plan is None, "an attempt starts while another one runs"
        assert not self.pending, "an attempt starts while a checkpoint is pending"
        self._attempts.add(event.plan.attempt)
        effects: list[CoordinatorEffect] = []
        self._begin_attempt(event.plan, effects)
        return effects

    def _begin_attempt(self, plan: CheckpointPlan, effects: list[CoordinatorEffect]) -> None:
        self._plan = plan
        self._undisturbed = None
        self._running.clear()
        self._finished.clear()
        self._begin_scheduling(effects)

    def attempt_ended(self, event: AttemptEnded) -> Sequence[CoordinatorEffect]:
        """Abort what is pending, except for a checkpoint whose metadata is being written."""
        self._plan = None
        self._is_scheduling = False
        effects: list[CoordinatorEffect] = []
        self._refuse_all(SUSPENDED, effects)
        self._abort_pending(FAILOVER, effects)
        return effects

    def shutdown(self, event: Shutdown) -> Sequence[CoordinatorEffect]:
        """Refuse and abort everything: the job is over.

        A client that waits for a savepoint whose metadata are being written hears that it failed: the job
        ends before the outcome is known.
        """
        self._is_shut_down = True
        self._is_scheduling = False
        effects: list[CoordinatorEffect] = []
        self._refuse_all(SHUT_DOWN, effects)
        self._abort_pending(SHUT_DOWN, effects)
        for pending in self.pending.values():
            if pending.number:
                effects.append(RequestResolved(pending.number, None, SHUT_DOWN))
                pending.number = 0
        self._plan = None
        return effects

    def task_running(self, message: TaskRunning) -> Sequence[CoordinatorEffect]:
        """Note the task; the first checkpoint can begin when all of them run."""
        if self._plan is not None and message.attempt == self._plan.attempt:
            self._running.add(message.task)
        return ()

    def task_finished(self, message: TaskFinished) -> Sequence[CoordinatorEffect]:
        """Note the task; a pending checkpoint that still waits for it is aborted."""
        if self._plan is None or message.attempt != self._plan.attempt:
            return ()
        self._finished[message.task] = None
        effects: list[CoordinatorEffect] = []
        for pending in list(self.pending.values()):
            if message.task in pending.missing:
                self.abort(pending, TASK_FINISHED, effects)
        if effects:
            self._start_waiting(effects)
        return effects

    # The interval.

    def _begin_scheduling(self, effects: list[CoordinatorEffect]) -> None:
        interval_ms = self._settings.interval_ms
        if interval_ms is not None and self._plan is not None:
            self._is_scheduling = True
            self._declines_in_batch = 0
            effects.append(self._start_interval(self._plan, self._now + interval_ms))

    def _start_interval(self, plan: CheckpointPlan, due_ms: int) -> StartTimer:
        """Return the timer of the next periodic request. No timer is cancelled: one due earlier is stale."""
        self._periodic_due_ms = due_ms
        return StartTimer(due_ms, IntervalElapsed(plan.attempt))

    def interval_elapsed(self, event: IntervalElapsed) -> Sequence[CoordinatorEffect]:
        """Request the next periodic checkpoint."""
        plan = self._plan
        if plan is None or event.attempt != plan.attempt:
            return ()
        due_ms = self._periodic_due_ms
        if self._now < due_ms or not self._is_scheduling:
            return ()
        interval_ms = self._settings.interval_ms
        assert interval_ms is not None
        # Backs off: a task that sorts declines until its input ends, and each attempt takes time from it.
        following_ms = due_ms + (interval_ms << min(self._declines_in_batch, MOST_DOUBLINGS))
        effects: list[CoordinatorEffect] = [self._start_interval(plan, following_ms)]
        self._request(CheckpointRequest(self._now, is_periodic=True), effects)
        return effects

    # Requests.

    def start_scheduler(self, event: StartScheduler) -> Sequence[CoordinatorEffect]:
        """Restart the scheduler; queued requests are refused and pending checkpoints aborted."""
        effects = self.stop_scheduler(StopScheduler())
        self._begin_scheduling(effects)
        return effects

    def stop_scheduler(self, event: StopScheduler) -> list[CoordinatorEffect]:
        """Begin no further periodic checkpoint."""
        self._is_scheduling = False
        effects: list[CoordinatorEffect] = []
        self._refuse_all(SUSPENDED, effects)
        self._abort_pending(SUSPENDED, effects)
        return effects

    def trigger_requested(self, event: TriggerRequested) -> Sequence[CoordinatorEffect]:
        """Queue the request of a user."""
        is_savepoint = event.kind != CHECKPOINT
        effects: list[CoordinatorEffect] = []
        self._request(
            CheckpointRequest(
                self._now,
                event.kind,
                # Aligned savepoints jump the queue (Flink: CheckpointProperties.forceCheckpoint).
                is_forced=is_savepoint and not self._settings.unaligned,
                number=event.number,
                drains=event.drains,
            ),
            effects,
        )
        return effects

    def periodic_requested(self, event: PeriodicTriggerRequested) -> Sequence[CoordinatorEffect]:
        """Queue a periodic checkpoint."""
        effects: list[CoordinatorEffect] = []
        self._request(CheckpointRequest(self._now, is_periodic=True, number=event.number), effects)
        return effects

    def _request(self, request: CheckpointRequest, effects: list[CoordinatorEffect]) -> None:
        refused = self._requests.submit(request)
        if refused is not None:
            self._refuse(refused, TOO_MANY_REQUESTS, effects)
        if refused is not request:
            self._start_waiting(effects)

    def _start_waiting(self, effects: list[CoordinatorEffect]) -> None:
        """Begin the queued checkpoints that may begin now. Deletions take no time here: none is awaited."""
        requests = self._requests
        while requests.queued:
            chosen = requests.next(self._now, len(self.pending), self._last_completion_ms)
            if chosen is None:
                return
            if type(chosen) is TooEarly:
                self._refuse(chosen.request, WITHIN_MIN_PAUSE, effects)
                if self._plan is not None and self._is_scheduling:
                    effects.append(self._start_interval(self._plan, self._now + chosen.left_ms))
                return
            self._trigger(chosen, effects)  # type: ignore[arg-type]

    def _refuse(self, request: CheckpointRequest, reason: str, effects: list[CoordinatorEffect]) -> None:
        if request.number:
            effects.append(RequestResolved(request.number, None, reason))

    def _refuse_all(self, reason: str, effects: list[CoordinatorEffect]) -> None:
        if self._requests.queued:
            for request in self._requests.clear():
                self._refuse(request, reason, effects)

    def _trigger(self, request: CheckpointRequest, effects: list[CoordinatorEffect]) -> None:
        if self._is_shut_down:
            self._refuse(request, SHUT_DOWN, effects)
            return
        if request.is_periodic and not self._is_scheduling:
            self._refuse(request, SCHEDULER_STOPPED, effects)
            return
        plan, tasks = self._plan, self._tasks()
        if plan is None or tasks is None:
            self._refuse(request, TASKS_NOT_RUNNING, effects)
            return
        checkpoint_id = self.next_id
        self.next_id += 1
        now, ahead_ms = self._now, self._wall_clock.ahead_ms
        kind = request.kind
        self.pending[checkpoint_id] = PendingCheckpoint(
            checkpoint_id, now + ahead_ms, plan.attempt, tasks.answering, self._finished, kind, request.number
        )
        effects.append(CheckpointTriggered(checkpoint_id, kind, request.number))
        expiry = CheckpointExpired(plan.attempt, checkpoint_id)
        effects.append(StartTimer(now + self._settings.timeout_ms, expiry))
        drains = request.drains
        for task in tasks.triggered:
            trigger = TriggerCheckpoint(
                plan.attempt, task, checkpoint_id, now + ahead_ms, kind, drains, ahead_ms
            )
            effects.append(Send(trigger))

    def _tasks(self) -> CheckpointTasks | None:
        """Return the tasks of a checkpoint that begins now, or None if none can begin."""
        plan = self._plan
        if plan is None or len(self._running) < len(plan.upstreams):
            return None
        if self._finished:
            allowed = self._settings.checkpoints_after_tasks_finish
            return checkpoint_tasks(plan.upstreams, self._finished, after_tasks_finish=allowed)
        if self._undisturbed is None:
            self._undisturbed = checkpoint_tasks(plan.upstreams)
        return self._undisturbed

    # Answers.

    def acknowledge(self, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        """Count the acknowledgement of a task; publish the checkpoint when all tasks have acknowledged."""
        pending = self.pending.get(message.checkpoint_id)
        if pending is None or not self._is_of_attempt(message, pending):
            return self._answered_too_late(message)
        answer = pending.acknowledge(message)
        if answer is UNKNOWN:
            return self.discard_unless_used(message)
        effects: list[CoordinatorEffect] = []
        if answer is SUCCESS:
            handle = message.handle
            if type(handle) is StateHandle and handle.files:
                self._register_shared(message.checkpoint_id, handle, effects)
        if answer is DUPLICATE or not pending.is_fully_acknowledged:
            return effects
        self._finalize_next(effects)
        self._start_waiting(effects)
        return effects

    def _answered_too_late(self, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        discarded = self.discard_unless_used(message)
        if message.checkpoint_id in self._expired_ids and not self._is_shut_down:
            return (AnsweredTooLate(message.checkpoint_id, message.task), *discarded)
        return discarded

    def _finalize_next(self, effects: list[CoordinatorEffect]) -> None:
        """Write the metadata of the oldest checkpoint that all tasks have acknowledged."""
        if self.is_finalizing:
            return
        for pending in list(self.pending.values()):
            if pending.is_fully_acknowledged:
                assert self._plan is not None
                try:
                    metadata = pending.metadata(self._plan, self._job_id, self._job_name)
                    if pending.kind == CHECKPOINT:
                        metadata = self._with_shared_files(metadata)
                except PartlyFinished as error:
                    # Not counted as a failure: it happens until the other subtasks have finished, too.
                    self.abort(pending, str(error), effects)
                    if (latest := self.store.latest) is not None:
                        self.notify(latest, 0, effects)
                    continue
                except UnknownSharedFile as error:
                    self._fail(pending, str(error), effects)
                    return
                pending.finalizing = True
                pending.published = metadata
                effects.append(StoreMetadata(metadata))
                return

    def _register_shared(
        self, checkpoint_id: int, handle: StateHandle, effects: list[CoordinatorEffect]
    ) -> None:
        """Register the shared files of an acknowledgement, whatever becomes of its checkpoint."""
        superseded = self._shared.register_all(checkpoint_id, handle)
        if superseded:
            effects.append(DiscardSharedFiles(tuple(superseded)))

    def _with_shared_files(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        """Return the metadata with the final paths of its shared files; raises UnknownSharedFile."""
        if not self._shared.in_use:
            return metadata
        resolved = self._shared.resolved(metadata)
        self._shared.completed(resolved)
        return resolved

    def discard_unless_used(self, message: AcknowledgeCheckpoint) -> Sequence[CoordinatorEffect]:
        """Discard the state of an acknowledgement, unless a completed checkpoint or savepoint may use it.

        A repeated acknowledgement names files in use. Whether a savepoint of another process is complete
        cannot be known here, so its files stay.
        """
        handle = message.handle
        if handle is None:
            return ()
        folder = f"{checkpoint_folder(message.checkpoint_id, SAVEPOINT)}/"
        is_of_savepoint = isinstance(handle, StateHandle) and handle.path.startswith(folder)
        if is_of_savepoint and message.attempt not in self._attempts:
            return ()
        if self._savepoints.get(message.checkpoint_id) == message.attempt:
            return ()
        for metadata in self.store.retained:
            if metadata.checkpoint_id == message.checkpoint_id and metadata.attempt == message.attempt:
                return ()
        if isinstance(handle, StateHandle):
            handle = self._shared.deletable(handle)
        return (DiscardHandle(handle),)

    def _is_of_attempt(
        self, message: AcknowledgeCheckpoint | DeclineCheckpoint, pending: PendingCheckpoint
    ) -> bool:
        return message.attempt == pending.attempt

    def checkpoint_declined(self, message: DeclineCheckpoint) -> Sequence[CoordinatorEffect]:
        """Abort the checkpoint that a task declines."""
        pending = self.pending.get(message.checkpoint_id)
        if pending is None or pending.finalizing or not self._is_of_attempt(message, pending):
            return ()
        effects: list[CoordinatorEffect] = []
        self._fail(pending, message.reason, effects, by_task=True)
        return effects

    def checkpoint_expired(self, event: CheckpointExpired) -> Sequence[CoordinatorEffect]:
        """Abort a checkpoint that has taken too long."""
        pending = self.pending.get(event.checkpoint_id)
        if pending is None or pending.finalizing or pending.attempt != event.attempt:
            return ()
        self._expired_ids.append(event.checkpoint_id)
        effects: list[CoordinatorEffect] = []
        self._fail(pending, EXPIRED, effects)
        return effects

    def metadata_failed(self, event: MetadataFailed) -> Sequence[CoordinatorEffect]:
        """Abort the checkpoint whose metadata could not be written."""
        effects: list[CoordinatorEffect] = []
        self._fail(self.pending[event.checkpoint_id], event.reason, effects)
        return effects

    def _fail(
        self,
        pending: PendingCheckpoint,
        reason: str,
        effects: list[CoordinatorEffect],
        *,
        by_task: bool = False,
    ) -> None:
        checkpoint_id = pending.checkpoint_id
        if reason == DECLINED_IN_BATCH:
            self._declines_in_batch += 1
        if self._failures.failed(checkpoint_id, reason, pending.kind, by_task=by_task):
            effects.append(
                TooManyFailures(
                    f"checkpoint {checkpoint_id} failed ({reason}) and"
                    f" {self._settings.tolerable_failures} failures are tolerated"
                )
            )
        self.abort(pending, reason, effects)
        self._finalize_next(effects)
        self._start_waiting(effects)

    def abort_now(self, event: AbortPending) -> Sequence[CoordinatorEffect]:
        """Abort what is pending, for the reason that the driver gives."""
        effects: list[CoordinatorEffect] = []
        self._abort_pending(event.reason, effects)
        self._start_waiting(effects)
        return effects

    def _abort_pending(self, reason: str, effects: list[CoordinatorEffect]) -> None:
        for pending in list(self.pending.values()):
            if not pending.finalizing:
                self.abort(pending, reason, effects)

    def abort(self, pending: PendingCheckpoint, reason: str, effects: list[CoordinatorEffect]) -> None:
        """Give a pending checkpoint up: discard what is stored of it, and notify the tasks."""
        checkpoint_id = pending.checkpoint_id
        del self.pending[checkpoint_id]
        missing = tuple(pending.missing) if reason == EXPIRED else ()
        effects.append(CheckpointAborted(checkpoint_id, reason, missing))
        plan = self._plan
        if plan is not None and pending.attempt == plan.attempt:
            latest_id = 0 if (latest := self.store.latest) is None else latest.checkpoint_id
            for task in plan.upstreams:
                if task not in self._finished:
                    notice = NotifyCheckpointAborted(pending.attempt, task, checkpoint_id, latest_id)
                    effects.append(Send(notice))
        effects.append(DiscardCheckpoint(checkpoint_id, pending.kind))
        if pending.number:
            effects.append(RequestResolved(pending.number, None, reason))

    # Completion.

    def metadata_stored(self, event: MetadataStored) -> Sequence[CoordinatorEffect]:
        """Add the checkpoint to the store, discard what it subsumes, then notify the tasks."""
        checkpoint_id = event.checkpoint_id
        pending = self.pending.pop(checkpoint_id)
        assert pending.published is not None
        effects: list[CoordinatorEffect] = []
        self._failures.completed(checkpoint_id)
        self._last_completion_ms = self._now
        subsumed_id = 0
        if pending.kind == CHECKPOINT:
            subsumed = self.store.add(pending.published)
            effects.append(CheckpointCompleted(checkpoint_id))
            for each in subsumed:
                subsumed_id = 0
                if is_discardable(each):
                    subsumed_id = each.checkpoint_id
                    effects.append(DiscardCheckpoint(subsumed_id))
            if self._shared.in_use:
                unused = self._shared.unregister_unused(self.store.retained[0].checkpoint_id)
                if unused:
                    effects.append(DiscardSharedFiles(tuple(unused)))
        else:
            self._savepoints[checkpoint_id] = pending.attempt
            if pending.kind == SYNC_SAVEPOINT:
                self.stopped_with = pending.published
        if pending.number:
            # Ahead of the notifications, as in Flink: who asked knows of the savepoint before its commits.
            effects.append(RequestResolved(pending.number, checkpoint_id))
        if pending.kind in (CHECKPOINT, SYNC_SAVEPOINT):
            for older in [each for each in self.pending.values() if each.checkpoint_id < checkpoint_id]:
                if older.kind == CHECKPOINT:
                    self.abort(older, SUBSUMED, effects)
            self.notify(pending, subsumed_id, effects)
        self._finalize_next(effects)
        self._start_waiting(effects)
        return effects

    def notify(self, completed: _Completed, subsumed_id: int, effects: list[CoordinatorEffect]) -> None:
        """Tell the tasks that a checkpoint is complete."""
        plan = self._plan
        if plan is None or plan.attempt != completed.attempt:
            return
        attempt, checkpoint_id, finished = plan.attempt, completed.checkpoint_id, self._finished
        for task in plan.upstreams:
            if task not in finished:
                effects.append(Send(NotifyCheckpointComplete(attempt, task, checkpoint_id, subsumed_id)))

    def validate(self) -> None:
        """Check what must hold between any two events; raises AssertionError naming what does not."""
        if not self.pending:
            return
        latest = self.store.latest
        for checkpoint_id, pending in self.pending.items():
            assert checkpoint_id < self.next_id, f"checkpoint {checkpoint_id} is pending before its time"
            assert latest is None or checkpoint_id > latest.checkpoint_id or pending.kind != CHECKPOINT, (
                f"checkpoint {checkpoint_id} is pending although {latest.checkpoint_id} completed"
            )
            assert pending.finalizing or self._plan is not None, (
                f"checkpoint {checkpoint_id} is pending although no attempt runs"
            )
            assert not pending.finalizing or pending.is_fully_acknowledged, (
                f"checkpoint {checkpoint_id} is finalized before all tasks answered"
            )
