"""Runs a job on Spark: the driver is the job master, each epoch a Spark job.

- An epoch leads from one complete checkpoint to the next: the trigger, the Spark job, its acknowledgements,
  the metadata, then the commits in this process. Two epochs never overlap.
- Only the reports of the driver's own Spark job count, and of each subtask only the attempt whose records all
  others have read. If Spark has run a part twice and both results were used, the epoch is discarded.
- The driver deletes the other output of attempts: snapshots that the metadata does not list, and uncommitted
  transactions of sinks.
- The process may be killed at any instruction. The next one continues from the checkpoint directory, and
  first commits what the last complete checkpoint lists.
- Driver and workers share the file system of the checkpoint directory and the output.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from msgspec.structs import replace
from pyspark import Broadcast, SparkContext

from onceproof.engine.checkpoint.completed_store import JobOutcome
from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    IntervalElapsed,
    MetadataFailed,
    MetadataStored,
    StartTimer,
    StoreMetadata,
    TriggerRequested,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.errors import Ending
from onceproof.engine.file_calls import joint_syncs
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout, layout_of
from onceproof.engine.job.deployment import RestorePlan, plan_restores
from onceproof.engine.job.events import (
    CancelRequested,
    CancelTasks,
    JobFailed,
    JobFinished,
    RescaleRequested,
    StartJob,
    StartRestartTimer,
)
from onceproof.engine.job.master import JobState
from onceproof.engine.messages import (
    CHECKPOINT,
    SYNC_SAVEPOINT,
    AttemptId,
    NotifyCheckpointComplete,
    Send,
    TaskFailed,
    TaskFinished,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
)
from onceproof.engine.metrics import Metric, MetricRegistry
from onceproof.engine.protocol_points import COORDINATOR, METADATA_WRITTEN, NOTIFIED, Probe, no_probe
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS, Clocks
from onceproof.engine.runtime.execution import failure_of
from onceproof.engine.runtime.interrupts import no_success_before_the_end
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.job_requests import JobRequest, Respond
from onceproof.engine.runtime.job_result import JobExecutionFailed, JobExecutionResult
from onceproof.engine.runtime.job_scope import scope_of
from onceproof.engine.runtime.job_startup import with_full_path
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.spark.driver_committer import DriverCommitter
from onceproof.engine.runtime.spark.epoch import (
    Deployment,
    Epoch,
    GivenGraph,
    Packed,
    Recipe,
    Shipment,
    shape_of,
)
from onceproof.engine.runtime.spark.epoch_job import EpochJob, EpochJobFailed, cause_of, is_gone
from onceproof.engine.runtime.spark.epoch_requests import LOOK_SECONDS, EpochRequests
from onceproof.engine.runtime.spark.epoch_size import EpochSize, rest_ms
from onceproof.engine.runtime.spark.epoch_time import AttemptTime, EpochSpan
from onceproof.engine.runtime.spark.lost_attempts import delete_unlisted, failure_in, has_lost_attempts
from onceproof.engine.runtime.spark.stages import Stages, stages_of
from onceproof.engine.runtime.spark.subtask import SubtaskRun
from onceproof.engine.runtime.spark_session import SPARK_ERRORS
from onceproof.engine.state.file_envelope import DamagedFile


class SparkExecution(JobDriver):
    """One process's run of a job on Spark."""

    def __init__(
        self,
        graph: JobGraph,
        context: SparkContext,
        storage: MountedStorage,
        recovered: Recovered,
        *,
        recipe: Recipe | None = None,
        probe: Probe = no_probe,
        subtask_class: type[SubtaskRun] = SubtaskRun,
        pace: EpochSize | None = None,
        clocks: Clocks = SYSTEM_CLOCKS,
    ) -> None:
        self._clocks = clocks
        super().__init__(graph, storage, recovered, probe)
        self.records_read = 0
        """The records read by all finished epochs, complete or not."""
        self._context = context
        self._storage = storage
        self.scope = scope_of(storage)
        self._recipe: Recipe = recipe or GivenGraph(graph)
        self._subtask_class = subtask_class
        self._rescaled: tuple[JobGraph, Recipe] | None = None
        self._stages: Stages = stages_of(graph, layout_of(graph))
        self._shipment: Broadcast[Deployment] | None = None
        self._is_shipped = False
        self._committer: DriverCommitter | None = None
        self._plans: dict[TaskId, RestorePlan] = {}
        self._pace = pace or EpochSize(graph.settings, is_batch=graph.is_batch)
        self._ended: set[TaskId] = set()
        """The tasks that had processed all their input at the last checkpoint, as far as reported."""
        self._job: EpochJob | None = None
        self._epoch: Epoch | None = None
        self._epoch_began_ms = 0
        self._counted: Mapping[str, Metric] = {}
        """The metrics of the epoch, which count once its checkpoint is complete."""
        self._rests_until_ms = 0
        """Before this moment no epoch begins by itself, because the last one has found nothing to read."""
        self._time = AttemptTime(None)
        self._span = EpochSpan(0, 0, 0)
        self._triggers: list[TriggerCheckpoint] = []
        self._mailbox: deque[Any] = deque()
        self._timers: list[tuple[int, int, Any]] = []
        self._sequence = 0
        self._to_conclude: CheckpointMetadata | None = None
        self._has_losses = False
        self._failure: str | None = None
        self.requests = EpochRequests(self.open_requests, storage, self.publish)

    def rescale(self, graph: JobGraph, recipe: Recipe | None = None) -> None:
        """Use a rescaled graph of the job from the next epoch on."""
        self._rescaled = (graph, recipe or GivenGraph(graph))

    # The loop.

    def run(self) -> JobExecutionResult:
        """Run until the job has finished or failed."""
        started = time.monotonic_ns()
        try:
            with no_success_before_the_end(self.graph.name):
                self.master_event(StartJob())
                while not self.master.state.is_terminal:
                    if not self._step():
                        self._wait()
        finally:
            self._let_go()
            self.requests.refuse_rest()
        return self.result(started, self._failure, self.records_read)

    def submit(self, request: JobRequest, respond: Respond) -> None:
        """Submit a request from another thread."""
        self.requests.submit(request, respond)

    def _step(self) -> bool:
        """Do the next pending step, and return whether there was one."""
        self.requests.look()
        if self.requests.is_cancelled:
            self.master_event(CancelRequested())
        elif self._mailbox:
            message = self._mailbox.popleft()
            if isinstance(message, NotifyCheckpointComplete):
                self._commit(message)
            else:
                self.master_event(message)
        elif self._timers and self._timers[0][0] <= self.now():
            self.master_event(heapq.heappop(self._timers)[2])
        elif self._job is not None:
            if not self._job.wait(0):
                return False
            self.take_results(self._job)
        elif self.master.state is not JobState.RUNNING:
            return False
        elif self._to_conclude is not None:
            self._conclude(self._to_conclude)
        elif self._rescaled is not None:
            self.master_event(RescaleRequested())
        elif not self._answer_request():
            if self.now() < self._rests_until_ms and self.requests.next() is None:
                return False
            self._begin_epoch()
        return True

    def _wait(self) -> None:
        """Wait until the epoch's Spark job ends or a timer is due."""
        seconds = LOOK_SECONDS
        if self._timers:
            seconds = min(seconds, max(0, self._timers[0][0] - self.now()) / 1000)
        if self._job is not None:
            self._job.wait(seconds)
            return
        if self._rests_until_ms:
            seconds = min(seconds, max(0, self._rests_until_ms - self.now()) / 1000)
        else:
            assert self._timers, "a job that waits for nothing"
        time.sleep(seconds)

    def _answer_request(self) -> bool:
        """Serve the next waiting request for a savepoint or a stop; return whether there was one."""
        asked = self.requests.next()
        latest = self.master.coordinator.store.latest
        if asked is None or latest is None or latest.kind != CHECKPOINT:
            return False
        if asked.drains and not all(operator.is_finished for operator in latest.operators):
            return False
        savepoint = self.requests.carry_out(latest)
        if savepoint is not None and savepoint.kind == SYNC_SAVEPOINT:
            self.master.coordinator.stopped_with = savepoint
            self._finish_tasks()
        elif savepoint is not None:
            self.master_event(CancelRequested())
        return True

    def _finish_tasks(self) -> None:
        assert self.master.attempt is not None
        self._mailbox.extend([TaskFinished(self.master.attempt, task) for task in self._plans])

    # An epoch.

    def _begin_epoch(self) -> None:
        self._triggers.clear()
        self._rests_until_ms = 0
        self.wall_clock.ahead_ms = self._clocks.wall_ms() - self.now()
        self.master_event(TriggerRequested())
        trigger = self._triggers[0]
        sources = [task for task in self._plans if not self.graph.vertices[task.vertex].inputs]
        drains = (asked := self.requests.next()) is not None and asked.drains
        quotas = dict.fromkeys(sources, 0) if drains else self._pace.quotas(sources, self._ended)
        self._span = self._time.span(trigger.timestamp_ms, self.wall_clock.ahead_ms)
        self._epoch = Epoch(
            trigger.checkpoint_id,
            *self._span[:2],
            quotas,
            self._plans,
            self._pace.bytes_each(sources, self._ended),
            self._span.ahead_ms,
            self._time.carried,
            drains,
        )
        self._epoch_began_ms = self.now()
        self._job = self.start_job(self._epoch)

    def take_results(self, job: EpochJob) -> None:
        """Hand the reports of an epoch to the job master, once the Spark job of the epoch has ended."""
        self._job = None
        attempt = self.master.attempt
        assert attempt is not None
        try:
            reports = job.reports()
        except EpochJobFailed as error:
            self._has_losses = True
            self._mailbox.append(TaskFailed(attempt, TaskId(0, 0), str(error), error.is_final))
            return
        self._time.reported(reports)
        records = sum(report.records_read for report in reports)
        self.records_read += records
        self._learn_pace(records, [report.retry_ms for report in reports if report.retry_ms is not None])
        self._has_losses |= has_lost_attempts(reports)
        failure = failure_in(reports)
        if failure is not None:
            self._mailbox.append(replace(failure, attempt=attempt))
            return
        self._ended = {report.task for report in reports if report.has_ended}
        self._counted = {name: metric for report in reports for name, metric in report.metrics.items()}
        for report in reports:
            # The messages came with the driver's own Spark job, so they belong to this attempt.
            self._mailbox.extend([replace(message, attempt=attempt) for message in report.messages])

    def _learn_pace(self, records: int, retries: list[int]) -> None:
        """Adapt the next epoch, or rest before it; ``retries`` come from the sources that had nothing."""
        assert self._epoch is not None
        sources = self._epoch.quotas.keys()
        if len(retries) + len(self._ended & sources) < len(sources):
            self._pace.learn(records, self.now() - self._epoch_began_ms)
        elif retries and not records:
            self._rests_until_ms = self.now() + rest_ms(min(retries))

    def _commit(self, message: NotifyCheckpointComplete) -> None:
        """Commit a completed checkpoint in place of all tasks, whose notices follow one another."""
        tasks = [message.task]
        while self._mailbox and isinstance(self._mailbox[0], NotifyCheckpointComplete):
            tasks.append(self._mailbox.popleft().task)
        if message.attempt == self.master.attempt and self.master.state is JobState.RUNNING:
            self._settle_all(tasks, lambda name: self.probe(NOTIFIED, name, message.checkpoint_id))

    def _settle_all(self, tasks: Sequence[TaskId], begin: Callable[[str], None] = lambda task: None) -> bool:
        """Settle subtasks, and sync the folders into which they commit once, at the end."""
        with joint_syncs() as sync:
            settled = []
            for task in tasks:
                begin(self.name_of(task))
                settled.append(self._settle(task))
            return self._done(tasks[0], sync) and all(settled)

    def _settle(self, task: TaskId) -> bool:
        """Commit what the latest checkpoint lists for a subtask; an error fails the task."""
        assert self._committer is not None
        return self._done(task, partial(self._committer.settle, task, self._plans[task]))

    def _conclude(self, completed: CheckpointMetadata) -> None:
        """Clean up after all commits of a checkpoint, and finish the job if all tasks have finished."""
        self._to_conclude = None
        self._has_losses |= delete_unlisted(self._storage, completed)
        has_ended = all(operator.is_finished for operator in completed.operators)
        if (self._has_losses or has_ended) and not self._sweep():
            return
        if has_ended and not self._answer_request():
            self._finish_tasks()

    def _sweep(self) -> bool:
        """Abort the uncommitted transactions of all sinks."""
        assert self._committer is not None
        swept = self._done(next(iter(self._plans)), self._committer.sweep, "sweeping")
        self._has_losses = self._has_losses and not swept
        return swept

    def _done(self, task: TaskId, work: Callable[[], None], name: str = "") -> bool:
        """Call user code in this process; return False where it raises, which fails the task."""
        try:
            work()
        except (KeyboardInterrupt, Ending):
            raise
        except BaseException as error:
            named = name or self.name_of(task)
            self._mailbox.append(failure_of(cast(AttemptId, self.master.attempt), task, named, error))
            return False
        return True

    # Spark.

    def ship(self, shipment: Shipment) -> None:
        """Broadcast the shipment of an attempt."""
        # A Packed value unpickles as a Deployment.
        self._shipment = self._context.broadcast(cast(Deployment, Packed(shipment)))

    def start_job(self, epoch: Epoch) -> EpochJob:
        """Start the Spark job of an epoch."""
        assert self._shipment is not None
        return EpochJob(self._context, self.graph.name, self._stages, self._shipment, epoch)

    # The methods of a driver.

    def now(self) -> int:
        """Return the steady clock in milliseconds."""
        return self._clocks.steady_ms()

    def send(self, effect: Send) -> None:
        """Act for the tasks: an epoch triggers them itself, and the driver commits for them."""
        message = effect.message
        if isinstance(message, TriggerCheckpoint):
            self._triggers.append(message)
        elif isinstance(message, NotifyCheckpointComplete):
            self._mailbox.append(message)

    def store_metadata(self, effect: StoreMetadata) -> None:
        """Publish the metadata; a failure is reported once they certainly do not exist."""
        checkpoint_id = effect.metadata.checkpoint_id
        try:
            with self.claim.ends_the_run():
                self.publish(effect.metadata)
        except OSError as error:
            self._mailbox.append(MetadataFailed(checkpoint_id, str(error)))
            return
        self.probe(METADATA_WRITTEN, COORDINATOR, checkpoint_id)
        self._mailbox.append(MetadataStored(checkpoint_id))

    def start_timer(self, effect: StartTimer | StartRestartTimer) -> None:
        """Start a timer by the steady clock, except for the interval: epochs follow one another."""
        if not isinstance(effect.event, IntervalElapsed):
            self._sequence += 1
            heapq.heappush(self._timers, (effect.due_ms, self._sequence, effect.event))

    def job_graph(self) -> JobGraph:
        """Return the rescaled graph, if any, or the current one."""
        if self._rescaled is None:
            return self.graph
        (graph, self._recipe), self._rescaled = self._rescaled, None
        return graph

    def read_checkpoint(
        self, graph: JobGraph, layout: Layout, restored: CheckpointMetadata | None
    ) -> dict[TaskId, RestorePlan]:
        """Return the plan with which each task restores its state in a worker."""
        return plan_restores(graph, layout, restored)

    def make_committer(self, attempt: AttemptId, graph: JobGraph) -> DriverCommitter:
        """Return what commits the output of an attempt, in this process; observers override this."""
        return DriverCommitter(graph, attempt, self._storage.read, self.probe, self._clocks, self.scope)

    def make_tasks(self, attempt: AttemptId, graph: JobGraph, layout: Layout) -> None:
        """Broadcast the attempt, from which the workers make the tasks; their metrics begin anew."""
        self.metrics = MetricRegistry()
        self._stages = stages_of(graph, layout)
        self._committer = self.make_committer(attempt, graph)
        shipment = Shipment(
            self._recipe,
            shape_of(graph),
            self._storage.root,
            self._recovered.incarnation,
            self.probe,
            self._subtask_class,
            self._storage.mounts,
            self.graph.job_id,
            self.scope,
        )
        self._is_shipped = False
        try:
            self.ship(shipment)
            self._is_shipped = True
        except (*SPARK_ERRORS, OSError) as error:
            cause = f"it cannot be handed to Spark: {cause_of(error, self._context)}"
            if is_gone(self._context):
                # No retry is possible; another process can restore the checkpoints.
                raise JobExecutionFailed(f"job {self.graph.name!r} failed: {cause}") from error
            self._mailbox.append(TaskFailed(attempt, TaskId(0, 0), cause))

    def start_tasks(self, begin_with: dict[TaskId, RestorePlan]) -> None:
        """Commit what the checkpoint lists; each epoch then restores its tasks."""
        self._plans = begin_with
        self._ended = set()
        if not self._is_shipped:
            return  # The job master learns next that the attempt has failed.
        latest = self.master.coordinator.store.latest
        self._time = AttemptTime(None if latest is None else latest.timestamp)
        attempt = self.master.attempt
        assert attempt is not None
        if self._settle_all(list(begin_with)) and self._sweep():
            self._mailbox.extend([TaskRunning(attempt, task) for task in begin_with])

    def cancel_tasks(self, effect: CancelTasks) -> None:
        """Cancel the epoch."""
        self._to_conclude = None
        self._let_go()

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Remember the checkpoint, whose output is committed now and which the next epoch restores."""
        latest = self.master.coordinator.store.latest
        assert latest is not None
        self._plans = plan_restores(self.graph, layout_of(self.graph), latest)
        self._time.completed(self._span)
        self.metrics.go_on(self._counted)
        self._counted = {}
        self._to_conclude = latest

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Discard the epoch of an aborted checkpoint, and say so if its time is up."""
        self.job_log.epoch_waited(effect, self.now())
        if self._epoch is not None and self._epoch.checkpoint_id == effect.checkpoint_id:
            self._has_losses = True
            self._cancel_job()

    def cause_of(self, error: Exception) -> str:
        """Return the cause in one line; a damaged file is named by its full path."""
        named = with_full_path(error, self._storage) if isinstance(error, DamagedFile) else error
        return super().cause_of(named)

    def job_finished(self, effect: JobFinished) -> None:
        """Record durably that the job has finished, and delete its checkpoints."""
        self.forget_checkpoints(JobOutcome.FINISHED)

    def job_failed(self, effect: JobFailed) -> None:
        """Keep the failure; the checkpoints stay, and a corrected job restores them."""
        self._failure = effect.cause

    def name_of(self, task: TaskId) -> str:
        """Return the name of a task, as in ``map-0``."""
        return f"{self.graph.vertices[task.vertex].name}-{task.subtask}"

    def _cancel_job(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.cancel()

    def _let_go(self) -> None:
        self._cancel_job()
        shipment, self._shipment = self._shipment, None
        if shipment is not None:
            with suppress(*SPARK_ERRORS, OSError):
                shipment.destroy()
