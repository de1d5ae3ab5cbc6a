"""The coordinator and the workers of a job under trial, with an event log and the fault board.

Rules:

- They derive from the runtime's own coordinator and worker and only add to them (`event_logging_driver.py`).
  A worker is forked with the board and the log in it; the log writes to a file of the worker's own.
- A second thread of the coordinator looks at the board: it carries out faults with a delay, makes the
  requests of the user that are due, and stops an endless job, drained, once all is read. It holds a lock
  while it uses the board. Meanwhile nothing is forked, because a fork would keep the board locked, and no
  open file is sought.
- A rescale of the running job that the job master refuses, because the outcome of a checkpoint is open, is
  asked for again at the next look. A rescale takes effect at the next attempt: another launcher forks its
  workers, which are perhaps more.
- The tasks of a worker are listed on the board before they restore anything, so that a kill finds them.
- The tasks check their invariants after every event. The first error that no fault injected ends the run: the
  worker logs it and marks the board, where the coordinator sees it. A worker that dies without a fault is an
  error, and so is a process that outlives its attempt.
- A fault of one process sets the wall clock of all.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Lock, Thread
from typing import Any, Final

from onceproof.engine.checkpoint.events import RequestResolved
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import (
    CancelTasks,
    Deploy,
    JobFailed,
    JobFinished,
    MasterEvent,
    RescaleRequested,
)
from onceproof.engine.messages import AttemptId, TaskFailed, TaskId
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.workers.launcher import Ends
from onceproof.engine.runtime.workers.link import Link
from onceproof.engine.runtime.workers.worker_coordinator import WorkersExecution
from onceproof.engine.runtime.workers.worker_tasks import Worker
from onceproof.engine.task.events import StoreSnapshot, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.model.chance import derived_seed
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Fault, Operation
from onceproof.harness.systems.clock_jumps import ahead_after_ms
from onceproof.harness.systems.local.attempt_leaks import AttemptLeaks, Left
from onceproof.harness.systems.local.observed_job import ObservedDriver
from onceproof.harness.systems.local.stalling_link import StallingLink
from onceproof.harness.systems.local.unreliable_storage import UnreliableObjects, UnreliableStorage
from onceproof.harness.systems.process.database_io import database_of
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.process.process_table import session_members
from onceproof.harness.systems.process.strike_requests import is_server_away, may_be_away
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_logging_driver import (
    RunOver,
    log_error,
    log_snapshot,
    log_task_failure,
    positions_of,
)

SECONDS_BETWEEN_LOOKS: Final = 0.005
SECONDS_TO_BE_GONE: Final = 2.0
"""How long a process may take to be gone once it has closed its connections."""
PROCESS: Final = "process of a dead attempt"


class WorkerGone(AssertionError):
    """A worker has died, and no fault has killed it."""


class ObservedWorkersExecution(ObservedDriver, WorkersExecution):
    """One run of a job in this process and its workers."""

    def __init__(
        self,
        spec: Spec,
        graph_of: Callable[[int], JobGraph],
        storage: MountedStorage,
        files: UnreliableStorage | UnreliableObjects,
        recovered: Recovered,
        board: FaultBoard,
    ) -> None:
        self.log = board.log
        self.parallelism = spec.parallelism
        self._spec = spec
        self._board = board
        self._files = files
        self._graph_of = graph_of
        self._graph_parallelism = spec.parallelism
        self._lock = Lock()
        """Held while the second thread has the lock of the board, and while this one forks."""
        self._running = AttemptId("")
        self._left_to_read = sum(map(len, read_records(spec.records).values())) if spec.is_endless else None
        """How many records an endless input has; None: it ends by itself, or is being ended."""
        self._asked: dict[int, Operation] = {}
        """By number, the requests of the scenario's user."""
        self._stopped_by: Operation | None = None
        self._is_to_rescale = False
        """Whether the user has asked for another parallelism, and the attempt still runs at its own."""
        clocks = BoardClocks(spec.faults, board)
        WorkersExecution.__init__(self, graph_of(spec.parallelism), storage, recovered, board, clocks)
        files.fault_clock = board

    def points_passed(self) -> dict[str, int]:
        """Return nothing: the fault board counts the protocol points."""
        return {}

    def make_worker(self, graph: JobGraph, ends: Ends) -> Worker:
        """Return a worker that logs its events."""
        self._files.fault_clock = self._board
        return ObservedWorker(
            self._spec, self._board, graph, self._mounts, self._scope, self._count, ends, self._clocks
        )

    def run(self) -> JobExecutionResult:
        """Run the job, and look at the board meanwhile."""
        over = Event()
        thread = Thread(target=self._look_at_board, args=(over,), name="board", daemon=True)
        thread.start()
        with self._lock:
            self._leaks = AttemptLeaks(str(database_of(Path(self._spec.output))))
        try:
            return super().run()
        finally:
            over.set()
            thread.join()

    # What the board asks for.

    def _look_at_board(self, over: Event) -> None:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            with self._lock:
                self._board.strike_late()
                due = self._board.due_requests()
                read = sum(self._board.state().read.values())
            for operation in due:
                self._ask(operation)
            if self._is_to_rescale:
                self._written.put(self._rescale)
            total = self._left_to_read
            if total is not None and read >= total:
                self._left_to_read = None
                self._ask_for_the_end(total)

    def _ask(self, operation: Operation) -> None:
        if operation.kind == "terminate" or operation.kind == "upgrade":
            raise ValueError(f"{operation.kind}: in workers a job is stopped or rescaled")
        if operation.kind == "rescale":
            self._written.put(partial(self._rescale_to, operation.parallelism))
            return
        request = JobRequest(operation.kind, self._spec.savepoints)

        def ask() -> None:
            self.request(request, lambda answer: None)
            self._asked[self.open_requests.latest_number] = operation

        self._written.put(ask)

    def _rescale_to(self, parallelism: int) -> None:
        """Note the parallelism of the next attempt, whatever starts it, and let it begin."""
        with self._board.held() as state:
            state.parallelism = parallelism
        self._rescale()

    def _rescale(self) -> None:
        parallelism = self._board.state().parallelism
        self._is_to_rescale = self._graph_parallelism != parallelism and self.master.goes_on
        if self._is_to_rescale and self.master.is_rescalable:
            self._is_to_rescale = False
            self.log.write(event_log.JOB_RESCALED, parallelism=parallelism)
            self.master_event(RescaleRequested())

    def _ask_for_the_end(self, total: int) -> None:
        def answered(answer: JobAnswer) -> None:
            if answer.error:
                self._left_to_read = total

        self.submit(JobRequest("stop", self._spec.savepoints, drains=True), answered)

    def request_resolved(self, effect: RequestResolved) -> None:
        """Note which request stops the job."""
        super().request_resolved(effect)
        asked = self._asked.get(effect.number)
        if effect.checkpoint_id is not None and asked is not None and asked.kind == "stop":
            self._stopped_by = asked

    # Attempts.

    def job_graph(self) -> JobGraph:
        """Return the graph at the parallelism that the last rescale asked for, with workers for it."""
        if self._graph_parallelism == self.parallelism:
            return self.graph
        self._graph_parallelism = self.parallelism
        graph = self._graph_of(self.parallelism)
        self.end_launcher()
        with self._lock:
            self.launch(graph)
        return graph

    def attempt_started(self, effect: Deploy) -> None:
        """Log the attempt, with the parallelism that was asked for last."""
        self.parallelism = self._board.state().parallelism or self.parallelism
        self._board.attempt_begins(effect.attempt)
        super().attempt_started(effect)
        self._running = effect.attempt
        with self._lock:
            self._leaks.attempt_begins()

    def cancel_tasks(self, effect: CancelTasks) -> None:
        """End the workers of the attempt; none of their tasks lives then."""
        super().cancel_tasks(effect)
        self._board.attempt_begins("")

    def worker_died(self, pid: int) -> None:
        """End the run if no fault has killed the worker."""
        if pid not in self._board.state().killed:
            error = WorkerGone(f"worker process {pid} has died, and no fault has killed it")
            log_error(self.log, "worker", error)
            raise RunOver from error

    def master_event(self, event: MasterEvent) -> None:
        """Pass an event to the job master; the failure of a task that no fault injected ends the run."""
        if isinstance(event, TaskFailed) and self._board.state().is_over:
            raise RunOver
        super().master_event(event)

    # What is left behind.

    def search(self) -> None:
        """Search for processes of dead attempts and for what is left in this one, and log it."""
        if self.attempts > 1:
            self.log_left([Left(PROCESS, f"process {each}") for each in self._other_processes()])
        with self._lock:
            left = self._leaks.search(self._running)
        self.log_left(left)

    def _other_processes(self) -> list[int]:
        """Return the processes of this session that are none of the current attempt's."""
        deadline = time.monotonic() + SECONDS_TO_BE_GONE
        expected = {os.getpid(), self.launcher_pid, *self.worker_pids}
        while others := set(session_members(os.getsid(0))) - expected:
            if time.monotonic() > deadline:
                return sorted(others)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return []

    # The end.

    def job_finished(self, effect: JobFinished) -> None:
        """Log the end of the job after it is durable, or that its user has stopped it."""
        super().job_finished(effect)
        self._leaks.job_ended()
        self.search()
        if self._stopped_by is None:
            self.log_finished()
        else:
            self.log.write(event_log.JOB_STOPPED, parallelism=self._stopped_by.parallelism)

    def job_failed(self, effect: JobFailed) -> None:
        """Log why the job failed."""
        super().job_failed(effect)
        self.log_failed(effect.cause)


