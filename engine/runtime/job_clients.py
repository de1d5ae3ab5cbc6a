"""A job that runs in a thread of its own, and its JobClient.

The rules this module lives by:

- An error that prevents the start of a job is raised to the caller, as by ``execute``.
- The process ends only when the threads of its jobs have ended; a job whose rows the program collects ends
  with the program.
- The job's thread holds the folder of the job until it ends.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any, Protocol

from onceproof.engine.api.job_client import CompletableFuture, JobClient, JobStatus, SavepointFailed
from onceproof.engine.job.master import JobMaster, JobState
from onceproof.engine.locations import place_given
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, Respond
from onceproof.engine.runtime.job_result import JobExecutionResult


class Runnable(Protocol):
    """A run of a job that has not started."""

    master: JobMaster

    def run(self) -> JobExecutionResult:
        """Run until the job has ended."""
        ...

    def submit(self, request: JobRequest, respond: Respond) -> None:
        """Submit a request from another thread."""
        ...


class RunningJob(JobClient):
    """The client of a run in this process, which closes ``held`` when the run is over."""

    def __init__(
        self, job_id: str, run: Runnable, held: ExitStack, *, ends_with_program: bool = False
    ) -> None:
        self._job_id = job_id
        self._run = run
        self._held = held
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._open: list[CompletableFuture[Any]] = []
        self._thread = threading.Thread(target=self._live, name=f"job-{job_id[:6]}", daemon=ends_with_program)
        self._thread.start()

    def _live(self) -> None:
        try:
            with self._held:
                result = self._run.run()
        except BaseException as error:
            self._result.set_exception(error)
        else:
            self._result.set_result(result)
        for future in self._open:
            if not future.done():
                future.set_exception(SavepointFailed("the job has ended before it was asked"))

    def get_job_id(self) -> str:
        """Return the job's id, which is also the name of its checkpoint folder."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the status of the job, as a future that is done."""
        status: CompletableFuture[JobStatus] = CompletableFuture()
        state = self._run.master.state
        if self._result.done() and not state.is_terminal:
            state = JobState.FAILED
        status.set_result(JobStatus[state.name])
        return status

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job."""
        return self._ask(JobRequest("cancel"))

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Cancel the job when a savepoint is complete."""
        return self._ask(JobRequest("cancel_with_savepoint", place_given(savepoint_directory) or ""))

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint."""
        folder = place_given(savepoint_directory) or ""
        return self._ask(JobRequest("stop", folder, advance_to_end_of_event_time))

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint of the running job."""
        return self._ask(JobRequest("savepoint", place_given(savepoint_directory) or ""))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the future result of the job."""
        return self._result

    def _ask(self, request: JobRequest) -> CompletableFuture[Any]:
        future: CompletableFuture[Any] = CompletableFuture()

        def respond(answer: JobAnswer) -> None:
            if answer.error:
                future.set_exception(SavepointFailed(answer.error))
            else:
                future.set_result(answer.savepoint or None)

        self._open.append(future)
        self._run.submit(request, respond)
        if self._result.done() and not future.done():
            future.set_exception(SavepointFailed("the job has ended"))
        return future


class FinishedJob(JobClient):
    """The client of a job that an earlier process has finished."""

    def __init__(self, result: JobExecutionResult) -> None:
        self._result = result

    def get_job_id(self) -> str:
        """Return the job's id."""
        return self._result.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return FINISHED."""
        return _known(JobStatus.FINISHED)

    def cancel(self) -> CompletableFuture[None]:
        """Fail with SavepointFailed: the job has finished."""
        return _refused()

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Fail with SavepointFailed: the job has finished."""
        return _refused()

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Fail with SavepointFailed: the job has finished."""
        return _refused()

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Fail with SavepointFailed: the job has finished."""
        return _refused()

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result of the finished job."""
        return _known(self._result)


def _known(value: Any) -> CompletableFuture[Any]:
    future: CompletableFuture[Any] = CompletableFuture()
    future.set_result(value)
    return future


def _refused() -> CompletableFuture[Any]:
    future: CompletableFuture[Any] = CompletableFuture()
    future.set_exception(SavepointFailed("the job has finished"))
    return future
