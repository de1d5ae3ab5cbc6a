"""The storage of a job's checkpoints, in a local folder or in memory.

The rules this module lives by:

- ``write`` returns when the content and the name of the file would survive a loss of power. So do
  ``publish`` and ``create_exclusive``; of their file a reader sees nothing new or the whole content.
- A name counts as durable only when all folders above it are: a process that died may have made them, and
  not synced them. So they are synced when the storage is opened, and the folder of a created file with the
  one above it.
- Deleting an absent file does nothing, because deletes are repeated after crashes.
- Paths are relative to the root, with ``/``. They may come from a damaged or forged file, so a path that
  leaves the root is refused before any file is touched. So is one that passes a symbolic link below the
  root: the root itself may be reached through links, because the user chose it.
- One living process holds the folder of a job. Two would overwrite each other's checkpoints. The operating
  system releases the lock when its holder dies, however it dies, also if processes that it forked live on.
- Every error of the operating system becomes a StorageError: one line with the file, what failed and the
  mend.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, Protocol

from onceproof.engine.configuration import CHECKPOINT_DIRECTORY, MAX_MEMORY_STATE_BYTES
from onceproof.engine.durable_files import (
    copy_file,
    link_file,
    open_folder,
    open_in_folder,
    sync_file,
    sync_folder,
    sync_parent,
    write_file,
)
from onceproof.engine.file_calls import SYSTEM_CALLS, FileCalls
from onceproof.engine.runtime.held_folder import HeldFolder
from onceproof.engine.state.file_envelope import leads_out

_MENDS: Final = {
    errno.EACCES: "make the folder writable, or choose another execution.checkpointing.dir",
    errno.EPERM: "make the folder writable, or choose another execution.checkpointing.dir",
    errno.EROFS: "choose an execution.checkpointing.dir that can be written",
    errno.EFBIG: "free some space, or choose another execution.checkpointing.dir",
    errno.ENOSPC: "free some space, or choose another execution.checkpointing.dir",
    errno.EDQUOT: "free some space, or choose another execution.checkpointing.dir",
    errno.ENOTDIR: "a file is in the way: choose another execution.checkpointing.dir",
    errno.EEXIST: "a file is in the way: choose another execution.checkpointing.dir",
    errno.ENOENT: "restore another checkpoint, or another copy of this one",
    errno.EISDIR: "a folder is in the way: move it aside",
    errno.ELOOP: "a symbolic link is in the way: delete it",
}
_OTHER_MEND: Final = "check the disk, or choose another execution.checkpointing.dir"


class StorageError(OSError):
    """A file of a checkpoint cannot be written, read or deleted. The message is one line."""

    def __str__(self) -> str:
        return str(self.args[0])


class MissingFile(StorageError):
    """A file of a checkpoint is not there."""


class CheckpointStorage(Protocol):
    """The storage interface of the engine; paths are relative to the job's folder."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file durably."""
        ...

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store a local file durably; the file never changes.

        ``earlier`` is the path of a stored file with the same content, which may be gone.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it is not there."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with ``prefix``, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        ...

    def publish(self, path: str, data: bytes) -> None:
        """Write a file durably and atomically, over an old one if there is one."""
        ...

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file durably and atomically; return False if it exists already."""
        ...

    def make_durable(self, path: str) -> None:
        """Make durable that a file is there, or is gone, whichever process has created or deleted it."""
        ...

    @property
    def writes_may_be_late(self) -> bool:
        """Whether a write may appear after its process was given up, or after it has failed."""
        ...

    @property
    def is_in_place(self) -> bool:
        """Whether the folder that this process holds is still the one at its path."""
        ...

    @property
    def root(self) -> str:
        """The folder or address that paths are relative to; "" in memory."""
        ...

    def place_of(self, path: str) -> str:
        """Return the full path of a file for messages, even of a path that is refused."""
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a context in which this process holds the storage exclusively."""
        ...


