"""How a process begins a job: the storage of its checkpoints, and the checkpoint that it restores.

The rules this module lives by:

- A process that is started again restores the latest checkpoint in the job's own folder.
- A savepoint or checkpoint named in execution.state-recovery.path is restored once: the folder records it,
  and the same command started again restores the job's own checkpoints.
- The job graph is checked against the named savepoint, or else against the program that has used the job's
  name before (job_identity.py), before any file in the folder changes.
- The named savepoint belongs to its user, unless the job claims it (restore_point.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from secrets import token_hex
from typing import Final, TypeAlias

from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.configuration import CLAIM
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.job.deployment import fit_max_parallelism, plan_restores
from onceproof.engine.locations import join_location, location, scheme_of
from onceproof.engine.runtime.checkpoint_history import recorded_starting_point
from onceproof.engine.runtime.job_identity import check_identity
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.runtime.job_warnings import warn_of_lossy_sources
from onceproof.engine.runtime.mounted_storage import MountedStorage, open_storage
from onceproof.engine.runtime.recovery import (
    METADATA,
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
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.engine.runtime.storage import LocalCheckpointStorage, MemoryCheckpointStorage
from onceproof.engine.state.file_envelope import LARGEST_NUMBER, DamagedFile

Find: TypeAlias = Callable[[StartingPoint], tuple[CheckpointMetadata, tuple[str, ...]]]

TOKEN_BYTES: Final = 8

_logger = logging.getLogger(__name__)


def open_job_storage(graph: JobGraph) -> MountedStorage:
    """Return the storage of the job's checkpoints: its folder in the checkpoint directory, or memory.

    Raises StorageError if the directory cannot be used.
    """
    directory = graph.settings.directory
    if directory is None:
        return MountedStorage(MemoryCheckpointStorage(graph.settings.max_memory_state_bytes))
    storage = open_storage(join_location(location(directory), graph.job_id))
    if graph.settings.lease_timeout_ms is not None and isinstance(storage, LocalCheckpointStorage):
        # Another process may go on while this one is stopped; then this one's writes are late.
        storage.writes_may_be_late = True
    return MountedStorage(storage)


def recover_job(graph: JobGraph, storage: MountedStorage) -> Recovered | JobExecutionResult:
    """Claim the job for this process, and return what to restore, or the result of a finished job.

    Raises DamagedFile if the latest checkpoint cannot be read, OtherProgram if the job's name belongs to
    another program. For a named savepoint it also raises NoRestorePoint, and the errors of redistribution if
    the job does not match it.
    """
    recovery = graph.settings.recovery
    try:
        begins_from = _new_starting_point(graph, storage)
        if begins_from is None:
            check_identity(graph, storage)
        recovered = recover(
            storage,
            graph.settings.num_retained,
            begins_from,
            skips_damaged=recovery.skip_damaged,
            token=token_hex(TOKEN_BYTES) if scheme_of(storage.root) else "",
        )
        if begins_from is None and storage.writes_may_be_late:
            # Without a lock, another program may have taken checkpoints between the check and the claim.
            check_identity(graph, storage)
    except DamagedFile as error:
        raise with_full_path(error, storage) from error
    if not recovered.finished:
        warn_of_lossy_sources(graph)
        claim_mode = recovered.starting_point.claim_mode if recovery.path is None else recovery.claim_mode
        return resume_from_starting_point(
            storage,
            recovered,
            partial(find_starting_point, storage),
            graph.settings.num_retained,
            is_claimed=claim_mode == CLAIM,
        )
    _logger.warning(
        "job %r has finished already: nothing is done; to run it again give it another name or another"
        " execution.checkpointing.dir than %s; see"
        " docs/troubleshooting.md#has-finished-already-nothing-is-done",
        graph.name,
        graph.settings.directory,
    )
    return JobExecutionResult(graph.job_id, graph.name, 0, 0, 0, 0, already_finished=True)


def _new_starting_point(graph: JobGraph, storage: MountedStorage) -> StartingPoint | None:
    """Return the starting point that the configuration names; None if the job has restored it before."""
    recovery = graph.settings.recovery
    if recovery.path is None:
        return None
    folder = place_of(recovery.path)
    recorded = recorded_starting_point(storage)
    if recorded is not None and recorded.path == folder:
        return None
    point = read_restore_point(recovery.path)
    metadata = as_users(point.metadata)
    fitted = fit_max_parallelism(graph, metadata)
    plan_restores(fitted, layout_of(fitted), metadata)
    own = own_checkpoint(point, storage.root) if storage.root else 0
    incarnation = incarnation_of(metadata, point.folder)
    return StartingPoint(folder, metadata.checkpoint_id, recovery.claim_mode, own, incarnation)


def incarnation_of(metadata: CheckpointMetadata, folder: str) -> int:
    """Return the number of the process that took a checkpoint. Raises DamagedFile."""
    number = metadata.attempt.partition(".")[0]
    if not number.isascii() or not number.isdecimal() or len(number) > len(str(LARGEST_NUMBER)):
        raise DamagedFile(
            join_location(folder, METADATA),
            f"forged or damaged: {metadata.attempt!r} is not an attempt of a job",
        )
    return int(number)


def resume_from_starting_point(
    storage: RecoverableStorage, recovered: Recovered, find: Find, num_retained: int, *, is_claimed: bool
) -> Recovered:
    """Add the starting point to the job's checkpoints, and delete a claimed one that newer ones subsume.

    ``find`` reads the savepoint or checkpoint, and returns the files to delete with it. Raises NoRestorePoint
    if it is gone and still needed.
    """
    if recovered.starting_point.replaces:
        _delete_replaced(storage, recovered.starting_point.replaces, find)
    begun = add_starting_point(recovered, find, num_retained, is_claimed=is_claimed)
    for path in begun.outlived:
        storage.delete(path)
    return begun


def _delete_replaced(storage: RecoverableStorage, folder: str, find: Find) -> None:
    """Delete the claimed savepoint that the starting point has replaced; the process that did so has died."""
    try:
        _, files = find(StartingPoint(folder, 0, CLAIM))
    except (NoRestorePoint, DamagedFile):
        return
    for path in files:
        storage.delete(path)


def add_starting_point(recovered: Recovered, find: Find, num_retained: int, *, is_claimed: bool) -> Recovered:
    """Add the starting point to the job's checkpoints while it is needed.

    ``find`` reads it, and returns the files to delete with it; it raises NoRestorePoint.
    """
    begun = recovered.starting_point
    if not begun.path or (recovered.checkpoints and not is_claimed):
        return recovered
    try:
        metadata, files = find(begun)
    except NoRestorePoint:
        if recovered.checkpoints:
            # It was deleted when the job's own checkpoints subsumed it.
            return recovered
        raise
    if not is_claimed:
        return replace(recovered, checkpoints=(as_users(metadata),))
    claimed = replace(recovered, checkpoints=(as_own(metadata), *recovered.checkpoints), claimed=files)
    return claimed if len(recovered.checkpoints) < num_retained else replace(recovered, outlived=files)


def find_starting_point(
    storage: MountedStorage, begun: StartingPoint
) -> tuple[CheckpointMetadata, tuple[str, ...]]:
    """Read a starting point; return it with the files to delete if the job claims it.

    Raises NoRestorePoint if it is gone, and DamagedFile.
    """
    point = read_restore_point(begun.path)
    # An unclaimed checkpoint is read through a mount, so that no checkpoint of the job refers to its files.
    if begun.own_checkpoint and not begun.spared:
        metadata = point.metadata
        # Other checkpoints may refer to its shared files; the shared registry deletes them.
        path = metadata_path(begun.own_checkpoint)
        beginning = path.removesuffix(METADATA)
        files = [each for each in sorted(files_of(metadata)) if each.startswith(beginning)]
        return metadata, (path, *files)
    storage.mount(RESTORED_FROM, point.base)
    return point.mounted, tuple(point.own_files)


def with_full_path(error: DamagedFile, storage: MountedStorage) -> DamagedFile:
    """Return the error with the full path of the file."""
    return DamagedFile(storage.place_of(error.path), error.what, error.mend)
