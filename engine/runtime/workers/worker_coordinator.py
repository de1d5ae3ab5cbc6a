"""Runs a job in several processes on this machine: the coordinator, and the workers that own the tasks.

The rules this module lives by:

- The coordinator has the job master, the metadata of checkpoints and the requests of users, as the local
  runtime (local.py) whose loop it uses. It has no task. Messages to tasks go to the worker that owns them.
- An attempt has workers of its own, forked from the launcher. When an attempt is over its workers close their
  tasks and end; one that does not is killed. Only then the next attempt is deployed.
- A worker that dies has failed its tasks, and so the attempt (Flink: a lost TaskManager). One that is silent
  for `heartbeat.timeout` has died, too: it is killed.
- One thread for each worker reads what it sends, and passes it into the loop. It never waits for the loop: a
  worker that is stopped and takes no messages may make the loop wait, until this thread has killed it.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from onceproof.engine.api.job_client import JobClient
from onceproof.engine.checkpoint.events import CheckpointAborted, TriggerRequested
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout, layout_of
from onceproof.engine.job.deployment import plan_restores
from onceproof.engine.job.events import CancelTasks
from onceproof.engine.job.heartbeats import HeartbeatMonitor
from onceproof.engine.messages import TO_TASK, AttemptId, Send, TaskFailed, TaskId
from onceproof.engine.metrics import MetricRegistry
from onceproof.engine.protocol_points import Probe, no_probe
from onceproof.engine.runtime import local
from onceproof.engine.runtime.clocks import SYSTEM_CLOCKS, Clocks
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.job_warnings import slowest_of
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.monitor.job_view import TaskReport
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.workers.launcher import Ends, Launcher, WorkerProcess, release
from onceproof.engine.runtime.workers.link import MESSAGE, Link, frame, kill_process
from onceproof.engine.runtime.workers.protocol import (
    CheckpointDelayed,
    DeployTasks,
    EndWorker,
    MountFolder,
    Progress,
    ReadOn,
    WorkerEnded,
    refuse_what_needs_one_process,
    worker_of,
    workers_of,
)
from onceproof.engine.runtime.workers.worker_tasks import Worker, live
from onceproof.engine.types import exchange

_logger = logging.getLogger(__name__)

SECONDS_TO_END: Final = 30.0
"""How long the tasks of a worker may take to close before it is killed."""
SECONDS_TO_DIE: Final = 10.0
"""How long a killed worker may take to be gone: the system writes its memory out, or a disk hangs."""


def execute(graph: JobGraph) -> JobExecutionResult:
    """Run a job to its end as ``local.execute`` does, with its tasks in workers. Raises also InvalidJob."""
    return local.execute(graph, make=WorkersExecution)


def start(graph: JobGraph) -> JobClient:
    """Start a job in a thread of its own as ``local.start`` does, with its tasks in workers."""
    return local.start(graph, WorkersExecution)


class WorkerHandle:
    """What the coordinator knows of a worker."""

    def __init__(
        self,
        process: WorkerProcess,
        receive: Callable[[WorkerHandle, Any], None],
        heartbeats: HeartbeatMonitor,
    ) -> None:
        self.process = process
        self.death = "has died"
        """What became of it, once it is gone."""
        self._heartbeats = heartbeats
        self.records_read = 0
        self.metrics: Mapping[str, Any] = {}
        self.report: TaskReport | None = None
        """What its tasks last showed; written by the reading thread, as a whole."""
        self.has_ended_data = False
        self.is_ending = False
        """Whether the coordinator has asked it to end."""
        self._receive = receive
        self._thread = threading.Thread(target=self._read, name=f"worker-{process.number}", daemon=True)

    def start(self) -> None:
        """Begin to read what the worker sends."""
        self._thread.start()

    def send(self, message: Any) -> None:
        """Send a message; a worker that is gone gets none."""
        with suppress(OSError):
            self.process.control.sendall(frame(MESSAGE, 0, exchange.encode(message)))

    def has_gone(self, seconds: float) -> bool:
        """Wait until the worker's process is gone, ``seconds`` at most, and return whether it is."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def release(self) -> None:
        """Close the connections to the worker."""
        release(self.process.control)
        release(self.process.lifeline)
        if self.process.descriptor is not None and self.has_gone(0):
            os.close(self.process.descriptor)

    def kill(self) -> None:
        """Kill the worker's process."""
        kill_process(self.process.pid, self.process.descriptor)

    def _read(self) -> None:
        """Take what arrives, until the process is gone; kill it if no heartbeat arrives."""
        process, heartbeats = self.process, self._heartbeats
        link = Link(process.control, is_shared=True)
        lifeline = process.lifeline.fileno()
        poll = select.poll()
        for each in (process.control.fileno(), lifeline, process.descriptor):
            if each is not None:
                poll.register(each, select.POLLIN)
        is_killed = False
        while not link.is_closed:
            ready = {each for each, _ in poll.poll(heartbeats.interval_ms)}
            now = SYSTEM_CLOCKS.steady_ms()
            if lifeline in ready:
                if not _has_beaten(process.lifeline):
                    poll.unregister(lifeline)
                heartbeats.heard(now)
            if link.fileno() in ready:
                for _, _, content in link.receive():
                    self._take(exchange.decode(content))
            elif process.descriptor in ready or is_killed:
                break
            if heartbeats.is_overdue(now):
                self.death = f"has sent no heartbeat for {heartbeats.timeout_ms} ms and was killed"
                self.kill()
                is_killed = True
        self._receive(self, None)

    def _take(self, message: Any) -> None:
        if isinstance(message, WorkerEnded):
            self.records_read = message.records_read
            self.metrics = message.metrics
            return
        if isinstance(message, TaskReport):
            self.report = message
            return
        if isinstance(message, Progress):
            self.records_read = message.records_read
            self.has_ended_data = message.has_ended_data
        self._receive(self, message)


