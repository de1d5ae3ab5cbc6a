"""The engine's subtask in a Spark worker: event log, fault board, and a storage that suffers faults.

Rules:

- It derives from the runtime's own subtask and only adds to it. It logs every event before the next thing can
  become visible.
- The probe of a job under trial is its fault board. Spark ships it to the workers, with the event log in it.
- It logs the event time of its operators at both ends of the epoch: it must continue where it was.
- The task checks its invariants after every event. The first error that no fault injected ends the run: the
  worker logs it with its place and marks the board, where the driver sees it.
- A torn write leaves the first half of the file and kills its writer, so no process learns that it failed. A
  full disk also leaves the first half, and the writer gets an error. A read-only disk refuses to write and to
  delete.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from onceproof.engine.graph import JobGraph
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.base import FunctionOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.protocol_points import METADATA_WRITTEN, SNAPSHOTTED
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.runtime.spark.epoch import Deployment, Epoch
from onceproof.engine.runtime.spark.stages import Parcel
from onceproof.engine.runtime.spark.subtask import BrokenChannel, EpochIsOver, SubtaskRun, UpstreamFailed
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.model.injected_error import InjectedError, is_injected
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.process.fault_actions import room_for
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_assembly import Assembly
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_logging_driver import (
    log_error,
    log_snapshot,
    log_task_failure,
    records_read,
)


def assembly_of(spec: Spec, board: FaultBoard) -> Assembly:
    """Return the assembly of a job whose sources and sinks log to the board's log and suffer its faults."""
    return Assembly(spec, board.log, board.commit_fault)


@dataclass(frozen=True)
class JobRecipe:
    """Builds the job graph in a worker; Spark ships it there."""

    spec: Spec
    parallelism: int
    board: FaultBoard

    def __call__(self) -> JobGraph:
        """Return the graph, with sources and sinks that write to the event log of this process."""
        return assembly_of(self.spec, self.board).graph(self.parallelism)


class ObservedSubtask(SubtaskRun):
    """One subtask in one epoch, which logs its events."""

    checks_machines = True

    def __init__(self, deployment: Deployment, epoch: Epoch, task_id: TaskId, spark_attempt: int) -> None:
        super().__init__(deployment, epoch, task_id, spark_attempt)
        self._task: Task | None = None
        board = deployment.probe
        assert isinstance(board, FaultBoard)
        self._board = board
        seen = FaultyStorage(deployment.storage.root, board, self.name)
        self.storage = MountedStorage(seen, deployment.storage.mounts)

    def run(self, arrived: Iterable[Parcel]) -> Iterator[Parcel]:
        """Run the epoch. Meanwhile the board lists the subtask as a possible victim of kills."""
        restored = self.epoch.restores[self.task_id].checkpoint_id
        with self._board.living(self.name, self.attempt):
            self._board.log.write(
                event_log.SUBTASK_STARTED, task=self.name, attempt=self.attempt, restored=restored
            )
            yield from super().run(arrived)

    def opened(self, task: Task) -> None:
        """Open the task; let the board read the position of a source."""
        super().opened(task)
        self._task = task
        self._log_time(task, begins_at=self.epoch.restores[self.task_id].checkpoint_id)
        head = task.operators[0]
        if isinstance(head, SourceOperator):
            self._board.reading = partial(records_read, head)

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Log the cut of the snapshot before it can be stored."""
        super().snapshot_taken(task, effect)
        log_snapshot(self._board.log, task, effect)

    def live(self, parcels: deque[Parcel]) -> Iterator[None]:
        """Process the epoch's parcels. Log an error that no fault injected, and end the run."""
        try:
            yield from super().live(parcels)
            if self._task is not None:
                self._log_time(self._task, ends_at=self.epoch.checkpoint_id)
        except (BrokenChannel, EpochIsOver, UpstreamFailed):
            # If a shuffle cannot be fetched, Java truncates the input and then fails the task. It is an error
            # of the engine only if the driver gets it as a result.
            raise
        except Exception as error:
            if is_injected(error):
                # A sink in this worker raised an injected error. Spark runs the task again.
                log_task_failure(
                    self._board.log, self.name, self.attempt, f"{error}", True, event_log.SUBTASK_FAILED
                )
            elif self._board.is_living(self.attempt):
                log_error(self._board.log, self.name, error)
                self._board.end()
            raise

    def _log_time(self, task: Task, **checkpoint: int | None) -> None:
        """Log the watermark by which each operator tells what is late; ``checkpoint`` names an end."""
        watermarks = [
            operator.event_clock.watermark
            for operator in task.operators
            if isinstance(operator, FunctionOperator) and operator.event_clock is not None
        ]
        if watermarks:
            self._board.log.write(event_log.SUBTASK_TIME, task=self.name, watermarks=watermarks, **checkpoint)


class RefusedByFault(StorageError, InjectedError):
    """The disk refuses a call because of a fault."""


class FaultyStorage(LocalCheckpointStorage):
    """The checkpoint storage of one task under trial; ``name`` is the task's."""

    def __init__(self, root: str, board: FaultBoard, name: str) -> None:
        super().__init__(root)
        self._board = board
        self._name = name

    def write(self, path: str, data: bytes) -> None:
        """Write a snapshot. Raises RefusedByFault where a fault refuses it."""
        self._suffer(SNAPSHOTTED, path, path, data)
        super().write(path, data)

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Publish metadata. Raises RefusedByFault where a fault refuses it."""
        folder, _, name = path.rpartition("/")
        if name == METADATA:
            self._suffer(METADATA_WRITTEN, path, f"{folder}/.{name}.unpublished", data)
        return super().create_exclusive(path, data)

    def delete(self, path: str) -> None:
        """Delete a file. Raises RefusedByFault while the disk is read-only."""
        if self._board.refusal(self._name, ("read_only",)) is not None:
            raise RefusedByFault(f"checkpoint file {path} cannot be deleted: {os.strerror(errno.EROFS)}")
        super().delete(path)

    def _suffer(self, point: str, path: str, unfinished: str, data: bytes) -> None:
        """Ask the board for a write's fault; ``unfinished`` is the path of a half-written file."""
        checkpoint_id = int(path.partition("/")[0].removeprefix("chk-"))
        fault = self._board.write_fault(point, self._name, checkpoint_id)
        if fault is not None:
            self.carry_out(fault, path, unfinished, data)

    def carry_out(self, fault: Fault, path: str, unfinished: str, data: bytes) -> None:
        """Refuse a write by raising RefusedByFault or StorageError, or tear it and kill this process."""
        half = data[: len(data) // 2]
        if fault.kind == "tear_write":
            super().write(unfinished, half)
            self._board.die_of_fault()
        match fault.means:
            case "full":
                # The file size limit makes the write fail in the middle.
                with room_for(len(half)):
                    super().write(unfinished, data)
            case "read_only":
                raise RefusedByFault(f"checkpoint file {path} cannot be written: {os.strerror(errno.EROFS)}")
        raise RefusedByFault(f"checkpoint file {path} cannot be written: the disk refused it, as planned")
