"""Starts a job whose rows the program collects: it has no checkpoint folder, and ends with the program."""

from __future__ import annotations

from contextlib import ExitStack

from onceproof.engine.api.job_client import JobClient
from onceproof.engine.graph import JobGraph
from onceproof.engine.runtime.job_clients import RunningJob
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.job_startup import open_job_storage, recover_job
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.workers.protocol import refuse_what_needs_one_process


def start_collecting(graph: JobGraph) -> JobClient:
    """Start the job in a thread that does not keep the program alive.

    Raises InvalidJob where workers are asked for: the rows stay in this process.
    """
    if graph.settings.workers > 1:
        refuse_what_needs_one_process(graph)
    storage = open_job_storage(graph)
    recovered = recover_job(graph, storage)
    assert not isinstance(recovered, JobExecutionResult), "a job without a folder has not finished before"
    execution = LocalExecution(graph, storage, recovered)
    return RunningJob(graph.job_id, execution, ExitStack(), ends_with_program=True)
