"""Mutants of storage: a call that fails for a moment ends the job, or its process."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from onceproof.engine.runtime import job_driver
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.recovery import FINISHED, RecoverableStorage, sweep
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
