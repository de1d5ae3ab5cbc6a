"""How a process begins with a job: the storage of its checkpoints, and what the job goes on from.

The rules this module lives by:

- What the job's own folder holds comes first: a process that is started again goes on where the one before
  was. A savepoint or checkpoint that is named is where the job begins anew, once: the folder remembers it,
  and the same command typed again goes on from the job's own checkpoints.
- Whether the job fits what is named is found out before anything in the folder changes.
- What is named belongs to its user unless he lets the job claim it (restore_point.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.configuration import CLAIM
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.job.deployment import fit_max_parallelism, plan_restores
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.locations import join_location, location
from onceproof.engine.runtime.mounted_storage import MountedStorage, open_storage
from onceproof.engine.runtime.recovery import (
    RecoverableStorage,
    Recovered,
    files_of,
    metadata_path,
    recover,
)
from onceproof.engine.runtime.restore_point import (
    RESTORED_FROM,
    NoRestorePoint,
    as_own,
    as_users,
    own_checkpoint,
    place_of,
    read_restore_point,
)
from onceproof.engine.runtime.starting_point import STARTING_POINT, StartingPoint, read_starting_point
from onceproof.engine.runtime.storage import MemoryCheckpointStorage
from onceproof.engine.state.files import DamagedFile
from onceproof.engine.state.stored import SHARED

Find: TypeAlias = Callable[[StartingPoint], tuple[CheckpointMetadata, tuple[str, ...]]]

_logger = logging.getLogger(__name__)


def open_job_storage(graph: JobGraph) -> MountedStorage:
    """Where the job's checkpoints lie: in its folder of the checkpoint directory, or else in memory.

    Raises StorageError where the directory cannot be used.
    """
    directory = graph.settings.directory
    if directory is None:
        return MountedStorage(MemoryCheckpointStorage())
    return MountedStorage(open_storage(join_location(location(directory), graph.job_id)))


def recover_job(graph: JobGraph, storage: MountedStorage) -> Recovered | JobExecutionResult:
    """Claim the job for this process; the result of a job that has finished already.

    Raises DamagedFile where its latest checkpoint cannot be read, and where it is to begin from a savepoint,
    NoRestorePoint and what redistribution raises: a job that does not fit it.
    """
    recovery = graph.settings.recovery
    try:
        begins_from = _new_starting_point(graph, storage)
        recovered = recover(
            storage, graph.settings.num_retained, begins_from, skips_damaged=recovery.skip_damaged
        )
    except DamagedFile as error:
        raise with_full_path(error, storage) from error
    if not recovered.finished:
        claim_mode = recovered.starting_point.claim_mode if recovery.path is None else recovery.claim_mode
        return resume_from_starting_point(
            storage,
            recovered,
            partial(_found, storage),
            graph.settings.num_retained,
            is_claimed=claim_mode == CLAIM,
        )
    _logger.warning(
        "job %r has finished already: nothing is done; to run it again give it another name or another"
        " execution.checkpointing.dir than %s",
        graph.name,
        graph.settings.directory,
    )
    return JobExecutionResult(graph.job_id, graph.name, 0, 0, 0, 0, already_finished=True)


def _new_starting_point(graph: JobGraph, storage: MountedStorage) -> StartingPoint | None:
    """What the job is told to begin from, unless it has done so already."""
    recovery = graph.settings.recovery
    if recovery.path is None:
        return None
    folder = place_of(recovery.path)
    if STARTING_POINT in storage.list(STARTING_POINT) and read_starting_point(storage).path == folder:
        return None
    point = read_restore_point(recovery.path)
    metadata = as_users(point.metadata)
    fitted = fit_max_parallelism(graph, metadata)
    plan_restores(fitted, layout_of(fitted), metadata)
    own = own_checkpoint(point, storage.root) if storage.root else 0
    incarnation = int(metadata.attempt.partition(".")[0])
    return StartingPoint(folder, metadata.checkpoint_id, recovery.claim_mode, own, incarnation)


def resume_from_starting_point(
    storage: RecoverableStorage, recovered: Recovered, find: Find, num_retained: int, *, is_claimed: bool
) -> Recovered:
    """Add what the job has begun from to its checkpoints, and delete a claimed one that newer ones replace.

    ``find`` reads the savepoint or checkpoint and lists the files that are deleted with it. Raises
    NoRestorePoint where it is gone and still needed.
    """
    begun = add_starting_point(recovered, find, num_retained, is_claimed=is_claimed)
    for path in begun.outlived:
        storage.delete(path)
    return begun


def add_starting_point(recovered: Recovered, find: Find, num_retained: int, *, is_claimed: bool) -> Recovered:
    """Put what the job has begun from among its checkpoints, for as long as it is needed.

    ``find`` reads it, and tells which files go with it where it is deleted; it raises NoRestorePoint.
    """
    begun = recovered.starting_point
    if not begun.path or (recovered.checkpoints and not is_claimed):
        return recovered
    try:
        metadata, files = find(begun)
    except NoRestorePoint:
        if recovered.checkpoints:
            # It was deleted when they took its place.
            return recovered
        raise
    if not is_claimed:
        return replace(recovered, checkpoints=(as_users(metadata),))
    claimed = replace(recovered, checkpoints=(as_own(metadata), *recovered.checkpoints), claimed=files)
    return claimed if len(recovered.checkpoints) < num_retained else replace(recovered, outlived=files)


def _found(storage: MountedStorage, begun: StartingPoint) -> tuple[CheckpointMetadata, tuple[str, ...]]:
    point = read_restore_point(begun.path)
    # One that stays its user's is read as if it lay elsewhere: nothing that the job stores refers to it.
    if begun.own_checkpoint and not begun.spared:
        metadata = point.metadata
        # What it shares others may use, too: that goes when nobody does any more.
        files = [path for path in sorted(files_of(metadata)) if not path.startswith(SHARED)]
        return metadata, (metadata_path(metadata.checkpoint_id), *files)
    storage.mount(RESTORED_FROM, point.base)
    return point.mounted, tuple(point.own_files)


def with_full_path(error: DamagedFile, storage: MountedStorage) -> DamagedFile:
    """The same error with the path that a user can look at."""
    return DamagedFile(storage.place_of(error.path), error.what, error.mend)
