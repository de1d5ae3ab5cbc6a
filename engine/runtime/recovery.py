"""Recovery: what a process finds in the job's checkpoint directory, and how it cleans that up.

The files of the directory decide; no other memory of the job survives its process:

- ``incarnation-<n>``: each process creates one exclusively at its start and deletes older ones, so that no
  two attempts of the job share a name. A process whose marker is gone, or that is not the highest, is
  superseded: another process runs the job, and the first must not publish, deploy or delete from then on.
- ``incarnation-<n>.<token>``, in an object store: the random token of that process. If all files are deleted
  and another process begins as incarnation 1, too, the first finds that its own token is gone. In a local
  folder the lock shows it (storage.py).
- ``chk-<n>/_metadata``: checkpoint n is complete, unless a record of the history says that it does not count
  (checkpoint_history.py, which also says why one history wins). Discarding a checkpoint deletes this file
  first, so a half-deleted checkpoint is not restored.
- ``finished``: the job has finished, unless a record says otherwise. It is written before the checkpoints are
  deleted, so a restart in between does not begin the job again, but deletes the rest of the checkpoints.
- ``history-<n>-<m>``: among others the savepoint or checkpoint that the job has restored first
  (starting_point.py). Checkpoints from before it are not restored; they are deleted once a later one is
  complete.
- Any other file under ``chk-<n>`` or ``shared`` that no complete checkpoint lists was left by a dead process,
  and is deleted. Files with other names, such as a copy ``chk-7.bak``, are not touched.

A process may have died between the rename of a file and the sync of its folder. What it left is seen, but a
loss of power would take it back. So what is found is made durable before anything relies on it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import CheckpointMetadata, decode_metadata
from onceproof.engine.checkpoint.verification import damages_of
from onceproof.engine.messages import CHECKPOINT, Kind, checkpoint_folder
from onceproof.engine.runtime.checkpoint_history import (
    HISTORY,
    FoundRecord,
    HistoryRecord,
    JobHistory,
    find_record,
    record_incarnation,
)
from onceproof.engine.runtime.deletion import NEXT_START, Superseded, deletion_may_fail
from onceproof.engine.runtime.starting_point import (
    FROM_NOTHING,
    STARTING_POINT,
    StartingPoint,
    read_starting_point,
)
from onceproof.engine.runtime.storage import MissingFile, StorageError
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.stored import SHARED

_logger = logging.getLogger(__name__)

FINISHED = "finished"
TAKEN_OVER: Final = "another process has taken the job over"
INCARNATION = "incarnation-"
METADATA = "_metadata"

_CHECKPOINT_FILE: Final = re.compile(r"chk-(0|[1-9][0-9]{0,17})/(.+)")
_SHARED_FILE: Final = re.compile(re.escape(SHARED) + r"chk-(0|[1-9][0-9]{0,17})\..+")
_MARKER: Final = re.compile(INCARNATION + "([1-9][0-9]{0,17})")
_TOKEN: Final = re.compile(INCARNATION + "([1-9][0-9]{0,17})[.][0-9a-f]+")


class RecoverableStorage(Protocol):
    """The part of a checkpoint storage that recovery needs; paths are relative to the job's directory."""

    @property
    def is_in_place(self) -> bool:
        """Whether the folder that this process holds is still the one at its path."""
        ...

    @property
    def writes_may_be_late(self) -> bool:
        """Whether a write may appear after its process was given up."""
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Return the sorted paths that begin with a prefix."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it is not there."""
        ...

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file durably; return False if it exists."""
        ...

    def make_durable(self, path: str) -> None:
        """Make durable that the file is there, or is gone."""
        ...


class Recovered(Struct, frozen=True):
    """The incarnation of this process, and the complete checkpoints to restore from, oldest first.

    ``former`` are the ids of checkpoints from before the starting point, and of damaged ones that were
    skipped. ``claimed`` are the files of the oldest of ``checkpoints``, if the job has claimed it from
    another place and must delete it.
    """

    incarnation: int
    checkpoints: tuple[CheckpointMetadata, ...]
    finished: bool
    starting_point: StartingPoint = FROM_NOTHING
    former: tuple[int, ...] = ()
    claimed: tuple[str, ...] = ()
    outlived: tuple[str, ...] = ()
    """The files of a claimed checkpoint that newer ones have subsumed already."""
    record: HistoryRecord = HistoryRecord()
    """What the process goes on from, and how many records it has written itself."""
    records: int = 0
    token: str = ""
    """The random token of the process in an object store."""


def metadata_path(checkpoint_id: int, kind: Kind = CHECKPOINT) -> str:
    """Return the path of the metadata of a checkpoint."""
    return f"{checkpoint_folder(checkpoint_id, kind)}/{METADATA}"


def discard_checkpoint(
    storage: RecoverableStorage,
    checkpoint_id: int,
    kind: Kind = CHECKPOINT,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Delete a checkpoint, its metadata first.

    ``check`` is called between the listing and the deletes; it raises if another process has the job.
    """
    paths = storage.list(f"{checkpoint_folder(checkpoint_id, kind)}/")
    check()
    for path in sorted(paths, key=_metadata_first):
        storage.delete(path)


