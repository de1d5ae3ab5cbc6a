"""What a run of a job comes to, in every runtime."""

from __future__ import annotations

from dataclasses import dataclass


class JobExecutionFailed(RuntimeError):
    """The job has ended for good without finishing. The message is one line."""


class JobCancelled(JobExecutionFailed):
    """The job has ended because somebody cancelled it (Flink: JobCancellationException)."""


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """What a run of a job came to (PyFlink: JobExecutionResult)."""

    job_id: str
    job_name: str
    net_runtime_ms: int
    attempts: int
    checkpoints: int
    records_read: int
    already_finished: bool = False
    """An earlier process had finished the job; this one did nothing."""
    stopped_with: str = ""
    """The folder of the savepoint with which the job was stopped, from where it goes on."""

    def get_job_id(self) -> str:
        """The id under which the job's checkpoints lie."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Milliseconds from start to end."""
        return self.net_runtime_ms
