"""What ``execute_async`` hands out: a running job, to be asked and to be ended (PyFlink: JobClient).

Each method returns a future at once. The job answers between two of its steps, in its own thread; a request
to a job that is over gets an error, or the job's result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from concurrent.futures import Future
from enum import Enum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class JobStatus(Enum):
    """Where a job is in its life (PyFlink: JobStatus)."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    """Of Flink: no job here is ever suspended."""
    RECONCILING = "RECONCILING"
    """Of Flink: no job here is ever reconciled."""

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job is over and no other process takes it over."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether the job is over for this process."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()


class CompletableFuture(Future[T], Generic[T]):
    """What will be known later; it can be awaited (PyFlink: CompletableFuture)."""

    def __await__(self) -> Generator[Any, None, T]:
        # Every process of a job imports this module; few await.
        import asyncio

        return asyncio.wrap_future(self).__await__()


class SavepointFailed(RuntimeError):
    """A savepoint, or an end of the job that was asked for, did not come about. The message is one line."""


class JobClient(ABC):
    """A job that runs in this process, or has run (PyFlink: JobClient)."""

    @abstractmethod
    def get_job_id(self) -> str:
        """The id under which the job's checkpoints lie."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Where the job is in its life."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """End the job at once. What becomes of its checkpoints, the retention option says."""

    @abstractmethod
    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """End the job when a savepoint is complete; gives its folder (Flink: ClusterClient)."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """End the job with a savepoint, and commit what it lists; gives the savepoint's folder.

        ``advance_to_end_of_event_time``: as if the input had ended, so that windows and timers fire. The
        folder is made below ``savepoint_directory``, or else below ``execution.checkpointing.savepoint-dir``.
        Fails with SavepointFailed.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job goes on; gives its folder, or fails with SavepointFailed."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[Any]:
        """What the job has come to, when it has ended; fails with what ``execute`` would raise."""
