"""Mutants of storage: a call that fails for a moment, is slow or is stale ends the job, or its process."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.checkpoint.redistribution import RestoreRefused
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime import job_driver, recovery
from onceproof.engine.runtime.execution import Execution
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.recovery import FINISHED, RecoverableStorage, sweep
from onceproof.engine.runtime.storage import MissingFile, StorageError
from onceproof.engine.task.events import Restore
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="read-error-ends-the-job",
    breaks="liveness",
    summary="a checkpoint that the storage cannot read now ends the job, whatever restarts are left",
)
def read_error_ends_the_job(reached: Reached) -> Iterator[None]:
    """The next attempt could have read it."""
    may_pass = JobDriver._may_pass

    def final(self: JobDriver, error: Exception) -> bool:
        if may_pass(self, error):
            reached()
        return False

    with replaced(JobDriver, "_may_pass", final):
        yield


@mutant(
    id="slow-read-ends-the-job",
    breaks="liveness",
    summary="a checkpoint that is read slowly is taken for one that cannot be restored",
)
def slow_read_ends_the_job(reached: Reached) -> Iterator[None]:
    """The storage has answered."""
    read = Execution.read_checkpoint

    def impatient(
        self: Execution, graph: JobGraph, layout: Layout, restored: CheckpointMetadata | None
    ) -> dict[TaskId, Restore]:
        begun = self.now()
        restores = read(self, graph, layout, restored)
        if self.now() > begun:
            reached()
            raise RestoreRefused("the storage is slow")
        return restores

    with replaced(Execution, "read_checkpoint", impatient):
        yield


@mutant(
    id="listed-checkpoint-has-to-be-there",
    breaks="no_error",
    summary="a process does not start where the storage still lists a checkpoint that was deleted",
)
def listed_checkpoint_has_to_be_there(reached: Reached) -> Iterator[None]:
    """It was deleted because a newer one is complete."""
    read = recovery._read

    def strict(storage: RecoverableStorage, checkpoint_id: int) -> CheckpointMetadata:
        try:
            return read(storage, checkpoint_id)
        except MissingFile as error:
            reached()
            raise StorageError(str(error)) from error

    with replaced(recovery, "_read", strict):
        yield


@mutant(
    id="failed-deletion-ends-the-process",
    breaks="no_error",
    summary="a subsumed checkpoint that the storage does not delete ends the process",
)
def failed_deletion_ends_the_process(reached: Reached) -> Iterator[None]:
    """No checkpoint needs the file."""

    @contextmanager
    def strict(deleted_by: str = "") -> Iterator[None]:
        try:
            yield
        except OSError:
            reached()
            raise

    with replaced(job_driver, "deletion_may_fail", strict):
        yield


@mutant(
    id="failed-deletion-fails-a-finished-job",
    breaks="no_error",
    summary="a job fails at its end because the storage does not delete its checkpoints",
)
def failed_deletion_fails_a_finished_job(reached: Reached) -> Iterator[None]:
    """Its output is complete, and it is reported as failed."""

    def strict(storage: RecoverableStorage, spared: Collection[int] = ()) -> None:
        storage.create_exclusive(FINISHED)
        try:
            sweep(storage, (), spared)
        except OSError:
            reached()
            raise

    with replaced(job_driver, "retire", strict):
        yield
