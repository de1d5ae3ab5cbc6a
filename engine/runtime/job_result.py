"""The result of a run of a job, in every runtime."""

from __future__ import annotations

from dataclasses import dataclass


class JobExecutionFailed(RuntimeError):
    """The job has failed for good. The message is one line."""


class JobCancelled(JobExecutionFailed):
    """A user has cancelled the job (Flink: JobCancellationException)."""


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """The result of a run of a job (PyFlink: JobExecutionResult).

    ``net_runtime_ms`` is the time from start to end, ``attempts`` the number of attempts, ``checkpoints`` the
    number of completed checkpoints, ``records_read`` what the sources of all attempts have read.
    """

    job_id: str
    job_name: str
    net_runtime_ms: int
    attempts: int
    checkpoints: int
    records_read: int
    already_finished: bool = False
    """Whether an earlier process had finished the job; then this one did nothing."""
    stopped_with: str = ""
    """The folder of the savepoint with which the job was stopped; the next run restores it."""

    def get_job_id(self) -> str:
        """Return the job's id, which is also the name of its checkpoint folder."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return the milliseconds from start to end."""
        return self.net_runtime_ms