class LocalCheckpointStorage:
    """Checkpoints in a folder of the local file system, or of one that behaves like it.

    ``stands_in``: the storage is mounted into another one; its first file creates the folder, and the delete
    of its last one removes it.
    """

    writes_may_be_late = False

    def __init__(self, root: str | Path, *, stands_in: bool = False, calls: FileCalls = SYSTEM_CALLS) -> None:
        self.root = os.path.abspath(root)
        self._stands_in = stands_in
        self._calls = calls
        self._folder = HeldFolder(self.root)
        if stands_in:
            return
        try:
            open_folder(calls, self.root)
        except OSError as error:
            raise _failure("folder", self.root, "cannot be created", error) from error

    def write(self, path: str, data: bytes) -> None:
        """Sync the content, then the name."""
        target = self._resolve(path)
        try:
            write_file(self._calls, target, data)
            sync_folder(self._calls, os.path.dirname(target))
        except OSError as error:
            raise _failure("file", target, "cannot be written", error) from error

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Link the local file, or else the earlier stored one; copy the file if neither is possible."""
        target = self._resolve(path)
        before = None if earlier is None else self._resolve_file(earlier)
        try:
            if not link_file(self._calls, source, target) and (
                before is None or not link_file(self._calls, before, target)
            ):
                copy_file(self._calls, source, target)
            sync_file(self._calls, target)
            sync_folder(self._calls, os.path.dirname(target))
        except OSError as error:
            raise _failure("file", target, "cannot be written", error) from error

    def read(self, path: str) -> bytes:
        """Return the whole content."""
        target = self._resolve_file(path)
        try:
            return self._calls.read_file(target)
        except OSError as error:
            raise _failure("file", target, "cannot be read", error) from error

    def delete(self, path: str) -> None:
        """Delete the file, and its folder when that becomes empty."""
        target = self._resolve(path)
        try:
            self._calls.unlink(target)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise _failure("file", target, "cannot be deleted", error) from error
        folder = os.path.dirname(target)
        if folder != self.root or self._stands_in:
            try:
                self._calls.rmdir(folder)
            except OSError:
                # The folder holds other files, or is gone already.
                return

    def list_readable(self, folders: int | None = None) -> tuple[list[str], dict[str, str]]:
        """List the files in at most so many folders, one within the other, and the folders not to be read.

        Returns:
            the sorted paths, and by folder why it cannot be listed. Raises StorageError for the root.
        """
        unreadable: dict[str, str] = {}
        return self._list("", folders, unreadable), unreadable

    def _list(self, prefix: str, folders: int | None, unreadable: dict[str, str] | None) -> list[str]:
        paths: list[str] = []
        waiting = [prefix.rpartition("/")[0]]
        while waiting:
            folder = waiting.pop()
            at = self.root
            try:
                at = self._resolve(folder) if folder else self.root
                entries = self._entries(at)
            except OSError as error:
                failure = _failure("folder", at, "cannot be listed", error)
                if unreadable is None or not folder:
                    raise failure from error
                unreadable[folder] = str(failure)
                continue
            for name, is_folder in entries:
                path = f"{folder}/{name}" if folder else name
                if is_folder:
                    is_near = folders is None or path.count("/") < folders
                    if is_near and (path.startswith(prefix) or prefix.startswith(f"{path}/")):
                        waiting.append(path)
                elif path.startswith(prefix):
                    paths.append(path)
        paths.sort()
        return paths

    def list(self, prefix: str) -> list[str]:
        """List the files by walking only the folders that can match."""
        return self._list(prefix, None, None)

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        target = self._resolve_file(path)
        try:
            return self._calls.exists(target)
        except OSError as error:
            raise _failure("file", target, "cannot be looked for", error) from error

    def publish(self, path: str, data: bytes) -> None:
        """Write a temporary file, then rename it to the target."""
        target = self._resolve(path)
        folder, name = os.path.split(target)
        temporary = os.path.join(folder, f".{name}.unpublished")
        try:
            write_file(self._calls, temporary, data)
            self._calls.rename(temporary, target)
            sync_folder(self._calls, folder)
            sync_parent(self._calls, folder, self.root)
        except OSError as error:
            raise _failure("file", target, "cannot be written", error) from error

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create an empty file, or publish one: the lock keeps other writers out."""
        if data:
            if self.exists(path):
                return False
            self.publish(path, data)
            return True
        target = self._resolve(path)
        try:
            self._calls.close(open_in_folder(self._calls, target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            sync_folder(self._calls, os.path.dirname(target))
            sync_parent(self._calls, os.path.dirname(target), self.root)
        except FileExistsError:
            return False
        except OSError as error:
            raise _failure("file", target, "cannot be created", error) from error
        return True

    def make_durable(self, path: str) -> None:
        """Sync the folder of the file, and the one above it."""
        target = self._resolve(path)
        try:
            sync_folder(self._calls, os.path.dirname(target))
            sync_parent(self._calls, os.path.dirname(target), self.root)
        except FileNotFoundError:
            # The folder is gone: what was in it cannot come back without the folder.
            return
        except OSError as error:
            raise _failure("file", target, "cannot be synced", error) from error

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the folder; raise StorageError if another process holds it."""
        with self._hold(is_locked=True):
            self.remove_empty_folders()
            yield

    def kept_in_view(self) -> AbstractContextManager[None]:
        """Hold the folder open without its lock, so that its replacement is noticed."""
        return self._hold(is_locked=False)

    @contextmanager
    def _hold(self, *, is_locked: bool) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._folder.held(is_locked=is_locked))
            except BlockingIOError:
                raise StorageError(
                    f"checkpoint folder {self.root} is in use: the job runs in another process;"
                    " wait for its end, or give this job another name"
                ) from None
            except OSError as error:
                raise _failure("folder", self.root, "cannot be locked", error) from error
            yield

    @property
    def is_in_place(self) -> bool:
        """Whether the folder that this process holds, if it holds any, is still the one at its path."""
        return self._folder.is_in_place

    def remove_empty_folders(self) -> None:
        """Remove the empty folders that a dead process left."""
        for name, is_folder in self._entries(self.root):
            if is_folder:
                # A folder that is not empty or belongs to another user stays.
                with suppress(OSError):
                    self._calls.rmdir(os.path.join(self.root, name))

    def place_of(self, path: str) -> str:
        """Return the full path of a file for messages, even of a path that is refused."""
        return path if path.startswith("/") else f"{self.root}/{path}"

    def _entries(self, folder: str) -> Sequence[tuple[str, bool]]:
        try:
            return self._calls.entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            # The folder was deleted since its parent was listed, or it is a file.
            return []

    def _resolve(self, path: str) -> str:
        """Return the full path of a file whose folders below the root are no links."""
        check_inside(path, self.root)
        target = self.root
        *folders, name = path.split("/")
        for folder in folders:
            target = f"{target}/{folder}"
            _refuse_link(target)
        return f"{target}/{name}"

    def _resolve_file(self, path: str) -> str:
        """Return the full path of a file that is no link either."""
        target = self._resolve(path)
        _refuse_link(target)
        return target


class MemoryCheckpointStorage:
    """Checkpoints in memory, which survive a failed task (Flink: JobManagerCheckpointStorage).

    ``most_bytes``: how large a snapshot may be; None: without a limit. Metadata may be larger.
    """

    root = ""
    writes_may_be_late = False
    is_in_place = True

    def __init__(self, most_bytes: int | None = None) -> None:
        self._files: dict[str, bytes] = {}
        self._most_bytes = most_bytes

    def write(self, path: str, data: bytes) -> None:
        """Store a snapshot; raise StorageError if it is too large (Flink: MemCheckpointStreamFactory)."""
        if self._most_bytes is not None and len(data) > self._most_bytes:
            raise StorageError(
                f"a snapshot of {len(data):,} bytes exceeds the {self._most_bytes:,} of a checkpoint in"
                f" memory: set {CHECKPOINT_DIRECTORY.key}, or a larger {MAX_MEMORY_STATE_BYTES.key}"
            )
        self._files[_checked(path)] = data

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store the content of a file, sharing the bytes of the earlier one."""
        known = None if earlier is None else self._files.get(earlier)
        if known is None:
            with open(source, "rb") as file:
                known = file.read()
        self._files[_checked(path)] = known

    def publish(self, path: str, data: bytes) -> None:
        """Store metadata, of any size."""
        self._files[_checked(path)] = data

    def read(self, path: str) -> bytes:
        """Return the content."""
        try:
            return self._files[_checked(path)]
        except KeyError:
            raise MissingFile(f"checkpoint file {path} is not in memory: restart the job") from None

    def delete(self, path: str) -> None:
        self._files.pop(_checked(path), None)

    def list(self, prefix: str) -> list[str]:
        """Return the paths that begin with ``prefix``, sorted."""
        return sorted([path for path in list(self._files) if path.startswith(prefix)])

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        return _checked(path) in self._files

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file; return False if it exists already."""
        if _checked(path) in self._files:
            return False
        self._files[path] = data
        return True

    def make_durable(self, path: str) -> None:
        """Do nothing: nothing in memory is durable."""

    def place_of(self, path: str) -> str:
        """Return the path itself."""
        return path

    def exclusive(self) -> AbstractContextManager[None]:
        """Return an empty context: no other process can reach this memory."""
        return nullcontext()


def _checked(path: str) -> str:
    check_inside(path, "the memory of the job")
    return path


def _refuse_link(path: str) -> None:
    """Raise StorageError if the path is a symbolic link; it need not exist."""
    if os.path.islink(path):
        raise StorageError(
            f"checkpoint path {path} is a symbolic link, which may lead out of its folder:"
            " put the files themselves in its place, or restore another checkpoint"
        )


def check_inside(path: str, root: str) -> None:
    """Raise StorageError for a path outside its root."""
    if leads_out(path):
        raise StorageError(
            f"checkpoint file {path!r} does not lie within {root}:"
            " the checkpoint that names it is damaged or forged, restore another one"
        )


def _failure(kind: str, path: str, what: str, error: OSError) -> StorageError:
    mend = _MENDS.get(error.errno or 0, _OTHER_MEND)
    reason = error.strerror or str(error)
    failure = MissingFile if error.errno == errno.ENOENT else StorageError
    return failure(f"checkpoint {kind} {path} {what}: {reason}: {mend}")
