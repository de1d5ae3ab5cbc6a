"""A job that runs in a thread of its own, and the client of it.

The rules this module lives by:

- What speaks against the start of a job is raised where it is started, as ``execute`` does.
- The thread belongs to the process: a program that comes to its end waits for the jobs that it has started.
- The folder of the job is held until its thread ends, whatever the thread that began it does.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any, Protocol

from onceproof.engine.api.job_client import CompletableFuture, JobClient, JobStatus, SavepointFailed
from onceproof.engine.job.master import JobMaster, JobState
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, Respond
from onceproof.engine.runtime.job_result import JobExecutionResult


class Runnable(Protocol):
    """A run of a job that has not begun."""

    master: JobMaster

    def run(self) -> JobExecutionResult:
        """Run until the job has ended."""
        ...

    def submit(self, request: JobRequest, respond: Respond) -> None:
        """Ask for something from another thread."""
        ...


class RunningJob(JobClient):
    """The client of a run in this process. ``held`` is let go of when the run is over."""

    def __init__(self, job_id: str, run: Runnable, held: ExitStack) -> None:
        self._job_id = job_id
        self._run = run
        self._held = held
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._open: list[CompletableFuture[Any]] = []
        self._thread = threading.Thread(target=self._live, name=f"job-{job_id[:6]}")
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
        """The id under which the job's checkpoints lie."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Known at once."""
        status: CompletableFuture[JobStatus] = CompletableFuture()
        state = self._run.master.state
        if self._result.done() and not state.is_terminal:
            state = JobState.FAILED
        status.set_result(JobStatus[state.name])
        return status

    def cancel(self) -> CompletableFuture[None]:
        """End the job at once."""
        return self._ask(JobRequest("cancel"))

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """End the job when a savepoint is complete."""
        return self._ask(JobRequest("cancel_with_savepoint", savepoint_directory or ""))

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """End the job with a savepoint."""
        return self._ask(JobRequest("stop", savepoint_directory or "", advance_to_end_of_event_time))

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job goes on."""
        return self._ask(JobRequest("savepoint", savepoint_directory or ""))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """What the job has come to."""
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
        """The id under which the job's checkpoints lay."""
        return self._result.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """It has finished."""
        return _known(JobStatus.FINISHED)

    def cancel(self) -> CompletableFuture[None]:
        """There is nothing to cancel."""
        return _refused()

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """There is nothing to cancel."""
        return _refused()

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """There is nothing to stop."""
        return _refused()

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """There is nothing to take one of."""
        return _refused()

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """That it had finished."""
        return _known(self._result)


def _known(value: Any) -> CompletableFuture[Any]:
    future: CompletableFuture[Any] = CompletableFuture()
    future.set_result(value)
    return future


def _refused() -> CompletableFuture[Any]:
    future: CompletableFuture[Any] = CompletableFuture()
    future.set_exception(SavepointFailed("the job has finished"))
    return future
