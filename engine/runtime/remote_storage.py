"""The storage of checkpoints in a file system of fsspec: ``s3://``, ``gs://``, ``abfs://``, ``memory://``.

``webhdfs://`` has its own (`mounted_storage.py`), built on this one.

The rules this module lives by:

- A write of a file is atomic in an object store, so no file is renamed.
- Two processes of one job are kept apart by files that only one of them can create (checkpoint_history.py).
  So only file systems with an exclusive ``create`` and strong listings are accepted (in s3fs, gcsfs and adlfs
  the create is a condition of the request); others are refused before the job begins. There is no lock as on
  a folder: a second process takes the job over, and the first one ends when it finds out.
- A request may be performed late, or twice, and one that failed may still be performed.
- Each process opens the file system for itself: connections and their threads do not survive a fork, and the
  workers of a job are forked.
- Listings are never cached, because files of other processes must be visible.
- Every error of the file system becomes a StorageError: one line with the file, what failed and the mend.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from onceproof.engine.locations import join_location, scheme_of
from onceproof.engine.runtime.storage import MissingFile, StorageError, check_inside

EXCLUSIVE: Final = frozenset(("memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"))
"""The schemes of file systems with an exclusive create in fsspec."""
WEBHDFS: Final = "webhdfs"
OF_ONE_PROCESS: Final = frozenset(("memory",))
_MEND: Final = "check address, rights and network, or choose another execution.checkpointing.dir"

_Answer = TypeVar("_Answer")


def _options(scheme: str) -> dict[str, Any]:
    """Return how the file system of a scheme is opened."""
    # Listings are cached by default.
    options: dict[str, Any] = {"use_listings_cache": False}
    # Every process of a job imports this module, and few have such a storage: a tenth of a process's start.
    import fsspec

    if scheme in ("s3", "s3a") and "config_kwargs" not in fsspec.config.conf.get(scheme, {}):
        # s3fs repeats each request that fails, and by default so does the client below it: a store that is
        # down is to be an error within seconds, because the restart strategy decides how long to go on.
        options["config_kwargs"] = {"retries": {"mode": "standard", "total_max_attempts": 3}}
    return options


class RemoteStorageError(StorageError):
    """A request to the file system has failed. The message is one line."""


class RemoteCheckpointStorage:
    """Checkpoints below an address such as ``s3://bucket/checkpoints``."""

    writes_may_be_late = True
    is_in_place = True
    schemes = EXCLUSIVE
    """Those of the file systems that this class keeps checkpoints in."""

    def __init__(self, root: str) -> None:
        self.root = root
        scheme = scheme_of(root)
        if scheme == "hdfs":
            raise StorageError(
                f"checkpoint folder {root}: hdfs:// has no client here that creates a file exclusively: write"
                " webhdfs://HOST:PORT/PATH, with the address of the NameNode's web interface (port 9870)"
            )
        if scheme not in self.schemes:
            known = ", ".join(sorted((*EXCLUSIVE, WEBHDFS)))
            raise StorageError(
                f"checkpoint folder {root}: nothing is known of {scheme}:// that would keep two processes"
                f" of a job apart: use a folder that all machines share, or {known}"
            )
        self._opened: Any = None
        self._opened_by = 0
        """The process that has opened it."""
        self._path = ""
        self._open()

    def write(self, path: str, data: bytes) -> None:
        self._create(path, "cannot be written", lambda file: self._files.pipe_file(file, data))

    publish = write

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Copy the earlier stored file within the file system; upload the local file if that is gone."""
        if earlier is not None:
            known = self._resolve(earlier)
            try:
                self._do(path, "cannot be written", lambda file: self._files.cp_file(known, file))
            except FileNotFoundError:
                pass
            else:
                return
        self._create(path, "cannot be written", lambda file: self._files.put_file(source, file))

    def read(self, path: str) -> bytes:
        """Return the whole content."""
        try:
            data: bytes = self._do(path, "cannot be read", self._files.cat_file)
        except FileNotFoundError as error:
            raise MissingFile(
                f"checkpoint file {join_location(self.root, path)} cannot be read: it is not there:"
                " restore another checkpoint, or another copy of this one"
            ) from error
        return data

    def delete(self, path: str) -> None:
        """Delete the file."""
        try:
            self._do(path, "cannot be deleted", self._files.rm_file)
        except FileNotFoundError:
            return

    def list(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with ``prefix``, sorted."""
        folder = prefix.rpartition("/")[0]
        try:
            found: list[str] = self._do(folder, "cannot be listed", self._files.find)
        except FileNotFoundError:
            return []
        beginning = self._path.rstrip("/") + "/"
        # The list may be the file system's own; a folder is also found as an empty object of its name.
        paths = [each.removeprefix(beginning) for each in found if not each.endswith("/")]
        return sorted([path for path in paths if path.startswith(prefix)])

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        return bool(self._do(path, "cannot be looked for", self._files.isfile))

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file; return False if it exists already, also if this request made it and was repeated."""
        try:
            self._create(
                path, "cannot be created", lambda file: self._files.pipe_file(file, data, mode="create")
            )
        except FileExistsError:
            return False
        return True

    def size_of(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if there is none, or the file system does not say."""
        try:
            size: int | None = self._do(path, "cannot be looked for", self._files.size)
        except FileNotFoundError:
            return None
        return size

    def modified_ms(self, path: str) -> int:
        """Return when a file was written, in milliseconds since 1970; 0 if the file system does not say."""
        try:
            when: datetime = self._files.modified(self._resolve(path))
            return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
        except Exception:
            # It is only shown to a user, and file systems differ in how they say that they do not know.
            return 0

    def make_durable(self, path: str) -> None:
        """Do nothing: an object that can be read is durable."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Return an empty context: an exclusive create keeps two processes apart, not a lock."""
        return nullcontext()

    def place_of(self, path: str) -> str:
        """Return the full address of a file, for messages."""
        return join_location(self.root, path)

    @property
    def _files(self) -> Any:
        """The file system. Raises StorageError if this process cannot open it."""
        if self._opened_by != os.getpid():
            self._open()
        return self._opened

    def _open(self) -> None:
        try:
            import fsspec

            self._opened, self._path = fsspec.core.url_to_fs(self.root, **_options(scheme_of(self.root)))
        except ImportError as error:
            raise StorageError(f"checkpoint folder {self.root} cannot be reached: {error}") from error
        except Exception as error:
            raise self._failure("", "cannot be reached", error) from error
        self._opened_by = os.getpid()

    def _resolve(self, path: str) -> str:
        check_inside(path, self.root)
        return join_location(self._path, path)

    def _create(self, path: str, what: str, ask: Callable[[str], object]) -> None:
        """Call ``ask`` with the address of a file to be written: only its bucket can be missing."""
        try:
            self._do(path, what, ask)
        except FileNotFoundError as error:
            raise self._failure(path, what, error) from error

    def _do(self, path: str, what: str, ask: Callable[[str], _Answer]) -> _Answer:
        """Call ``ask`` with the address of a file.

        FileNotFoundError and FileExistsError pass; every other error becomes a StorageError.
        """
        file = self._resolve(path) if path else self._path
        try:
            return ask(file)
        except (FileNotFoundError, FileExistsError):
            raise
        except Exception as error:
            raise self._failure(path, what, error) from error

    def _failure(self, path: str, what: str, error: Exception) -> RemoteStorageError:
        said: Any = getattr(error, "strerror", None) or str(error) or type(error).__name__
        at = join_location(self.root, path) if path else self.root
        return RemoteStorageError(f"checkpoint file {at} {what}: {' '.join(str(said).split())}: {_MEND}")
