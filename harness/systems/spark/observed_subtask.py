"""The engine's subtask in a Spark worker, with an event log and a fault board.

The rules this module lives by:

- It derives from the runtime's own subtask and only adds to it. It logs every event before the next thing
  can become visible.
- The probe of a job under trial is the board of its faults: with it everything travels that a worker needs.
- The task checks itself after every event. The first error of the engine's own ends the run: it is logged
  with its place, and stands on the board, where the driver sees it.
- A torn write is the death of its writer in the middle of the write: half of the file is there, and no error
  was raised. A full disk leaves half of the file as well, and raises an error. On a read-only disk nothing
  can be deleted either.
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
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.protocol_points import METADATA_WRITTEN, SNAPSHOTTED
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.engine.runtime.spark.epoch import Deployment, Epoch
from onceproof.engine.runtime.spark.stages import Parcel
from onceproof.engine.runtime.spark.subtask import BrokenChannel, EpochIsOver, SubtaskRun, UpstreamFailed
from onceproof.engine.runtime.storage import LocalCheckpointStorage, StorageError
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.model.injected_error import InjectedError, is_injected
from onceproof.harness.systems.process.fault_actions import room_for
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_assembly import Assembly
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.test_io import records_read
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_logging_driver import log_error, log_snapshot, log_task_failure


def assembly_of(spec: Spec, board: FaultBoard) -> Assembly:
    """What builds the job in a process that has the board."""
    return Assembly(spec, board.log, partial(board.outside_fault, "committing"))


@dataclass(frozen=True)
class JobRecipe:
    """Builds the job graph in a worker; Spark ships it there."""

    spec: Spec
    parallelism: int
    board: FaultBoard

    def __call__(self) -> JobGraph:
        """Return the graph, with sources and sinks that write to the event log of this process."""
        return assembly_of(self.spec, self.board).graph(self.parallelism)


class RefusedByFault(StorageError, InjectedError):
    """The disk refuses, for a fault has made it."""


class FaultyStorage(LocalCheckpointStorage):
    """The storage of checkpoints as one of the processes under trial sees it."""

    def __init__(self, root: str, board: FaultBoard, name: str) -> None:
        super().__init__(root)
        self._board = board
        self._name = name

    def write(self, path: str, data: bytes) -> None:
        """Write a snapshot, unless that fails."""
        self._may_fail(SNAPSHOTTED, path, path, data)
        super().write(path, data)

    def publish(self, path: str, data: bytes) -> None:
        """Publish metadata, unless that fails."""
        folder, _, name = path.rpartition("/")
        self._may_fail(METADATA_WRITTEN, path, f"{folder}/.{name}.unpublished", data)
        super().publish(path, data)

    def _may_fail(self, point: str, path: str, torn: str, data: bytes) -> None:
        checkpoint_id = int(path.partition("/")[0].removeprefix("chk-"))
        fault = self._board.write_fault(point, self._name, checkpoint_id)
        if fault is None:
            return
        if fault.kind == "tear_write":
            super().write(torn, data[: len(data) // 2])
            self._board.fall()
        if fault.means == "full":
            # It fails in the middle by itself.
            with room_for(len(data) // 2):
                super().write(torn, data)
        reason = os.strerror(errno.EROFS) if fault.means == "read_only" else "the disk refused it, as planned"
        raise RefusedByFault(f"checkpoint file {path} cannot be written: {reason}")

    def delete(self, path: str) -> None:
        """Delete a file, unless nothing can be written."""
        if self._board.refusal(self._name, ("read_only",)) is not None:
            raise RefusedByFault(f"checkpoint file {path} cannot be deleted: {os.strerror(errno.EROFS)}")
        super().delete(path)


class ObservedSubtask(SubtaskRun):
    """One subtask in one epoch, which logs its events."""

    checks_machines = True

    def __init__(self, deployment: Deployment, epoch: Epoch, task_id: TaskId, spark_attempt: int) -> None:
        super().__init__(deployment, epoch, task_id, spark_attempt)
        board = deployment.probe
        assert isinstance(board, FaultBoard)
        self._board = board
        seen = FaultyStorage(deployment.storage.root, board, self.name)
        self.storage = MountedStorage(seen, deployment.storage.mounts)

    def run(self, arrived: Iterable[Parcel]) -> Iterator[Parcel]:
        """Run the epoch; the subtask is registered on the board as a possible victim meanwhile."""
        restored = self.epoch.restores[self.task_id].checkpoint_id
        with self._board.living(self.name, self.attempt):
            self._board.log.write(
                event_log.SUBTASK_STARTED, task=self.name, attempt=self.attempt, restored=restored
            )
            yield from super().run(arrived)

    def opened(self, task: Task) -> None:
        """Open the task; let the board read the position of a source."""
        super().opened(task)
        head = task.operators[0]
        if isinstance(head, SourceOperator):
            self._board.reading = partial(records_read, head)

    def snapshot_taken(self, task: Task, effect: StoreSnapshot) -> None:
        """Log the cut of the snapshot before it can be stored."""
        super().snapshot_taken(task, effect)
        log_snapshot(self._board.log, task, effect)

    def live(self, parcels: deque[Parcel]) -> Iterator[None]:
        """Live through the epoch; log an error of the engine's own, and end the run."""
        try:
            yield from super().live(parcels)
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
