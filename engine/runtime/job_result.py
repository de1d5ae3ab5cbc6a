"""The result of a run of a job, in every runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class JobExecutionFailed(RuntimeError):
    """The job has failed for good. The message is one line."""


class JobCancelled(JobExecutionFailed):
    """A user has cancelled the job (Flink: JobCancellationException)."""


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """The result of a run of a job (PyFlink: JobExecutionResult).

    ``net_runtime_ms`` is the time from start to end, ``attempts`` the number of attempts, ``checkpoints`` the
    number of completed checkpoints, ``records_read`` what the sources of all attempts have read. All counts
    are those of this process.
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
    failed_checkpoints: int = 0
    """The number of checkpoints that a task has declined, that have expired, or that could not be written."""
    last_checkpoint_failure: str = ""
    """Why the last one of them has failed; empty if none has."""
    restarts: int = 0
    """How often the job was restarted after a failure."""
    last_restart_cause: str = ""
    """The failure before the last restart; empty if there was none."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """The metrics of the last attempt by full name: ``operator.subtask.group.name``.

    On Spark there are none: they are counted in processes of Spark.
    """

    def troubles(self) -> str:
        """Return in one line what went wrong on the way, or an empty text."""
        parts = []
        if self.restarts:
            times = "once" if self.restarts == 1 else f"{self.restarts} times"
            parts.append(f"restarted {times}, last because of: {self.last_restart_cause}")
        if self.failed_checkpoints:
            many = (
                "1 checkpoint" if self.failed_checkpoints == 1 else f"{self.failed_checkpoints} checkpoints"
            )
            parts.append(f"{many} failed, last because of: {self.last_checkpoint_failure}")
        return "; ".join(parts)

    def get_job_id(self) -> str:
        """Return the job's id, which is also the name of its checkpoint folder."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return the milliseconds from start to end."""
        return self.net_runtime_ms
