"""The checkpoint storage in a local folder: its promises, its crashes, its errors."""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import suppress

import pytest

from onceproof.engine.file_calls import SystemFileCalls
from onceproof.engine.runtime import storage as module
from onceproof.engine.runtime.storage import (
    LocalCheckpointStorage,
    MemoryCheckpointStorage,
    StorageError,
)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "checkpoints" / "job"


@pytest.fixture
def storage(root):
    return LocalCheckpointStorage(root)


def test_written_file_is_read_back(storage):
    storage.write("chk-1/a", b"one")
    assert storage.create_exclusive("chk-1/_metadata", b"two")
    assert storage.read("chk-1/a") == b"one"
    assert storage.read("chk-1/_metadata") == b"two"


def test_write_replaces_an_existing_file(storage):
    storage.write("file", b"a longer content")
    storage.write("file", b"short")
    assert storage.read("file") == b"short"


def test_exclusive_create_leaves_an_existing_file(storage):
    assert storage.create_exclusive("chk-1/_metadata", b"first")
    assert not storage.create_exclusive("chk-1/_metadata", b"second")
    assert not storage.create_exclusive("chk-1/_metadata")
    assert storage.read("chk-1/_metadata") == b"first"
    assert storage.list("") == ["chk-1/_metadata"]


def test_an_empty_file_is_a_file(storage):
    storage.write("chk-1/empty", b"")
    assert storage.read("chk-1/empty") == b""
    assert storage.list("") == ["chk-1/empty"]


def test_files_are_listed_by_prefix_sorted(storage):
    for path in ("chk-10/a", "chk-1/b", "chk-1/_metadata", "chk-1/deep/c", "finished", "shared/x"):
        storage.write(path, b"")
    assert storage.list("") == sorted(
        ["chk-1/_metadata", "chk-1/b", "chk-1/deep/c", "chk-10/a", "finished", "shared/x"]
    )
    assert storage.list("chk-1") == ["chk-1/_metadata", "chk-1/b", "chk-1/deep/c", "chk-10/a"]
    assert storage.list("chk-1/") == ["chk-1/_metadata", "chk-1/b", "chk-1/deep/c"]
    assert storage.list("chk-1/d") == ["chk-1/deep/c"]
    assert storage.list("none/") == []


def test_a_local_listing_need_not_look_into_deep_folders(tmp_path):
    storage = LocalCheckpointStorage(tmp_path)
    for path in ("top", "job/claim", "job/chk-1/_metadata", "job/chk-1/deep/c"):
        storage.write(path, b"")
    (tmp_path / "job" / "chk-1" / "deep").chmod(0)
    assert storage.list_readable(2) == (["job/chk-1/_metadata", "job/claim", "top"], {})
    assert storage.list_readable(0) == (["top"], {})


class Unreadable(SystemFileCalls):
    """Files of which the folders of one name cannot be listed."""

    def __init__(self, name):
        self.name = name

    def entries(self, folder):
        if os.path.basename(folder) == self.name:
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return super().entries(folder)


def test_a_local_listing_names_the_folders_that_it_cannot_read(tmp_path):
    storage = LocalCheckpointStorage(tmp_path, calls=Unreadable("job"))
    for path in ("top", "job/claim", "other/claim"):
        storage.write(path, b"")
    paths, unreadable = storage.list_readable()
    assert paths == ["other/claim", "top"]
    assert list(unreadable) == ["job"]
    assert f"folder {tmp_path}/job cannot be listed: Permission denied: " in unreadable["job"]
    with pytest.raises(StorageError, match="cannot be listed"):
        storage.list("")
    with pytest.raises(StorageError, match="cannot be listed"):
        LocalCheckpointStorage(tmp_path, calls=Unreadable(tmp_path.name)).list_readable()


def test_deleting_an_absent_file_does_nothing(storage):
    storage.delete("chk-1/a")


def test_the_folder_of_the_last_deleted_file_goes_with_it(storage, root):
    storage.write("chk-1/a", b"")
    storage.write("chk-1/b", b"")
    storage.delete("chk-1/a")
    assert storage.list("") == ["chk-1/b"]
    storage.delete("chk-1/b")
    assert os.listdir(root) == []


def test_the_root_stays_when_its_last_file_is_deleted(storage, root):
    storage.write("file", b"")
    storage.delete("file")
    assert root.is_dir()


def test_only_one_process_creates_a_file_exclusively(storage):
    assert storage.create_exclusive("incarnation-1") is True
    assert storage.create_exclusive("incarnation-1") is False
    assert storage.read("incarnation-1") == b""


class Died(BaseException):
    pass


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_crash_in_an_exclusive_create_leaves_no_part_of_the_file(storage, monkeypatch, call):
    storage.write("other", b"")
    real = getattr(os, call)

    def die(*arguments, **named):
        if call == "write":
            real(arguments[0], bytes(arguments[1])[:3])
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(module.os, call, die)
        with pytest.raises(Died):
            storage.create_exclusive("file", b"new content")
    assert not storage.exists("file")
    assert storage.create_exclusive("file", b"new content")
    assert storage.read("file") == b"new content"
    assert storage.list("") == ["file", "other"]


def test_temporary_file_of_a_crashed_create_can_be_deleted(storage, monkeypatch):
    def die(*arguments):
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "rename", die)
        with pytest.raises(Died):
            storage.create_exclusive("chk-3/_metadata", b"x")
    (left,) = storage.list("chk-")
    assert left != "chk-3/_metadata"
    storage.delete(left)
    assert storage.list("") == []