def discard_former(
    storage: RecoverableStorage,
    checkpoint_id: int,
    retained: Iterable[CheckpointMetadata],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Delete a checkpoint from before the starting point, with the shared files that no retained one needs.

    The shared files of a damaged checkpoint are unknown; the end of the job deletes them.
    """
    path = metadata_path(checkpoint_id)
    shared: set[str] = set()
    with suppress(OSError, DamagedFile):
        shared = {
            name for name in files_of(decode_metadata(storage.read(path), path)) if name.startswith(SHARED)
        }
    discard_checkpoint(storage, checkpoint_id, check=check)
    for metadata in retained:
        shared -= files_of(metadata)
    for name in sorted(shared):
        storage.delete(name)


def recover(
    storage: RecoverableStorage,
    num_retained: int,
    begins_from: StartingPoint | None = None,
    *,
    skips_damaged: bool = False,
    token: str = "",
) -> Recovered:
    """Claim an incarnation, read the complete checkpoints, and delete files that no checkpoint needs.

    Args:
        storage: the job's storage.
        num_retained: how many of the latest complete checkpoints to read.
        begins_from: a new starting point; None keeps the recorded one.
        skips_damaged: skip damaged checkpoints with a warning if an intact one is left. The damaged ones stay
            until a newer one is complete.
        token: the random token of this process, hexadecimal; "": its claim has none.

    Raises:
        DamagedFile: the metadata of a retained checkpoint cannot be read. Restoring an older one would commit
            again what the damaged one covers.
    """
    incarnation, paths = _claim(storage, 0 if begins_from is None else begins_from.incarnation, token)

    def check() -> None:
        if not is_claimed_by(storage, incarnation, token):
            raise Superseded(TAKEN_OVER)

    found = find_record(storage, paths)
    begun = starting_point_of(storage, paths, found)
    if begins_from is None and is_finished(paths, begun, found):
        if storage.writes_may_be_late:
            JobHistory(storage, incarnation, _record(paths, found, {}, begun)).finish()
            check()
        with deletion_may_fail():
            sweep(storage, (), begun.spared, check)
        return Recovered(incarnation, (), finished=True, starting_point=begun, token=token)
    needs_record = (
        storage.writes_may_be_late or found is not None or begins_from is not None or begun.path != ""
    )
    known = _counted(storage, paths, found)
    ids = sorted(known)
    point = begun if begins_from is None else replace(begins_from, last_id=max([begins_from.last_id, *ids]))
    history = JobHistory(storage, incarnation, _record(paths, found, known, point))
    if needs_record:
        history.write(history.record)
        check()
        storage.delete(FINISHED)
        history.forget_earlier(paths)
    retained = [each for each in ids if each > point.last_id][-num_retained:]
    kept = _complete(storage, {each: known[each] for each in retained}, skips_damaged)
    for metadata in kept:
        storage.make_durable(metadata_path(metadata.checkpoint_id))
    former = () if kept else tuple(each for each in ids if each <= point.last_id)
    whole = {metadata.checkpoint_id for metadata in kept}
    former = (*former, *[each for each in retained if each not in whole])
    if paths:
        with deletion_may_fail():
            sweep(storage, kept, (*point.spared, *former), check)
    former = tuple(each for each in former if each not in point.spared)
    recovered = Recovered(incarnation, kept, False, point, former, token=token)
    return replace(recovered, record=history.record, records=history.number)


def is_finished(paths: Sequence[str], begun: StartingPoint, found: FoundRecord | None) -> bool:
    """Return whether the job has finished, by listed paths and what they record."""
    if found is None:
        return FINISHED in paths and not begun.had_finished
    return found.record.is_finished


def _checkpoint_ids(paths: Iterable[str]) -> list[int]:
    """Return the ids of all checkpoints of which there are metadata."""
    found = [_CHECKPOINT_FILE.fullmatch(path) for path in paths]
    return [int(match[1]) for match in found if match is not None and match[2] == METADATA]


def _counted(
    storage: RecoverableStorage, paths: Sequence[str], found: FoundRecord | None
) -> dict[int, CheckpointMetadata | None]:
    """Return the checkpoints that count, by id, with None for damaged metadata. Without a record all do."""
    known: dict[int, CheckpointMetadata | None] = {}
    for checkpoint_id in _checkpoint_ids(paths):
        try:
            metadata = _read(storage, checkpoint_id)
        except DamagedFile:
            # It counts: whether it can be passed over is for the user to say.
            known[checkpoint_id] = None
            continue
        except MissingFile:
            # Listed, but deleted: that is only what newer checkpoints had replaced, or what did not count.
            continue
        if found is None or found.counts(metadata):
            known[checkpoint_id] = metadata
        else:
            _logger.warning(
                "checkpoint %d is of a process that had lost the job: it is deleted", checkpoint_id
            )
    return known


def starting_point_of(
    storage: RecoverableStorage, paths: Sequence[str], found: FoundRecord | None
) -> StartingPoint:
    """Return the starting point that the storage records. Raises DamagedFile."""
    if found is not None:
        return found.record.starting_point
    return read_starting_point(storage) if STARTING_POINT in paths else FROM_NOTHING


def _record(
    paths: Sequence[str],
    found: FoundRecord | None,
    known: Mapping[int, CheckpointMetadata | None],
    point: StartingPoint,
) -> HistoryRecord:
    """Return the first record of this process."""
    ids = _checkpoint_ids(paths)
    first_id = max([each + 1 for each in (*ids, point.last_id)])
    if found is not None:
        first_id = max(first_id, found.record.first_id)
    return HistoryRecord(
        accepted=tuple([(each, metadata.attempt) for each, metadata in sorted(known.items()) if metadata]),
        first_id=first_id,
        starting_point=replace(point, had_finished=False),
    )


def _read(storage: RecoverableStorage, checkpoint_id: int) -> CheckpointMetadata:
    path = metadata_path(checkpoint_id)
    return decode_metadata(storage.read(path), path)


def _complete(
    storage: RecoverableStorage, known: Mapping[int, CheckpointMetadata | None], skips_damaged: bool
) -> tuple[CheckpointMetadata, ...]:
    """Return the complete checkpoints, all or only the intact ones; read those that are not known."""
    if skips_damaged:
        return _whole(storage, known)
    return tuple(_read(storage, each) if metadata is None else metadata for each, metadata in known.items())


def _whole(storage: RecoverableStorage, checkpoint_ids: Collection[int]) -> tuple[CheckpointMetadata, ...]:
    """Read the checkpoints whose files are all intact, and log why the others are skipped.

    Raises the DamagedFile of the newest one if none is intact.
    """
    whole: list[CheckpointMetadata] = []
    newest: DamagedFile | None = None
    for checkpoint_id in checkpoint_ids:
        try:
            metadata = _read(storage, checkpoint_id)
            for damage in damages_of(metadata, storage.read):
                raise DamagedFile(damage.path, damage.what)
        except DamagedFile as error:
            newest = error
            _logger.warning("checkpoint %d is passed over: %s: %s", checkpoint_id, error.path, error.what)
        else:
            whole.append(metadata)
    if newest is not None:
        if not whole:
            raise newest
        _logger.warning(
            "the job resumes from checkpoint %d: what was committed since then may be committed again",
            whole[-1].checkpoint_id,
        )
    return tuple(whole)


def sweep(
    storage: RecoverableStorage,
    kept: tuple[CheckpointMetadata, ...],
    spared: Collection[int] = (),
    check: Callable[[], None] = lambda: None,
) -> None:
    """Delete every file under ``chk-*`` and ``shared`` that no kept checkpoint lists, metadata first.

    ``spared`` are the ids of checkpoints of which nothing is deleted. ``check`` is called between the listing
    and the deletes; it raises if another process has the job.
    """
    listed = {metadata_path(metadata.checkpoint_id) for metadata in kept}
    for metadata in kept:
        listed.update(files_of(metadata))
    folders = {checkpoint_folder(checkpoint_id) for checkpoint_id in spared}
    unlisted = [
        path
        for path in storage.list("chk-")
        if path not in listed and _CHECKPOINT_FILE.fullmatch(path) and path.partition("/")[0] not in folders
    ]
    shared = [path for path in storage.list(SHARED) if path not in listed and _SHARED_FILE.fullmatch(path)]
    check()
    unlisted.sort(key=_metadata_first)
    for path in unlisted:
        storage.delete(path)
        if path.endswith("/" + METADATA):
            # Otherwise a loss of power could bring it back without the files that it lists.
            storage.make_durable(path)
    if shared:
        _sweep_shared(storage, shared, spared)


def _sweep_shared(storage: RecoverableStorage, shared: Iterable[str], spared: Collection[int]) -> None:
    """Delete the given shared files, but not those that spared checkpoints refer to."""
    needed: set[str] = set()
    for checkpoint_id in spared:
        path = metadata_path(checkpoint_id)
        if not storage.list(path):
            continue
        try:
            needed |= files_of(decode_metadata(storage.read(path), path))
        except MissingFile:
            continue
        except DamagedFile:
            # The spared checkpoint is damaged: which shared files it needs is unknown, so all stay.
            return
    for path in shared:
        if path not in needed:
            storage.delete(path)


def retire(
    storage: RecoverableStorage,
    spared: Collection[int] = (),
    check: Callable[[], None] = lambda: None,
) -> None:
    """Mark the job durably as finished, then delete all its checkpoints.

    The output is complete: a storage that refuses to delete does not fail the job. The next start deletes.
    ``check`` raises if another process has the job.
    """
    storage.create_exclusive(FINISHED)
    with deletion_may_fail(NEXT_START):
        sweep(storage, (), spared, check)


def files_of(metadata: CheckpointMetadata) -> set[str]:
    """Return the files that a checkpoint's metadata refers to."""
    return {
        path
        for operator in metadata.operators
        for subtask in operator.subtasks
        if subtask.handle is not None
        for path in subtask.handle.paths
    }


def is_claimed_by(storage: RecoverableStorage, incarnation: int, token: str = "") -> bool:
    """Return whether the process of that incarnation and token still holds the job.

    In an object store a deleted marker may be created again by a late request, so the highest one decides.
    """
    if not storage.is_in_place:
        return False
    if not storage.writes_may_be_late:
        return storage.exists(f"{INCARNATION}{incarnation}")
    paths = storage.list(INCARNATION)
    if token and f"{INCARNATION}{incarnation}.{token}" not in paths:
        return False
    return all(number <= incarnation for number in _markers(paths))


def _metadata_first(path: str) -> bool:
    return not path.endswith("/" + METADATA)


def _markers(paths: Iterable[str]) -> list[int]:
    return [int(match[1]) for path in paths if (match := _MARKER.fullmatch(path)) is not None]


def _claim(storage: RecoverableStorage, above: int, token: str) -> tuple[int, list[str]]:
    """Create the marker of a new incarnation; return it with the paths that were there afterwards."""
    before = storage.list(INCARNATION) + storage.list(HISTORY)
    incarnation = max([above, *_markers(before), *map(record_incarnation, before)]) + 1
    while not storage.create_exclusive(f"{INCARNATION}{incarnation}"):
        incarnation += 1
    if storage.writes_may_be_late and storage.create_exclusive(f"{INCARNATION}{incarnation}"):
        raise StorageError(
            "the file system of the checkpoint folder creates a file that is there already, so it cannot keep"
            " two processes of a job apart: update the package that reaches it"
        )
    if token:
        storage.create_exclusive(f"{INCARNATION}{incarnation}.{token}")
    paths = storage.list("")
    markers = _markers(paths)
    if max([0, *markers]) > incarnation:
        raise Superseded(TAKEN_OVER)
    tokens = [path for path in paths if (match := _TOKEN.fullmatch(path)) and int(match[1]) != incarnation]
    for path in [*[f"{INCARNATION}{number}" for number in markers if number != incarnation], *tokens]:
        storage.delete(path)
    return incarnation, [path for path in paths if not _MARKER.fullmatch(path) and not _TOKEN.fullmatch(path)]
