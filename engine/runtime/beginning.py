"""How a process begins with a job: the storage of its checkpoints, and what earlier processes left there."""

from __future__ import annotations

import logging

from engine.graph import JobGraph
from engine.runtime.recovery import Recovered, recover
from engine.runtime.result import JobExecutionResult
from engine.runtime.storage import CheckpointStorage, LocalCheckpointStorage, MemoryCheckpointStorage
from engine.state.files import DamagedFile

_logger = logging.getLogger(__name__)


def storage_of(graph: JobGraph) -> CheckpointStorage:
    """Where the job's checkpoints lie: in its folder of the checkpoint directory, or else in memory."""
    directory = graph.settings.directory
    if directory is None:
        return MemoryCheckpointStorage()
    return LocalCheckpointStorage(f"{directory.removeprefix('file://')}/{graph.job_id}")


def begin(graph: JobGraph, storage: CheckpointStorage) -> Recovered | JobExecutionResult:
    """Claim the job for this process; the result of a job that has finished already.

    Raises DamagedFile where its latest checkpoint cannot be read.
    """
    try:
        recovered = recover(storage, graph.settings.num_retained)
    except DamagedFile as error:
        raise located(error, storage) from error
    if not recovered.finished:
        return recovered
    _logger.warning(
        "job %r has finished already: nothing is done; to run it again give it another name or another"
        " execution.checkpointing.dir than %s",
        graph.name,
        graph.settings.directory,
    )
    return JobExecutionResult(graph.job_id, graph.name, 0, 0, 0, 0, already_finished=True)


def located(error: DamagedFile, storage: CheckpointStorage) -> DamagedFile:
    """The same error with the path that a user can look at."""
    if not isinstance(storage, LocalCheckpointStorage):
        return error
    return DamagedFile(f"{storage.root}/{error.path}", error.what, error.mend)
