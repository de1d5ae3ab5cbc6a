"""What a process finds of its predecessors, wherever they died."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
    encode_metadata,
)
from onceproof.engine.errors import Ending
from onceproof.engine.runtime.recovery import (
    FINISHED,
    discard_checkpoint,
    discard_former,
    files_of,
    metadata_path,
    recover,
    retire,
)
from onceproof.engine.runtime.storage import LocalCheckpointStorage, MemoryCheckpointStorage, StorageError
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.engine.state.stored import StateFile


class PowerCut(Ending):
    """What no ``except Exception`` survives."""


class Mortal(MemoryCheckpointStorage):
    """Dies before or after its ``fuse``-th change, and writes down the deletions."""

    def __init__(self):
        super().__init__()
        self.fuse = None
        self.late = False
        self.deleted = []

    def _burn(self, change):
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                if self.late:
                    change()
                raise PowerCut
        return change()

    def delete(self, path):
        self.deleted.append(path)
        self._burn(lambda: super(Mortal, self).delete(path))

    def create_exclusive(self, path, data=b""):
        return self._burn(lambda: super(Mortal, self).create_exclusive(path, data))


def complete(storage, checkpoint_id, attempt="1.1"):
    """A completed checkpoint of one subtask, with the file it lists."""
    path = f"chk-{checkpoint_id}/op-0-{attempt}"
    storage.write(path, b"state")
    subtask = SubtaskState(StateHandle(path, 5, "", {}), False)
    operator = OperatorMetadata("op", "op", "op", 1, 128, (subtask,))
    metadata = CheckpointMetadata(checkpoint_id, "job", "words", 0, "checkpoint", attempt, (operator,))
    storage.write(metadata_path(checkpoint_id), encode_metadata(metadata))
    return metadata


def ids(recovered):
    return [metadata.checkpoint_id for metadata in recovered.checkpoints]


def deaths(storage_of, act):
    """Act until it survives: once for each change that it could die before or after."""
    for late in (False, True):
        for fuse in range(100):
            storage = storage_of()
            storage.fuse, storage.late = fuse, late
            try:
                act(storage)
            except PowerCut:
                storage.fuse = None
                yield storage
            else:
                break
        else:
            raise AssertionError("it never ends")


# Incarnations.


def test_each_process_has_an_incarnation_of_its_own():
    storage = MemoryCheckpointStorage()
    assert [recover(storage, 1).incarnation for _ in range(4)] == [1, 2, 3, 4]
    assert storage.list("") == ["incarnation-4"]


def test_incarnation_is_never_reused_wherever_later_processes_die():
    """A fuse for each of three processes in a row; a process that survives its fuse may name attempts."""
    for fuses in ((first, second, late) for first in range(4) for second in range(4) for late in (0, 1)):
        storage = Mortal()
        storage.late = bool(fuses[2])
        given = [recover(storage, 1).incarnation]
        for fuse in (fuses[0], fuses[1], None, fuses[1], None):
            storage.fuse = fuse
            try:
                given.append(recover(storage, 1).incarnation)
            except PowerCut:
                continue
        assert given == sorted(set(given)), fuses


def test_of_two_processes_that_start_at_once_each_gets_its_own():
    storage = MemoryCheckpointStorage()

    class Racing(MemoryCheckpointStorage):
        """Another process is faster after the listing."""

        def list(self, prefix):
            return storage.list(prefix)

        def create_exclusive(self, path, data=b""):
            storage.create_exclusive("incarnation-1")
            return storage.create_exclusive(path)

    assert recover(Racing(), 1).incarnation == 2


def test_files_similar_to_markers_are_left_alone():
    storage = MemoryCheckpointStorage()
    for name in ("incarnation-x", "incarnation-", "incarnation-01"):
        storage.write(name, b"")
    assert recover(storage, 1).incarnation == 1
    assert len(storage.list("incarnation-")) == 4


# Complete checkpoints.


def test_an_empty_directory_is_a_fresh_start():
    recovered = recover(MemoryCheckpointStorage(), 1)
    assert (recovered.checkpoints, recovered.finished) == ((), False)


@pytest.mark.parametrize(("num_retained", "expected"), [(1, [10]), (2, [9, 10]), (5, [2, 9, 10])])
def test_the_newest_checkpoints_are_kept_by_number_and_the_others_deleted(num_retained, expected):
    storage = MemoryCheckpointStorage()
    for checkpoint_id in (2, 9, 10):
        complete(storage, checkpoint_id)
    assert ids(recover(storage, num_retained)) == expected
    assert storage.list("chk-") == sorted(
        path for each in expected for path in (f"chk-{each}/_metadata", f"chk-{each}/op-0-1.1")
    )


def test_checkpoint_without_metadata_is_not_restored():
    storage = MemoryCheckpointStorage()
    complete(storage, 4)
    storage.write("chk-5/op-0-1.1", b"state")
    storage.write("chk-5/._metadata.unpublished", b"half of it")
    assert ids(recover(storage, 1)) == [4]
    assert storage.list("chk-5/") == []


def test_file_that_no_kept_checkpoint_lists_is_deleted():
    storage = MemoryCheckpointStorage()
    complete(storage, 4)
    storage.write("chk-4/op-0-0.9", b"of a dead attempt")
    recover(storage, 1)
    assert storage.list("chk-") == ["chk-4/_metadata", "chk-4/op-0-1.1"]


def test_files_with_foreign_names_stay():
    storage = MemoryCheckpointStorage()
    complete(storage, 4)
    foreign = ["chk-4.bak/_metadata", "chk-notes/x", "chk-07/_metadata", "notes", "savepoint-1/_metadata"]
    for path in foreign:
        storage.write(path, b"a user's")
    assert ids(recover(storage, 1)) == [4]
    assert all(storage.read(path) == b"a user's" for path in foreign)


@pytest.mark.parametrize("num_retained", [1, 2])
def test_damaged_metadata_of_a_kept_checkpoint_is_an_error_and_nothing_is_deleted(num_retained):
    storage = MemoryCheckpointStorage()
    complete(storage, 3)
    complete(storage, 4)
    storage.write("chk-4/_metadata", storage.read("chk-4/_metadata")[:-1])
    before = storage.list("chk-")
    with pytest.raises(DamagedFile, match="chk-4/_metadata"):
        recover(storage, num_retained)
    assert storage.list("chk-") == before


def test_damaged_metadata_of_a_checkpoint_that_is_not_kept_does_not_matter():
    storage = MemoryCheckpointStorage()
    complete(storage, 4)
    storage.write("chk-3/_metadata", b"damaged")
    assert ids(recover(storage, 1)) == [4]


# What cannot be deleted.


class Refusing(MemoryCheckpointStorage):
    """Deletes nothing below a folder."""

    def __init__(self, refused):
        super().__init__()
        self.refused = refused

    def delete(self, path):
        if path.startswith(self.refused):
            raise StorageError(f"checkpoint file {path} cannot be deleted: Read-only file system")
        super().delete(path)


def test_undeletable_leftovers_stay_with_a_warning(caplog):
    storage = Refusing("chk-3/")
    complete(storage, 3)
    complete(storage, 4)
    storage.write("chk-4/op-0-0.9", b"of a dead attempt")
    recovered = recover(storage, 1)
    assert ids(recovered) == [4]
    (warning,) = caplog.messages
    assert warning.startswith("checkpoint file chk-3/_metadata cannot be deleted: Read-only file system;")
    storage.refused = "nothing"
    assert ids(recover(storage, 1)) == [4]
    assert storage.list("chk-") == ["chk-4/_metadata", "chk-4/op-0-1.1"]


def test_finished_job_stays_finished_if_its_leftovers_cannot_be_deleted():
    storage = Refusing("chk-3/")
    complete(storage, 3)
    storage.create_exclusive(FINISHED)
    assert recover(storage, 1).finished


def test_process_that_cannot_delete_an_old_marker_has_no_claim():
    storage = Refusing("incarnation-")
    recover(storage, 1)
    with pytest.raises(StorageError, match="incarnation-1 cannot be deleted"):
        recover(storage, 1)


# Deaths in the middle.


def test_a_checkpoint_that_is_being_discarded_is_gone_at_once():
    def two():
        storage = Mortal()
        complete(storage, 3)
        complete(storage, 4)
        return storage

    count = 0
    for storage in deaths(two, lambda storage: discard_checkpoint(storage, 3)):
        count += 1
        metadata_is_gone = metadata_path(3) not in storage.list("")
        recovered = recover(storage, 2)
        assert ids(recovered) == ([4] if metadata_is_gone else [3, 4])
        for metadata in recovered.checkpoints:
            assert files_of(metadata) <= set(storage.list(""))
    assert count == 4


def sharing(storage, checkpoint_id, *names):
    """A completed checkpoint that shares files."""
    metadata = complete(storage, checkpoint_id)
    files = tuple([StateFile("op", name, f"shared/{name}", 5, name) for name in names])
    (operator,) = metadata.operators
    handle = replace(operator.subtasks[0].handle, files=files)
    operator = replace(operator, subtasks=(replace(operator.subtasks[0], handle=handle),))
    metadata = replace(metadata, operators=(operator,))
    for file in files:
        storage.write(file.path, b"table")
    storage.write(metadata_path(checkpoint_id), encode_metadata(metadata))
    return metadata


def test_discarding_an_earlier_checkpoint_deletes_what_only_it_shares():
    storage = MemoryCheckpointStorage()
    sharing(storage, 1, "chk-1.a", "chk-1.b")
    kept = sharing(storage, 2, "chk-1.b", "chk-2.c")
    discard_former(storage, 1, [kept])
    assert storage.list("") == ["chk-2/_metadata", "chk-2/op-0-1.1", "shared/chk-1.b", "shared/chk-2.c"]


def test_shared_files_of_a_damaged_earlier_checkpoint_stay():
    storage = MemoryCheckpointStorage()
    sharing(storage, 1, "chk-1.a")
    storage.write(metadata_path(1), b"damaged")
    discard_former(storage, 1, [])
    assert storage.list("") == ["shared/chk-1.a"]


def test_a_recovery_that_dies_is_done_again():
    def crowded():
        storage = Mortal()
        for checkpoint_id in (2, 3, 4):
            complete(storage, checkpoint_id)
        storage.write("chk-5/op-0-1.1", b"of a dead attempt")
        return storage

    for storage in deaths(crowded, lambda storage: recover(storage, 1)):
        assert ids(recover(storage, 1)) == [4]
        assert storage.list("chk-") == ["chk-4/_metadata", "chk-4/op-0-1.1"]


def test_a_job_that_has_finished_stays_finished_and_leaves_nothing():
    def done():
        storage = Mortal()
        for checkpoint_id in (3, 4):
            complete(storage, checkpoint_id)
        storage.create_exclusive("incarnation-1")
        return storage

    for storage in deaths(done, retire):
        recovered = recover(storage, 2)
        if recovered.finished:
            assert recovered.checkpoints == ()
            assert storage.list("") == [FINISHED, "incarnation-2"]
        else:
            assert ids(recovered) == [3, 4], "nothing is deleted before the job is known to have finished"


def test_the_metadata_of_a_finished_job_goes_before_the_files_it_lists():
    storage = Mortal()
    for checkpoint_id in (3, 4):
        complete(storage, checkpoint_id)
    retire(storage)
    assert storage.deleted[:2] == ["chk-3/_metadata", "chk-4/_metadata"]
    assert storage.list("") == [FINISHED]


def test_a_job_may_finish_twice():
    storage = MemoryCheckpointStorage()
    retire(storage)
    retire(storage)
    assert recover(storage, 1).finished


def test_real_files_leave_no_empty_folders_behind(tmp_path):
    storage = LocalCheckpointStorage(tmp_path / "job")
    for checkpoint_id in (3, 4):
        complete(storage, checkpoint_id)
    assert ids(recover(storage, 1)) == [4]
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["chk-4", "incarnation-1"]
    retire(storage)
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == [FINISHED, "incarnation-1"]


class Undeletable(MemoryCheckpointStorage):
    """Refuses to delete."""

    def delete(self, path):
        raise StorageError(f"{path} cannot be deleted")


def test_job_whose_checkpoints_cannot_be_deleted_has_finished_nevertheless(caplog):
    storage = Undeletable()
    complete(storage, 3)
    retire(storage)
    assert "chk-3/_metadata cannot be deleted; the next start of the job deletes it" in caplog.text
    assert recover(storage, 1).finished


class TakenOver(MemoryCheckpointStorage):
    """Another process claims the job as soon as this one looks for what it may delete."""

    def list(self, prefix):
        if prefix == "chk-":
            self.create_exclusive("incarnation-2")
            super().delete("incarnation-1")
        return super().list(prefix)


def test_a_process_that_loses_the_job_deletes_nothing_and_does_not_warn_of_it(caplog):
    storage = TakenOver()
    for checkpoint_id in (3, 4):
        complete(storage, checkpoint_id)
    assert ids(recover(storage, 1)) == [4]
    assert MemoryCheckpointStorage.list(storage, "chk-3/") == ["chk-3/_metadata", "chk-3/op-0-1.1"]
    assert caplog.records == []
