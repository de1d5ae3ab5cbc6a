"""The coordinator of workers under trial, with an event log, the fault board and the scenario's requests.

The rules this module lives by:

- It derives from the runtime's own coordinator and only adds to it (`event_logging_driver.py`).
- A second thread looks at the board: it carries out faults with a delay, makes the requests of the user that
  are due, and stops an endless job, drained, once all is read. It holds a lock while it uses the board.
  Meanwhile nothing is forked, because a fork would keep the board locked, and no open file is sought.
- A rescale of the running job that the job master refuses, because the outcome of a checkpoint is open, is
  asked for again at the next look.
- A worker that dies without a fault is an error, and so is a process that outlives its attempt.
- A rescale takes effect at the next attempt: another launcher forks its workers, which are perhaps more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

from onceproof.engine.checkpoint.events import CheckpointCompleted, CheckpointTriggered, RequestResolved
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.events import (
    CancelTasks,
    Deploy,
    JobFailed,
    JobFinished,
    MasterEvent,
    RescaleRequested,
)
from onceproof.engine.messages import AttemptId, TaskFailed
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import Recovered
from onceproof.engine.runtime.workers.launcher import Ends
from onceproof.engine.runtime.workers.worker_coordinator import WorkersExecution
from onceproof.engine.runtime.workers.worker_tasks import Worker
from onceproof.harness.model.scenario import Operation
from onceproof.harness.systems.local.attempt_leaks import AttemptLeaks, Left
from onceproof.harness.systems.local.board_clocks import BoardClocks
from onceproof.harness.systems.local.logged_requests import LoggedRequests
from onceproof.harness.systems.local.observed_worker import ObservedWorker
from onceproof.harness.systems.local.unreliable_storage import UnreliableObjects, UnreliableStorage
from onceproof.harness.systems.process.database_io import database_of
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.process.process_table import session_members
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_logging_driver import RunOver, log_error

SECONDS_BETWEEN_LOOKS: Final = 0.005
SECONDS_TO_BE_GONE: Final = 2.0
"""How long a process may take to be gone once it has closed its connections."""
PROCESS: Final = "process of a dead attempt"


class WorkerGone(AssertionError):
    """A worker has died, and no fault has killed it."""


class ObservedWorkersExecution(LoggedRequests, WorkersExecution):
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
        self._has_completed = False
        """Whether the current attempt has completed a checkpoint."""
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
        if operation.kind == "terminate":
            raise ValueError("a job of the engine is stopped, not asked to terminate")
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
        self._has_completed = False
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

    def checkpoint_completed(self, effect: CheckpointCompleted) -> None:
        """Log the checkpoint; from now on what earlier attempts have left can be looked for."""
        super().checkpoint_completed(effect)
        self._has_completed = True

    def checkpoint_triggered(self, effect: CheckpointTriggered) -> None:
        """Log the checkpoint, and search what earlier attempts have left."""
        super().checkpoint_triggered(effect)
        if self._has_completed:
            self._search()

    def _search(self) -> None:
        if self.attempts > 1:
            self._log_left([Left(PROCESS, f"process {each}") for each in self._other_processes()])
        with self._lock:
            left = self._leaks.search(self._running)
        self._log_left(left)

    def _other_processes(self) -> list[int]:
        """Return the processes of this session that are none of the current attempt's."""
        deadline = time.monotonic() + SECONDS_TO_BE_GONE
        expected = {os.getpid(), self.launcher_pid, *self.worker_pids}
        while others := set(session_members(os.getsid(0))) - expected:
            if time.monotonic() > deadline:
                return sorted(others)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return []

    def _log_left(self, found: Iterable[Left]) -> None:
        for left in found:
            self.log.write(event_log.LEFT_BEHIND, what=left.what, name=left.name)

    # The end.

    def job_finished(self, effect: JobFinished) -> None:
        """Log the end of the job after it is durable, or that its user has stopped it."""
        super().job_finished(effect)
        self._leaks.job_ended()
        self._search()
        if self._stopped_by is None:
            self.log_finished()
        else:
            self.log.write(event_log.JOB_STOPPED, parallelism=self._stopped_by.parallelism)

    def job_failed(self, effect: JobFailed) -> None:
        """Log why the job failed."""
        super().job_failed(effect)
        self.log_failed(effect.cause)
