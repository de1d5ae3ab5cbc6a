"""What every driver does for the job master: hand events to it and carry its effects out.

A driver runs one job in one process. Where its tasks live differs: in this process and for as long as their
attempt (``Execution``), or in workers that make them anew for each checkpoint (Spark). What the job master
asks for does not, and stands here once:

- Deploying reads the checkpoint; what cannot be read ends the job, since trying again reads the same.
- Checkpoints and stored snapshots that are no longer needed are deleted: also those from before the point
  that the job has begun from, once it has a checkpoint of its own. What cannot be deleted now is left for the
  end of the job: no deletion is worth a job.
- A user or another process may ask for a savepoint, or for the end of the job (job_requests.py).
- A subclass can observe the run: it overrides the hooks for attempts and checkpoints, and sets
  ``checks_machines`` to have every machine validated after each event.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, ClassVar

from msgspec.structs import replace

from onceproof.engine.checkpoint.completed_store import CompletedCheckpointStore, JobOutcome, is_retained
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.events import (
    AnsweredTooLate,
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointPlan,
    CheckpointTriggered,
    DiscardCheckpoint,
    DiscardHandle,
    DiscardSharedFiles,
    MetadataStored,
    RequestResolved,
    StartTimer,
    StoreMetadata,
    TooManyFailures,
)
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, StateHandle
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout, layout_of
from onceproof.engine.job.deployment import fit_max_parallelism
from onceproof.engine.job.events import (
    AttemptDeployed,
    CancelTasks,
    Deploy,
    DeploymentFailed,
    JobCanceled,
    JobFailed,
    JobFinished,
    MasterEvent,
    RestartDue,
    StartRestartTimer,
)
from onceproof.engine.job.master import JobMaster, JobState
from onceproof.engine.job.restart_strategies import Chance, restart_strategy
from onceproof.engine.messages import AttemptId, Send
from onceproof.engine.metrics import MetricRegistry
from onceproof.engine.protocol_points import COMPLETED, COORDINATOR, METADATA_WRITTEN, TRIGGERED, Probe
from onceproof.engine.runtime.checkpoint_history import JobHistory, OutcomeUnknown
from onceproof.engine.runtime.deletion import NEXT_START, Superseded, delete_if_possible, deletion_may_fail
from onceproof.engine.runtime.job_log import JobLog
from onceproof.engine.runtime.job_registry import JobClaim
from onceproof.engine.runtime.job_requests import JobRequest, OpenRequests, Respond, publish_metadata
from onceproof.engine.runtime.job_result import JobCancelled, JobExecutionFailed, JobExecutionResult
from onceproof.engine.runtime.recovery import (
    RecoverableStorage,
    Recovered,
    discard_checkpoint,
    discard_former,
    retire,
    sweep,
)
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.engine.runtime.storage import MissingFile
from onceproof.engine.task.events import DiscardSnapshot
from onceproof.engine.wall_clock import WallClock


class JobDriver(ABC):
    """One process's run of a job: it drives the job master, and leaves the tasks to subclasses."""

    checks_machines: ClassVar[bool] = False
    """Whether each machine validates itself after every event; drivers under trial set it."""
    handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]
    """The function that executes an effect for a driver, by the type of the effect."""

    def __init__(
        self, graph: JobGraph, storage: RecoverableStorage, recovered: Recovered, probe: Probe
    ) -> None:
        settings = graph.settings
        store = CompletedCheckpointStore(settings.num_retained)
        for metadata in recovered.checkpoints:
            store.add(metadata)
        self._checks = self.checks_machines  # Read at every event, which costs less of an instance.
        self.graph = graph
        self.wall_clock = self.make_wall_clock()
        self.storage = storage
        self.probe = probe
        self.master = JobMaster(
            CheckpointCoordinator(
                graph.job_id,
                graph.name,
                settings,
                store,
                max([recovered.record.first_id - 1, recovered.starting_point.last_id, *recovered.former]) + 1,
                self.wall_clock,
            ),
            restart_strategy(settings.restarts, self.chance),
            recovered.incarnation,
            settings.timeout_ms,
            settings.max_equal_errors,
            is_batch=graph.is_batch,
        )
        self.job_log = self.make_log()
        self.metrics = MetricRegistry()
        self.attempts = 0
        self.checkpoints = 0
        self.open_requests = OpenRequests(graph.job_id, settings.savepoint_directory)
        self.history = JobHistory(storage, recovered.incarnation, recovered.record, recovered.records)
        self.claim = JobClaim(graph, storage, recovered)
        self._recovered = recovered
        self._former = recovered.former

    # Each driver implements these.

    @abstractmethod
    def now(self) -> int:
        """Return the time of the current step in milliseconds, by a clock that never jumps."""

    @abstractmethod
    def send(self, effect: Send) -> None:
        """Deliver a message to its task or to the job master."""

    @abstractmethod
    def store_metadata(self, effect: StoreMetadata) -> None:
        """Publish metadata atomically; later report the result through ``master_event``."""

    @abstractmethod
    def start_timer(self, effect: StartTimer | StartRestartTimer) -> None:
        """Pass ``effect.event`` to the job master at ``effect.due_ms``."""

    @abstractmethod
    def read_checkpoint(self, graph: JobGraph, layout: Layout, restored: CheckpointMetadata | None) -> Any:
        """Return the argument of ``start_tasks``; an exception here fails the job, an OSError the attempt."""

    @abstractmethod
    def make_tasks(self, attempt: AttemptId, graph: JobGraph, layout: Layout) -> None:
        """Make the tasks of an attempt; the job master learns of them afterwards."""

    @abstractmethod
    def start_tasks(self, begin_with: Any) -> None:
        """Let the tasks restore their state and run."""

    @abstractmethod
    def cancel_tasks(self, effect: CancelTasks) -> None:
        """End all tasks; none may run on once the next attempt is deployed."""

    @abstractmethod
    def job_finished(self, effect: JobFinished) -> None:
        """Called when the job has finished: all output is committed."""

    @abstractmethod
    def job_failed(self, effect: JobFailed) -> None:
        """Called when the job has failed for good."""

    def chance(self) -> Chance:
        """Return the random source of restart jitter; a driver with reproducible runs seeds it."""
        return Random().random

    def make_log(self) -> JobLog:
        """Return what logs and counts the failures of the job."""
        return JobLog(self.graph.name, self.graph.settings.timeout_ms)

    def make_wall_clock(self) -> WallClock:
        """Return the wall clock of the run, which the driver keeps up to date."""
        return WallClock()

    def job_canceled(self, effect: JobCanceled) -> None:
        """Called before the checkpoints of a cancelled job are deleted."""

    def mount(self, folder: str, place: str) -> None:
        """Mount the directory of a savepoint into a folder of the storage."""

    def job_graph(self) -> JobGraph:
        """Return the graph for the next attempt; a driver that rescales the job returns another one."""
        return self.graph

    def attempt_started(self, effect: Deploy) -> None:
        """Called for observers; does nothing by default."""

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Called for observers; does nothing by default."""

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Called for observers; does nothing by default."""

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Say what an expired checkpoint waited for. Observers override this."""
        self.job_log.checkpoint_waited(self.graph, effect, self.now())

    def request_resolved(self, effect: RequestResolved) -> None:
        """Called for observers; does nothing by default."""

    def master_answered(self, event: MasterEvent, effects: Sequence[Any]) -> None:
        """Called for observers, where machines are checked, ahead of the effects."""

    def answered_too_late(self, effect: AnsweredTooLate) -> None:
        """Called for observers; does nothing by default."""

    # What is the same for all.

    def request(self, request: JobRequest, respond: Respond) -> None:
        """Submit a user's request; ``respond`` is called once, perhaps before this returns."""
        event = self.open_requests.take(request, respond)
        if event is not None:
            self.master_event(event)

    def result(self, started_ns: int, failure: str | None, records_read: int) -> JobExecutionResult:
        """Return the result of the run, which began at ``started_ns`` of the monotonic clock.

        Raises JobCancelled, and JobExecutionFailed with ``failure`` or where the job has not finished.
        """
        if self.master.state is JobState.CANCELED:
            raise JobCancelled(f"job {self.graph.name!r} was cancelled")
        if failure is not None or self.master.state is not JobState.FINISHED:
            why = failure or f"its run was left while it was {self.master.state.value}"
            raise JobExecutionFailed(f"job {self.graph.name!r} failed: {why}")
        return JobExecutionResult(
            self.graph.job_id,
            self.graph.name,
            (time.monotonic_ns() - started_ns) // 1_000_000,
            self.attempts,
            self.checkpoints,
            records_read,
            stopped_with=self.open_requests.stopped_with,
            failed_checkpoints=self.job_log.failed_checkpoints,
            last_checkpoint_failure=self.job_log.last_checkpoint_failure,
            restarts=self.job_log.restarts,
            last_restart_cause=self.job_log.last_restart_cause,
            metrics=self.job_log.metrics(self.metrics.values()),
        )

    @property
    def is_superseded(self) -> bool:
        """Whether another process has claimed the job, whose files are its own then. Raises OSError."""
        return self.claim.is_lost

    def check_claim(self) -> None:
        """Raise Superseded if another process has claimed the job, or the job's folder is gone."""
        self.claim.check()

    def next_starting_point(self, metadata: CheckpointMetadata) -> StartingPoint | None:
        """Return the job's new starting point once this checkpoint is complete; None: it stays.

        The open requests know it. A driver that takes requests in another way overrides this.
        """
        return self.open_requests.starting_point(metadata)

    def _new_starting_point(self, metadata: CheckpointMetadata) -> StartingPoint | None:
        """Return the new starting point, with the claimed one that it replaces: a successor deletes that."""
        point, before = self.next_starting_point(metadata), self._recovered.starting_point
        if point is None or not self._recovered.claimed or before.own_checkpoint:
            return point
        return replace(point, replaces=before.path)

    def publish(self, metadata: CheckpointMetadata) -> None:
        """Make a checkpoint complete.

        Raises OSError, and then it certainly does not count; raises Superseded if another process has the
        job, which may go on from it nevertheless. Raises OutcomeUnknown.
        """
        self.check_claim()
        try:
            publish_metadata(self.storage, self.history, metadata, self._new_starting_point(metadata))
        except OSError:
            # If another process is the reason, say so.
            self.check_claim()
            raise
        if self.storage.writes_may_be_late:
            self._confirm_claim(metadata.checkpoint_id)
        self.claim.check_folder()

    def _confirm_claim(self, checkpoint_id: int) -> None:
        """Check the claim again: a successor may have looked for checkpoints before this one was there."""
        try:
            self.check_claim()
        except Superseded:
            raise
        except OSError as error:
            raise OutcomeUnknown(
                f"checkpoint {checkpoint_id} is written, but whether this process still has the job is"
                f" unknown ({error}): start the job again, it resumes from the latest complete checkpoint"
            ) from error

    def metadata_published(self, checkpoint_id: int) -> None:
        """Report to the job master that the metadata of a checkpoint is durable. Raises JobLost."""
        self.probe(METADATA_WRITTEN, COORDINATOR, checkpoint_id)
        with self.claim.ends_the_run():
            # The tasks commit next.
            self.claim.check_folder()
        self.master_event(MetadataStored(checkpoint_id))

    def forget_checkpoints(self, outcome: JobOutcome) -> None:
        """Delete the checkpoints that are not retained, unless another process has claimed the job."""
        if self.is_superseded:
            return
        with suppress(Superseded):
            self._forget_checkpoints(outcome)

    def _forget_checkpoints(self, outcome: JobOutcome) -> None:
        spared = self._recovered.starting_point.spared
        if outcome is JobOutcome.FINISHED:
            if self.master.coordinator.stopped_with is None:
                self.history.finish()
                retire(self.storage, spared, self.check_claim)
                with deletion_may_fail(NEXT_START):
                    self.history.forget()
            else:
                with deletion_may_fail(NEXT_START):
                    sweep(self.storage, (), spared, self.check_claim)
        elif is_retained(self.graph.settings.retention, outcome):
            return
        else:
            if not self.open_requests.stopped_with:
                self.history.close(self.master.coordinator.next_id)
            sweep(self.storage, (), spared, self.check_claim)
        with deletion_may_fail("its owner"):
            for path in self._recovered.claimed:
                self.storage.delete(path)

    def master_event(self, event: MasterEvent) -> None:
        """Pass an event to the job master and execute its effects."""
        effects = self.master.handle(event, self.now())
        if self._checks:
            self.master.validate()
            self.master_answered(event, effects)
        if effects:
            self.carry_out(effects)

    def carry_out(self, effects: Iterable[Any]) -> None:
        """Execute effects in order."""
        handlers = self.handlers
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self.send(effect)
            else:
                handlers[kind](self, effect)

    def cause_of(self, error: Exception) -> str:
        """Return in one line why an attempt cannot be deployed."""
        return " ".join(str(error).split())

    def _may_pass(self, error: Exception) -> bool:
        """Return whether another attempt may read the checkpoint that this one could not.

        A file that is missing when the process starts was deleted; later it may be on a disk that is gone.
        """
        if isinstance(error, MissingFile) and self.attempts == 1:
            return False
        return isinstance(error, OSError) and not isinstance(error, Superseded)

    def _deploy(self, effect: Deploy) -> None:
        self.attempts += 1
        self.attempt_started(effect)
        try:
            self.check_claim()
            graph = self.graph = fit_max_parallelism(self.job_graph(), effect.restored)
            layout = layout_of(graph)
            begin_with = self.read_checkpoint(graph, layout, effect.restored)
        except Exception as error:
            self.master_event(DeploymentFailed(self.cause_of(error), self._may_pass(error)))
            return
        self.make_tasks(effect.attempt, graph, layout)
        self.master_event(AttemptDeployed(CheckpointPlan(effect.attempt, graph.vertices, layout.upstreams)))
        self.start_tasks(begin_with)

    def _checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        leads = self.open_requests.begun(effect) if effect.number else None
        if leads is not None:
            self.mount(*leads)
        self.probe(TRIGGERED, COORDINATOR, effect.checkpoint_id)
        self.checkpoint_triggered(effect)

    def _checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        self.probe(COMPLETED, COORDINATOR, effect.checkpoint_id)
        self.checkpoints += 1
        self.checkpoint_completed(effect)
        if self._former:
            retained = self.master.coordinator.store.retained
            kept = [each.checkpoint_id for each in retained]
            for checkpoint_id in self._former:
                if checkpoint_id not in kept:
                    with deletion_may_fail():
                        discard_former(self.storage, checkpoint_id, retained, self.check_claim)
            self._former = ()

    def _checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        self.job_log.checkpoint_aborted(effect.checkpoint_id, effect.reason, self.now())
        self.checkpoint_aborted(effect)

    def _start_restart_timer(self, effect: StartRestartTimer) -> None:
        if type(effect.event) is RestartDue:
            now, latest = self.now(), self.master.coordinator.latest
            latest_id = None if latest is None else latest.checkpoint_id
            delay_ms = max(0, effect.due_ms - now)
            cause = self.master.last_failure
            self.job_log.restart_planned(effect.event.attempt, cause, delay_ms, latest_id, now)
        self.start_timer(effect)

    def _discard_checkpoint(self, effect: DiscardCheckpoint) -> None:
        with deletion_may_fail():
            self._delete_unless_superseded(effect)

    def _delete_unless_superseded(self, effect: DiscardCheckpoint) -> None:
        if self.is_superseded:
            # The other process may go on from this checkpoint.
            return
        claimed = self._recovered.claimed
        if claimed and effect.checkpoint_id == self._recovered.checkpoints[0].checkpoint_id:
            delete_if_possible(self.storage, claimed)
            return
        with suppress(Superseded):
            discard_checkpoint(self.storage, effect.checkpoint_id, effect.kind, self.check_claim)

    def _request_resolved(self, effect: RequestResolved) -> None:
        self.open_requests.resolved(effect)
        self.request_resolved(effect)

    def _discard_handle(self, effect: DiscardHandle) -> None:
        handle = effect.handle
        assert isinstance(handle, StateHandle)
        self._delete_files(handle.paths)

    def _discard_snapshot(self, effect: DiscardSnapshot) -> None:
        """Delete what a task has stored and never acknowledged: no process's metadata can list it."""
        handle = effect.handle
        assert isinstance(handle, StateHandle)
        delete_if_possible(self.storage, handle.paths)

    def _discard_shared_files(self, effect: DiscardSharedFiles) -> None:
        self._delete_files(effect.paths)

    def _delete_files(self, paths: Iterable[str]) -> None:
        with deletion_may_fail():
            # A process that has taken the job over may have gone on from a checkpoint that lists them.
            if not self.is_superseded:
                delete_if_possible(self.storage, paths)

    def _job_failed(self, effect: JobFailed) -> None:
        """Notify the driver, then delete the checkpoints that are not retained, if the storage allows it."""
        self.job_log.job_failed(effect.cause)
        self.job_failed(effect)
        with suppress(OSError):
            self.forget_checkpoints(JobOutcome.FAILED)
        self.open_requests.ended(effect.cause)

    def _job_canceled(self, effect: JobCanceled) -> None:
        self.job_canceled(effect)
        with suppress(OSError):
            self.forget_checkpoints(JobOutcome.CANCELED)
        self.open_requests.ended()

    def _job_finished(self, effect: JobFinished) -> None:
        """Notify the driver, which deletes the checkpoints once no write is pending."""
        self.job_finished(effect)
        self.open_requests.ended()

    def _too_many_failures(self, effect: TooManyFailures) -> None:
        """Do nothing: the job master fails the job itself."""


# What drivers override is looked up when it is called; the rest is named directly, which saves a call.
JobDriver.handlers = {
    DiscardSnapshot: JobDriver._discard_snapshot,
    StartTimer: lambda driver, effect: driver.start_timer(effect),
    StoreMetadata: lambda driver, effect: driver.store_metadata(effect),
    DiscardCheckpoint: JobDriver._discard_checkpoint,
    DiscardHandle: JobDriver._discard_handle,
    DiscardSharedFiles: JobDriver._discard_shared_files,
    CheckpointTriggered: JobDriver._checkpoint_triggered,
    CheckpointCompleted: JobDriver._checkpoint_completed,
    CheckpointAborted: JobDriver._checkpoint_aborted,
    RequestResolved: JobDriver._request_resolved,
    AnsweredTooLate: lambda driver, effect: driver.answered_too_late(effect),
    TooManyFailures: JobDriver._too_many_failures,
    Deploy: JobDriver._deploy,
    CancelTasks: lambda driver, effect: driver.cancel_tasks(effect),
    StartRestartTimer: JobDriver._start_restart_timer,
    JobFinished: JobDriver._job_finished,
    JobFailed: JobDriver._job_failed,
    JobCanceled: JobDriver._job_canceled,
}