class ObservedWorker(Worker):
    """The tasks of one worker in one attempt, which log their events."""

    checks_machines = True

    def __init__(
        self,
        spec: Spec,
        board: FaultBoard,
        graph: JobGraph,
        storage: MountedStorage,
        scope: str,
        workers: int,
        ends: Ends,
        clocks: Clocks,
    ) -> None:
        self._board = board
        self._spec = spec
        self._number_of_worker = ends.number
        self._names = [vertex.name for vertex in graph.vertices]
        self._logged_snapshots: set[str] = set()
        """Paths of the snapshots that are in the log already."""
        self._noted: dict[str, int] = {}
        """What the board knows of the positions of this worker's sources."""
        super().__init__(graph, storage, scope, workers, ends, board, clocks)

    def run(self) -> None:
        """Run the worker. An error that is none of a task ends the run."""
        try:
            super().run()
        except Exception as error:
            log_error(self._board.log, "worker", error)
            self._board.end()
            raise

    def connect(self, connection: socket.socket) -> Link:
        """Return a connection that stalls where a fault says so, or an unfair schedule."""
        seed = self._spec.stall_seed
        if not seed and all(FAULTS[fault.kind].strikes != "message" for fault in self._spec.faults):
            return super().connect(connection)
        stalls = Random(derived_seed("stalls", seed, self._number_of_worker)) if seed else None
        return StallingLink(connection, self._message_fault, stalls)

    def _message_fault(self, point: Point, message: Any) -> Fault | None:
        task: TaskId = message.task
        name = f"{self._names[task.vertex]}-{task.subtask}"
        return self._board.other_at(point, name, message.checkpoint_id)

    def _may_be_away(self) -> bool:
        return may_be_away(self._spec.faults, self._board.state().waiting)

    def tasks_made(self, tasks: Mapping[TaskId, Task]) -> None:
        """List the tasks as living; let the board read the positions of their sources."""
        attempt = next(iter(tasks.values())).attempt
        self._board.tasks_live([task.name for task in tasks.values()], attempt)
        self._board.reading = lambda: positions_of(tasks.values())

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Log the cut of the snapshot, once for each file."""
        if effect.path not in self._logged_snapshots:
            self._logged_snapshots.add(effect.path)
            log_snapshot(self._board.log, task, effect)

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Pass an event to a task; note how far a source has come that waits for more."""
        super().task_event(task, event)
        if self._spec.is_endless and task.is_source and task.retry_ms is not None:
            positions = positions_of([task])
            if positions.items() - self._noted.items():
                self._noted.update(positions)
                self._board.has_read(task.attempt, positions)

    def task_died(self, task: Task, error: BaseException) -> None:
        """Log a task that raised; an error that no fault injected ends the run."""
        injected = is_injected(error) or (is_server_away(error) and self._may_be_away())
        log_task_failure(
            self._board.log, task.name, task.attempt, f"{type(error).__name__}: {error}", injected
        )
        if not injected:
            log_error(self._board.log, task.name, error)
            self._board.end()
        super().task_died(task, error)


class BoardClocks(Clocks):
    """The wall clock is as far ahead as the faults have set it that the board has seen strike."""

    def __init__(self, faults: tuple[Fault, ...], board: FaultBoard) -> None:
        self._faults = faults
        self._board = board
        self._jumps = any(FAULTS[fault.kind].strikes == "clock" for fault in faults)

    def wall_ms(self) -> int:
        """Read the wall clock, set forward or back in every process of the job."""
        ahead_ms = ahead_after_ms(self._faults, self._board.state().waiting) if self._jumps else 0
        return super().wall_ms() + ahead_ms
