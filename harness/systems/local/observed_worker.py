"""A worker of the local runtime under trial, with an event log and a fault board.

The rules this module lives by:

- It derives from the runtime's own worker and only adds to it. It is forked with the board and the log in it;
  the log writes to a file of the worker's own.
- Its tasks are listed on the board before they restore anything, so that a kill finds them.
- The tasks check their invariants after every event. The first error that no fault injected ends the run: the
  worker logs it and marks the board, where the coordinator sees it.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from random import Random
from typing import Any

from onceproof.engine.graph import JobGraph
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.clocks import Clocks
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.workers.launcher import Ends
from onceproof.engine.runtime.workers.link import Link
from onceproof.engine.runtime.workers.worker_tasks import Worker
from onceproof.engine.task.events import StoreSnapshot, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.model.chance import derived_seed
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.injected_error import is_injected
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.local.stalling_link import StallingLink
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.strike_requests import is_server_away, may_be_away
from onceproof.harness.systems.recording.event_logging_driver import (
    log_error,
    log_snapshot,
    log_task_failure,
    records_read,
)


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
        self._board.reading = lambda: _positions(tasks)

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Log the cut of the snapshot, once for each file."""
        if effect.path not in self._logged_snapshots:
            self._logged_snapshots.add(effect.path)
            log_snapshot(self._board.log, task, effect)

    def task_event(self, task: Task, event: TaskEvent) -> None:
        """Pass an event to a task; note how far a source has come that waits for more."""
        super().task_event(task, event)
        if self._spec.is_endless and task.is_source and task.retry_ms is not None:
            positions = _positions({task.id: task})
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


def _positions(tasks: Mapping[TaskId, Task]) -> dict[str, int]:
    """Return by split how many records the sources among some tasks have read."""
    read: dict[str, int] = {}
    for task in tasks.values():
        head = task.operators[0]
        if isinstance(head, SourceOperator):
            read.update(records_read(head))
    return read