def _has_beaten(lifeline: socket.socket) -> bool:
    """Take the heartbeats that have arrived; return False once the other end is closed."""
    try:
        return bool(lifeline.recv(4096, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


class WorkersExecution(LocalExecution):
    """One run of a job whose tasks are in workers."""

    def __init__(
        self,
        graph: JobGraph,
        storage: MountedStorage,
        recovered: Recovered,
        probe: Probe = no_probe,
        clocks: Clocks = SYSTEM_CLOCKS,
    ) -> None:
        refuse_what_needs_one_process(graph)
        super().__init__(graph, storage, recovered, probe, clocks)
        self._mounts = storage
        self._handles: list[WorkerHandle] = []
        self._plan: Layout | None = None
        self._attempt = AttemptId("")
        self._read_on_at = 0
        """How many records were read at the trigger after which the sources were last let read on."""
        self._expired: CheckpointAborted | None = None
        """The last checkpoint whose time was up: the worker of its slowest task says what it waited for."""
        self.launch(graph)
        if self._count < graph.settings.workers:
            _logger.warning(
                "job %r is to have %d workers and gets %d: no operator has more subtasks",
                graph.name,
                graph.settings.workers,
                self._count,
            )

    @property
    def worker_pids(self) -> list[int]:
        """Return the processes of the current attempt's workers."""
        return [each.process.pid for each in self._handles]

    @property
    def launcher_pid(self) -> int:
        """Return the process that forks the workers."""
        return self._launcher.pid

    def launch(self, graph: JobGraph) -> None:
        """Fork the process that forks the workers of a graph.

        A driver that rescales the job calls it between two attempts, after ``end_launcher``.
        """
        self._count = workers_of(graph)
        settings = graph.settings
        lives = partial(live, partial(self.make_worker, graph), settings.heartbeat_interval_ms)
        self._launcher = Launcher(self._count, lives, settings.heartbeat_timeout_ms)

    def end_launcher(self) -> None:
        """End the process that forks the workers, once no worker is left."""
        self._launcher.close()

    def make_worker(self, graph: JobGraph, ends: Ends) -> Worker:
        """Return a worker; it is called in the worker's process."""
        return Worker(graph, self._mounts, self._scope, self._count, ends, self.probe, self._clocks)

    def run(self) -> JobExecutionResult:
        """Run until the job has finished or failed."""
        try:
            return super().run()
        finally:
            self._end_workers()
            self.end_launcher()

    # The methods of a driver.

    def read_checkpoint(self, graph: JobGraph, layout: Layout, restored: CheckpointMetadata | None) -> Any:
        """Check that the job fits the checkpoint, whose files the workers read, and start the workers."""
        plan_restores(graph, layout, restored)
        # A worker may have been killed between a folder and its first file; none writes now.
        self._mounts.remove_empty_folders()
        settings = graph.settings
        now = SYSTEM_CLOCKS.steady_ms()
        self._handles = [
            WorkerHandle(
                each,
                self._from_reader,
                HeartbeatMonitor(settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms, now),
            )
            for each in self._launcher.start()
        ]
        return restored

    def make_tasks(self, attempt: AttemptId, graph: JobGraph, layout: Layout) -> None:
        """Note which tasks there are; the workers make them."""
        self._attempt = attempt
        self._read_on_at = 0
        self._plan = layout

    def start_tasks(self, begin_with: Any) -> None:
        """Let the workers make their tasks and restore them."""
        mounts, is_first = dict(self._mounts.mounts), self.attempts == 1
        deploy = DeployTasks(self._attempt, begin_with, mounts, is_first, self.master.only_commits)
        for handle in self._handles:
            handle.start()
            handle.send(deploy)

    def send(self, effect: Send) -> None:
        """Send a message to the worker of its task, or queue it for the job master."""
        message = effect.message
        if type(message) not in TO_TASK:
            super().send(effect)
        elif self._handles:
            self._handles[worker_of(message.task, self._count)].send(message)

    def cancel_tasks(self, effect: CancelTasks) -> None:
        """End the workers of the attempt."""
        self._end_workers()
        super().cancel_tasks(effect)

    def mount(self, folder: str, place: str) -> None:
        """Mount the directory of a savepoint, also in the workers."""
        super().mount(folder, place)
        for handle in self._handles:
            handle.send(MountFolder(folder, place))

    def checkpoint_aborted(self, effect: CheckpointAborted) -> None:
        """Say which task an expired checkpoint waited for, as far as this process knows."""
        super().checkpoint_aborted(effect)
        if effect.missing:
            self._expired = effect

    # What the workers say.

    def worker_died(self, pid: int) -> None:
        """Called for observers when a worker's process has ended unasked; does nothing by default."""

    def _from_reader(self, handle: WorkerHandle, message: Any) -> None:
        """Pass what a worker has sent into the loop; None: its process is gone."""
        self._written.put(partial(self._heard, handle, message))

    def _heard(self, handle: WorkerHandle, message: Any) -> None:
        if handle not in self._handles or handle.is_ending or isinstance(message, Progress):
            return
        if isinstance(message, CheckpointDelayed):
            self._say_delay(message)
            return
        if message is not None:
            self.master_event(message)
            return
        number, pid = handle.process.number, handle.process.pid
        self.worker_died(pid)
        task = self._first_task_of(number)
        cause = f"worker {number + 1} of {self._count} (process {pid}) {handle.death}"
        _logger.warning("job %r: %s", self.graph.name, cause)
        self.master_event(TaskFailed(self._attempt, task, cause))

    def _say_delay(self, message: CheckpointDelayed) -> None:
        expired = self._expired
        if expired is None or expired.checkpoint_id != message.checkpoint_id:
            return
        if slowest_of(expired.missing, layout_of(self.graph).upstreams) == message.task:
            self.job_log.checkpoint_waited(self.graph, expired, self.now(), lambda *_: message.delay)

    def _first_task_of(self, worker: int) -> TaskId:
        assert self._plan is not None
        return next(task for task in self._plan.inputs if worker_of(task, self._count) == worker)

    def _end_workers(self) -> None:
        """Let the workers of the attempt close their tasks, and wait until they are gone."""
        handles, self._handles = self._handles, []
        if handles:
            self.metrics = MetricRegistry()
        for handle in handles:
            handle.is_ending = True
            handle.send(EndWorker())
        for handle in handles:
            if not handle.has_gone(SECONDS_TO_END):
                pid = handle.process.pid
                _logger.warning(
                    "job %r: worker %d (process %d) has not ended within %d s: it is killed",
                    self.graph.name,
                    handle.process.number + 1,
                    pid,
                    SECONDS_TO_END,
                )
                handle.kill()
                handle.has_gone(SECONDS_TO_DIE)
            self._records_before += handle.records_read
            self.metrics.take_over(handle.metrics)
            handle.release()

    # What the loop asks.

    def _records_read(self) -> int:
        return sum([handle.records_read for handle in self._handles])

    def _trigger_by_records(self, interval_records: int) -> None:
        before = self._records_at_trigger
        super()._trigger_by_records(interval_records)
        is_due = self._records_read() - before >= interval_records
        # The trigger of a savepoint counts as well: the workers count from it, as this process does.
        if self._records_at_trigger != self._read_on_at or (is_due and self.master.ending is not None):
            self._read_on_at = self._records_at_trigger
            for handle in self._handles:
                handle.send(ReadOn())

    def _request_final_checkpoint(self) -> bool:
        """Trigger the final checkpoint as soon as all workers have processed all input."""
        coordinator = self.master.coordinator
        if not self._handles or coordinator.pending or not self.graph.settings.enabled:
            return False
        if self.master.ending is not None or self._now < self._pause_at_end.until_ms:
            return False
        if not all(handle.has_ended_data for handle in self._handles):
            return False
        self.master_event(TriggerRequested())
        return bool(coordinator.pending)

    def _end_writes(self) -> None:
        self._end_workers()
        super()._end_writes()

    def _cancel_all(self) -> None:
        self._end_workers()