@pytest.mark.parametrize("method", ["write", "create_exclusive"])
def test_content_is_synced_before_its_name_and_folders_after_it(storage, monkeypatch, method):
    calls = []

    def fsync(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("sync folder" if is_folder else "sync file")

    def rename(source, target):
        calls.append("rename")
        real_rename(source, target)

    real_rename = os.rename
    monkeypatch.setattr(module.os, "fsync", fsync)
    monkeypatch.setattr(module.os, "rename", rename)
    getattr(storage, method)("chk-1/a", b"x")
    assert calls[0] == "sync folder", "the folder chk-1 has a name too"
    assert calls[1:] == (
        ["sync file", "sync folder"]
        if method == "write"
        else ["sync file", "rename", "sync folder", "sync folder"]
    )


def test_concurrent_writes_and_deletes_in_one_folder_do_not_interfere(storage):
    errors = []

    def work(name):
        try:
            for _ in range(100):
                storage.write(f"chk-1/{name}", b"x")
                storage.delete(f"chk-1/{name}")
        except StorageError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert storage.list("") == []


@pytest.mark.parametrize(
    "path", ["../outside", "chk-1/../../outside", "/etc/passwd", "a//b", "./a", "a/", "a\0b", ""]
)
@pytest.mark.parametrize("method", ["read", "delete", "create_exclusive"])
def test_a_path_that_leaves_the_root_is_refused(storage, root, path, method):
    outside = root.parent / "outside"
    outside.write_text("untouched")
    with pytest.raises(StorageError, match="does not lie within"):
        getattr(storage, method)(path)
    assert outside.read_text() == "untouched"


def test_a_missing_file_is_one_clear_line(storage, root):
    with pytest.raises(StorageError) as caught:
        storage.read("chk-1/_metadata")
    assert str(caught.value) == (
        f"checkpoint file {root}/chk-1/_metadata cannot be read: No such file or directory:"
        " restore another checkpoint, or another copy of this one"
    )


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (28, "No space left on device: free some space"),
        (13, "Permission denied: make the folder writable"),
        (30, "Read-only file system: choose an execution.checkpointing.dir that can be written"),
        (5, "Input/output error: check the disk"),
    ],
)
@pytest.mark.parametrize("method", ["write", "create_exclusive"])
def test_a_disk_that_refuses_is_one_clear_line(storage, root, monkeypatch, method, number, words):
    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module.os, "write", refuse)
    with pytest.raises(StorageError, match=words) as caught:
        getattr(storage, method)("chk-1/a", b"x")
    assert str(caught.value).startswith(f"checkpoint file {root}/chk-1/a cannot be written: ")
    assert "\n" not in str(caught.value)


def test_a_file_in_the_way_of_the_root_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StorageError, match=r"checkpoint folder .*/file/job cannot be created: .*a file is in the way"
    ):
        LocalCheckpointStorage(tmp_path / "file" / "job")


@pytest.fixture
def home(tmp_path):
    """A folder outside of the storage, with a file of its user."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "precious").write_bytes(b"precious")
    return folder


@pytest.mark.parametrize("method", ["read", "delete", "create_exclusive", "exists"])
def test_a_folder_that_is_a_link_is_refused(storage, root, home, method):
    (root / "d").symlink_to(home)
    with pytest.raises(StorageError, match="is a symbolic link"):
        getattr(storage, method)("d/precious")
    assert (home / "precious").read_bytes() == b"precious"


@pytest.mark.parametrize("method", ["write", "create_exclusive"])
def test_nothing_is_written_through_a_link(storage, root, home, method):
    (root / "d").symlink_to(home)
    with pytest.raises(StorageError, match="is a symbolic link"):
        getattr(storage, method)("d/precious", b"forged")
    (root / "file").symlink_to(home / "precious")
    (root / ".other.unpublished").symlink_to(home / "precious")
    for path in ("file", "other"):
        with suppress(StorageError):
            getattr(storage, method)(path, b"forged")
    assert (home / "precious").read_bytes() == b"precious"


def test_a_file_that_is_a_link_is_not_read_or_adopted(storage, root, home):
    (root / "file").symlink_to(home / "precious")
    for use in (storage.read, storage.exists, lambda path: storage.adopt("a", str(home / "none"), path)):
        with pytest.raises(StorageError, match="is a symbolic link"):
            use("file")
    storage.delete("file")
    assert (home / "precious").exists()


def test_a_pipe_in_place_of_a_file_does_not_hold_the_job_up(storage, root):
    os.mkfifo(root / "file")
    with pytest.raises(StorageError, match="it is a pipe"):
        storage.read("file")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a\0b"])
def test_a_memory_refuses_the_same_paths(path):
    storage = MemoryCheckpointStorage()
    for use in (storage.read, storage.delete, storage.exists, storage.create_exclusive):
        with pytest.raises(StorageError, match="does not lie within"):
            use(path)
    with pytest.raises(StorageError, match="does not lie within"):
        storage.write(path, b"")


def test_a_snapshot_that_is_too_large_for_memory_is_refused_with_the_mend():
    storage = MemoryCheckpointStorage(10)
    storage.write("fits", bytes(10))
    storage.publish("metadata", bytes(11))
    with pytest.raises(StorageError, match=r"11 bytes exceeds the 10 .*: set execution\.checkpointing\.dir"):
        storage.write("large", bytes(11))
    assert not storage.exists("large")
