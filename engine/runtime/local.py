"""Runs a job in this process: the machines under a fair schedule, real clocks, and real files.

The rules this module lives by:

- One thread runs all machines, so user code needs no locks. A second thread writes snapshots and metadata
  (checkpoint_writer.py), and the result of a write comes back into the loop as an event. Snapshots of an
  aborted checkpoint or of a dead attempt that wait for it are withdrawn.
- Nothing keeps a dead attempt in memory: its timers and its waiting snapshots go with it.
- The schedule takes turns: every task with input and room in its outputs processes one buffer, then messages,
  finished writes and due timers are handled. Turns are short in time as well as in records (task_turns.py),
  and events are handled in between when the turns of a round take long.
- User code reads a live clock: processing time goes on within a turn. The machines go by the time that is
  read between turns.
- The process may be killed at any instruction, and the next one continues from the files. So nothing is
  reported before it is durable, and nothing is deleted before its successor is durable.
- A checkpoint interval in records bounds how much is read again after a failure: if the next checkpoint is
  due and the previous one is not complete, the sources wait.
- A finished job records that durably in its checkpoint directory. Run again over the same directory it does
  nothing, because its output is complete.
- All waiting is by a clock that never jumps. The wall clock is processing time only; it is compared with the
  other one in every round, and when it was set forward the tasks look for timers that are due.
- Without a checkpoint directory, checkpoints are in memory: they survive a failed task, not the process.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from onceproof.engine.api.job_client import JobClient
from onceproof.engine.checkpoint.completed_store import JobOutcome
from onceproof.engine.checkpoint.events import (
    AnsweredTooLate,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointTriggered,
    MetadataFailed,
    StartTimer,
    StoreMetadata,
    TriggerRequested,
)
from onceproof.engine.forked_children import runs_user_code
from onceproof.engine.graph import InvalidJob, JobGraph
from onceproof.engine.job.events import (
    CancelTasks,
    Deploy,
    JobCanceled,
    JobFailed,
    JobFinished,
    StartJob,
    StartRestartTimer,
)
from onceproof.engine.messages import (
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskId,
    TriggerCheckpoint,
)
from onceproof.engine.protocol_points import Probe, no_probe
from onceproof.engine.runtime.checkpoint_writer import CheckpointWriter, Report, Work, Writer, snapshot_work
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS, WALL_CLOCK_TOLERANCE_MS, Clocks
from onceproof.engine.runtime.deletion import delete_if_possible
from onceproof.engine.runtime.execution import Execution
from onceproof.engine.runtime.garbage_collection import few_garbage_collections
from onceproof.engine.runtime.growing_pause import GrowingPause
from onceproof.engine.runtime.idle_splits import IdleSplitWatch
from onceproof.engine.runtime.interrupts import between_steps
from onceproof.engine.runtime.job_clients import FinishedJob, RunningJob
from onceproof.engine.runtime.job_identity import registered
from onceproof.engine.runtime.job_requests import JobRequest, Respond
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.job_scope import scope_of
from onceproof.engine.runtime.job_startup import open_job_storage, recover_job, with_full_path
from onceproof.engine.runtime.lease import held
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.request_folder import RequestFolder
from onceproof.engine.runtime.task_turns import Schedule
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.task.events import (
    Restore,
    SnapshotFailed,
    SnapshotStored,
    StartTaskTimer,
    StoreSnapshot,
    TimerDue,
)
from onceproof.engine.task.task import Task, TaskState
from onceproof.engine.wall_clock import WallClock

_TO_TASK: Final = (TriggerCheckpoint, NotifyCheckpointComplete, NotifyCheckpointAborted)
LONGEST_WAIT_SECONDS: Final = 0.2
REQUEST_LOOK_MS: Final = 50
FIRST_PAUSE_AT_END_MS: Final = 10
LONGEST_PAUSE_AT_END_MS: Final = 10_000
"""The pause between failing checkpoints at the end of a job doubles from the one to the other, or to the
interval of checkpoints if that is shorter."""


def execute(
    graph: JobGraph, probe: Probe = no_probe, make: Callable[..., LocalExecution] | None = None
) -> JobExecutionResult:
    """Run a job to its end, from its checkpoint directory if it has one.

    ``probe`` is called at every protocol point and may kill the process or raise to kill the task. ``make``
    makes the execution. Raises JobExecutionFailed, and what reading the checkpoint directory raises; also
    where another process runs the job over the same directory.
    """
    storage = open_job_storage(graph)
    with held(graph, storage, partial(recover_job, graph, storage)) as (lease, recovered):
        if isinstance(recovered, JobExecutionResult):
            return recovered
        execution = (make or LocalExecution)(graph, storage, recovered, probe)
        run = registered(graph, execution, recovered.incarnation)
        return lease.run(run, execution, recovered.incarnation)


def start(graph: JobGraph, make: Callable[..., LocalExecution] | None = None) -> JobClient:
    """Start a job in a thread of its own; otherwise as ``execute``. Raises InvalidJob if it has a lease."""
    if graph.settings.lease_timeout_ms is not None:
        raise InvalidJob(
            "high-availability.lease-timeout is set, but only execute() stands by: unset it here"
        )
    storage = open_job_storage(graph)
    with ExitStack() as locked:
        locked.enter_context(storage.exclusive())
        recovered = recover_job(graph, storage)
        if isinstance(recovered, JobExecutionResult):
            return FinishedJob(recovered)
        execution = (make or LocalExecution)(graph, storage, recovered)
        run = registered(graph, execution, recovered.incarnation)
        return RunningJob(graph.job_id, run, locked.pop_all())


class Upload(NamedTuple):
    """What a snapshot that waits for the second thread belongs to."""

    task: Task
    checkpoint_id: int


class LocalExecution(Execution):
    """One run of a job in this process."""

    def __init__(
        self,
        graph: JobGraph,
        storage: MountedStorage,
        recovered: Recovered,
        probe: Probe = no_probe,
        clocks: Clocks = SYSTEM_CLOCKS,
    ) -> None:
        settings = graph.settings
        self._clocks = clocks
        super().__init__(
            graph,
            storage,
            recovered,
            probe,
            settings.buffer_records,
            watches_elements=probe is not no_probe,
            scope=scope_of(storage),
        )
        self._storage = storage
        self._interval_records = settings.interval_records
        self._records_at_trigger = 0
        self._sources_wait = False
        self._records_before = 0
        self._mailbox: deque[Any] = deque()
        self._timers: list[tuple[int, int, Task | None, Any]] = []
        """A heap by time: the task of the timer (None: the job master), and its event."""
        self._sequence = 0
        self._written: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._writer = self.make_writer(self._written.put)
        self._writes = 0
        self._schedule = Schedule(settings, clocks, self.task_event)
        self._now = 0
        self._failure: str | None = None
        longest_ms = min(settings.interval_ms or LONGEST_PAUSE_AT_END_MS, LONGEST_PAUSE_AT_END_MS)
        self._pause_at_end = GrowingPause(FIRST_PAUSE_AT_END_MS, longest_ms, settings.min_pause_ms)
        self._requests = RequestFolder.of(storage)
        self._idle_splits = IdleSplitWatch(graph)
        self._next_look_ms = 0
        """When requests of other processes are looked for; 0: they are not."""

    def make_wall_clock(self) -> WallClock:
        """Return a wall clock whose time goes on while user code runs."""
        return WallClock(steady_ms=self._clocks.steady_ms)

    def make_writer(self, report: Callable[[Report], None]) -> Writer:
        """Return what writes snapshots and metadata; it passes the result of each write to ``report``."""
        return CheckpointWriter(lambda written: report(partial(self._report, written)))

    def _report(self, report: Report) -> None:
        self._writes -= 1
        report()

    # The loop.

    @runs_user_code
    def run(self) -> JobExecutionResult:
        """Run until the job has finished or failed."""
        started = time.monotonic_ns()
        try:
            with between_steps(self._written.put, self.graph.name), few_garbage_collections():
                try:
                    self._read_clocks()
                    self.master_event(StartJob())
                    while not self.master.state.is_terminal:
                        if not self._round():
                            self._wait()
                except BaseException:
                    self._cancel_all()
                    raise
        finally:
            self._writer.close()
        return self.result(started, self._failure, self._records_before + self._records_read())

    def submit(self, request: JobRequest, respond: Respond) -> None:
        """Submit a request from another thread; ``respond`` is called in the thread that runs the job."""
        self._written.put(lambda: self.request(request, respond))

    def end_with(self, error: BaseException) -> None:
        """Raise an error in the thread that runs the job, from another one."""

        def end() -> None:
            raise error

        self._written.put(end)

    def _round(self) -> bool:
        """Give every task one turn, and return whether any of them had work."""
        self._read_clocks()
        progress = self._handle_events()
        schedule = self._schedule
        for turn in schedule.round(self.tasks):
            if self._sources_wait and turn.task.is_source:
                continue
            progress |= schedule.take(turn, self._now)
            if schedule.events_are_due:
                self._read_clocks()
                self._handle_events()
            if schedule.has_changed:
                break
        if self._interval_records is not None:
            self._trigger_by_records(self._interval_records)
        return progress

    def _read_clocks(self) -> None:
        """Read both clocks, once for each round."""
        clocks = self._clocks
        now = self._now = clocks.steady_ms()
        ahead_ms = clocks.wall_ms() - now
        moved_ms = ahead_ms - self.wall_clock.ahead_ms
        if not -WALL_CLOCK_TOLERANCE_MS < moved_ms < WALL_CLOCK_TOLERANCE_MS:
            self.set_wall_clock(ahead_ms)

    def _handle_events(self) -> bool:
        """Handle messages, finished writes and due timers."""
        self._schedule.events_handled()
        progress = False
        self._idle_splits.look(self.tasks, self._now)
        if self._requests is not None and self._now >= self._next_look_ms:
            self._next_look_ms = self._now + REQUEST_LOOK_MS
            self._requests.look(self.request)
        while not self._written.empty():
            self._written.get()()
            progress = True
        while self._timers and self._timers[0][0] <= self._now:
            _, _, task, event = heapq.heappop(self._timers)
            if task is None:
                self.master_event(event)
            elif self.is_current(task):
                self.task_event(task, event)
            progress = True
        mailbox = self._mailbox
        while mailbox:
            message = mailbox.popleft()
            progress = True
            if not isinstance(message, _TO_TASK):
                self.master_event(message)
            elif (receiver := self.tasks.get(message.task)) is not None:
                self.task_event(receiver, message)
        return progress

    def _wait(self) -> None:
        """Wait until a write finishes or a timer is due."""
        if self._request_final_checkpoint():
            return
        seconds = LONGEST_WAIT_SECONDS
        due_ms = self._timers[0][0] if self._timers else None
        for other_ms in (self._pause_at_end.until_ms, self._next_look_ms, *self._schedule.next_poll_ms()):
            if other_ms > self._now:
                due_ms = other_ms if due_ms is None else min(due_ms, other_ms)
        if due_ms is not None:
            seconds = min(seconds, max(0, due_ms - self._clocks.steady_ms()) / 1000)
        try:
            finished = self._written.get(timeout=seconds) if seconds else self._written.get_nowait()
        except Empty:
            return
        self._read_clocks()
        finished()

    def _request_final_checkpoint(self) -> bool:
        """Trigger the final checkpoint as soon as all input is processed."""
        coordinator = self.master.coordinator
        if not self.tasks or coordinator.pending or self._writes or not self.graph.settings.enabled:
            return False
        if self.master.ending is not None or self._now < self._pause_at_end.until_ms:
            return False
        if any(task.state not in (TaskState.ENDED_DATA, TaskState.FINISHED) for task in self.tasks.values()):
            return False
        self.master_event(TriggerRequested())
        return bool(coordinator.pending)

    def source_waker(self) -> Callable[[TaskId], None]:
        """Let the task be polled in the next round."""

        def wake(task: TaskId) -> None:
            self._written.put(lambda: self._schedule.wake_up(self.tasks.get(task)))

        return wake

    def _records_read(self) -> int:
        return sum(task.records_read for task in self.tasks.values())

    def _trigger_by_records(self, interval_records: int) -> None:
        read = self._records_read()
        is_due = read - self._records_at_trigger >= interval_records
        self._sources_wait = is_due and bool(self.master.coordinator.pending)
        if is_due and not self._sources_wait and self.master.ending is None:
            self._records_at_trigger = read
            self.master_event(TriggerRequested())

    # The methods of a driver.

    def now(self) -> int:
        """Return the steady clock in milliseconds, read once for each round."""
        return self._now

    def send(self, effect: Send) -> None:
        """Queue a message; it is handled between two turns of the tasks."""
        self._mailbox.append(effect.message)

    def attempt_started(self, effect: Deploy) -> None:
        """Add the records that the previous attempt has read to the result."""
        self._records_at_trigger = 0
        self._sources_wait = False

    def cancel_tasks(self, effect: CancelTasks) -> None:
        """End the attempt; forget its timers and its snapshots that wait to be stored."""
        super().cancel_tasks(effect)
        self._withdraw(lambda upload: not self.is_current(upload.task))
        self._timers = [timer for timer in self._timers if timer[2] is None]
        heapq.heapify(self._timers)

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Count records from here on to the next checkpoint by records, whatever has triggered this one.

        If only checkpoints by records counted, sources would wait for ever where the interval in time is
        shorter than a checkpoint takes: one would always be pending.
        """
        super().checkpoint_triggered(effect)
        self._records_at_trigger = self._records_read()

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Let the next checkpoint at the end of the job begin at once."""
        self._pause_at_end.succeeded()

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Withdraw its waiting snapshots, and pause before the next checkpoint at the end of the job."""
        super().checkpoint_aborted(effect)
        self._withdraw(lambda upload: upload.checkpoint_id == effect.checkpoint_id)
        self._pause_at_end.failed(self._now)

    def start_restoring(self, task: Task, event: Restore) -> None:
        """Restore the task at once."""
        self._schedule.change()
        self.task_event(task, event)

    def task_died(self, task: Task, error: BaseException) -> None:
        """Close the task, and report the failure to the job master."""
        self.cancel(task)
        self._mailbox.append(self.failure_message(task, error))

    def cancel(self, task: Task) -> None:
        """Count the records that the task has read, and cancel it."""
        self._records_before += task.records_read
        self._schedule.change()
        super().cancel(task)

    def store_snapshot(self, effect: StoreSnapshot) -> None:
        """Encode and write the snapshot in the second thread."""
        task = self.current_task
        assert task is not None

        write = snapshot_work(
            self._storage, effect, partial(self._stored, task), partial(self._encoding_failed, task)
        )
        self._submit(Upload(task, effect.checkpoint_id), write)

    def _stored(self, task: Task, paths: Sequence[str], event: SnapshotStored | SnapshotFailed) -> None:
        if self.is_current(task):
            self.task_event(task, event)
            return
        delete_if_possible(self._storage, paths)

    def _encoding_failed(self, task: Task, error: BaseException) -> None:
        """Fail the task: state that cannot be encoded is an error of the job, not of the storage."""
        if self.is_current(task):
            del self.tasks[task.id]
            self.task_died(task, error)

    def store_metadata(self, effect: StoreMetadata) -> None:
        """Publish in the second thread; a failure is reported once the metadata certainly does not exist."""
        checkpoint_id = effect.metadata.checkpoint_id

        def publish() -> Callable[[], None]:
            try:
                with self.claim.ends_the_run():
                    self.publish(effect.metadata)
            except OSError as error:
                reason = str(error)
                return lambda: self.master_event(MetadataFailed(checkpoint_id, reason))
            return lambda: self.metadata_published(checkpoint_id)

        self._submit(None, publish)

    def _submit(self, about: Upload | None, run: Callable[[], Report]) -> None:
        self._writes += 1
        self._writer.submit(Work(about, run))

    def _withdraw(self, is_void: Callable[[Upload], bool]) -> None:
        """Drop waiting snapshots; their tasks learn of it as they learn that the checkpoint is aborted."""
        dropped = self._writer.withdraw(lambda about: about is not None and is_void(about))
        self._writes -= len(dropped)

    def start_timer(self, effect: StartTimer | StartRestartTimer) -> None:
        """Start a timer by the steady clock."""
        self._start_timer(effect.due_ms, None, effect.event)

    def start_task_timer(self, effect: StartTaskTimer) -> None:
        """Start a timer by the steady clock."""
        assert self.current_task is not None
        self._start_timer(effect.due_ms, self.current_task, TimerDue(effect.due_ms))

    def _start_timer(self, due_ms: int, task: Task | None, event: Any) -> None:
        self._sequence += 1
        heapq.heappush(self._timers, (due_ms, self._sequence, task, event))

    def cause_of(self, error: Exception) -> str:
        """Return the cause in one line; a damaged file is named by its full path."""
        if isinstance(error, DamagedFile):
            error = with_full_path(error, self._storage)
        return super().cause_of(error)

    def answered_too_late(self, effect: AnsweredTooLate) -> None:
        """Log the late acknowledgement, so that the user can raise the timeout."""
        task = self.tasks.get(effect.task)
        self.job_log.stored_too_late("a task" if task is None else task.name, effect.checkpoint_id)

    def job_finished(self, effect: JobFinished) -> None:
        """Wait for pending writes, record durably that the job has finished, and delete its checkpoints."""
        self._end_writes()
        self.forget_checkpoints(JobOutcome.FINISHED)

    def job_failed(self, effect: JobFailed) -> None:
        """Keep the failure; the checkpoints stay, and a corrected job restores them."""
        self._failure = effect.cause

    def job_canceled(self, effect: JobCanceled) -> None:
        """Wait for pending writes, so that their files are deleted or kept with the rest."""
        self._end_writes()

    def mount(self, folder: str, place: str) -> None:
        """Mount the directory of a savepoint."""
        self._storage.mount(folder, place)

    def _end_writes(self) -> None:
        while self._writes:
            self._written.get()()

    def _cancel_all(self) -> None:
        """Close the tasks' files and open transactions after an exception in the loop."""
        for task in list(self.tasks.values()):
            self.cancel(task)
