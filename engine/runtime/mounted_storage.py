"""The storage of a job: its own folder, with other storages mounted into it.

Rules:

- The first part of a path selects the storage: if a storage is mounted under that name, the rest is a path in
  it; otherwise the whole path is in the job's own folder. Storages may be of different kinds: a job in a
  folder can write its savepoint to ``s3://``, and a job in memory can restore one from a folder.
- A mounted folder is created with its first file, and removed with its last.
- ``adopt`` reuses an earlier stored file only within one storage.
- fsspec alone creates no file exclusively here: it looks whether the file exists and then overwrites it. Of
  100 races of two writers one had two winners, and a reader may see a file that is half written.
- A rename of the NameNode is atomic, and refuses a target that exists unless it is to replace it. So each
  file is written under a name of its own beside the target, and renamed. Of 100 races each had one winner,
  and the file held what that one wrote.
- HDFS has folders: one that its last file leaves is removed with it. One that is not empty stays.
- A temporary file whose writer died is in no checkpoint. It goes with the folder of its checkpoint; one in
  the folder of the job stays.
- A request gives up after seconds, because the restart strategy decides how long to go on.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal
from urllib.parse import quote

from onceproof.engine.locations import location, name_of, parent_of, scheme_of
from onceproof.engine.runtime import remote_storage
from onceproof.engine.runtime.remote_storage import WEBHDFS, RemoteCheckpointStorage, RemoteStorageError
from onceproof.engine.runtime.storage import CheckpointStorage, LocalCheckpointStorage

_SECONDS_TO_CONNECT: Final = 3
_SECONDS_TO_ANSWER: Final = 20
_EXISTS: Final = "FileAlreadyExistsException"


class WebHdfsCheckpointStorage(RemoteCheckpointStorage):
    """Checkpoints below an address of HDFS."""

    schemes = frozenset((WEBHDFS,))

    def write(self, path: str, data: bytes) -> None:
        self._create(path, "cannot be written", lambda file: self._put(file, data, "OVERWRITE"))

    publish = write

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Upload the local file; HDFS copies none by itself."""
        with open(source, "rb") as file:
            self.write(path, file.read())

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file; return False if it exists already."""
        try:
            self._create(path, "cannot be created", lambda file: self._put(file, data, "NONE"))
        except FileExistsError:
            return False
        return True

    def delete(self, path: str) -> None:
        """Delete the file, and the folders that it leaves empty."""
        super().delete(path)
        folder = path
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            try:
                self._do(folder, "cannot be deleted", lambda at: self._files.rm(at, recursive=False))
            except (FileNotFoundError, RemoteStorageError):
                # It is not empty, or another process has deleted it; an empty folder does no harm.
                return

    def _open(self) -> None:
        super()._open()
        from requests.adapters import HTTPAdapter

        class Impatient(HTTPAdapter):
            """Gives up a request in time; requests itself waits for ever."""

            def send(self, request: Any, **settings: Any) -> Any:  # type: ignore[override]
                settings["timeout"] = settings.get("timeout") or (_SECONDS_TO_CONNECT, _SECONDS_TO_ANSWER)
                return super().send(request, **settings)

        for scheme in ("http://", "https://"):
            self._opened.session.mount(scheme, Impatient())

    def _put(self, file: str, data: bytes, option: Literal["NONE", "OVERWRITE"]) -> None:
        """Write a file under another name, and rename it. Raises FileExistsError, and what fsspec raises."""
        temporary = f"{parent_of(file)}/.{name_of(file)}.{secrets.token_hex(8)}.unpublished"
        files = self._files
        files.pipe_file(temporary, data)
        answer = files.session.put(
            files.url + quote(temporary),
            params={**files.pars, "op": "RENAME", "destination": file, "renameoptions": option},
        )
        if answer.ok:
            return
        files.rm_file(temporary)
        if _EXISTS in answer.text:
            raise FileExistsError(file)
        answer.raise_for_status()


def open_storage(at: str, *, stands_in: bool = False) -> CheckpointStorage:
    """Return the storage at a place; see LocalCheckpointStorage. Raises StorageError if it is not usable."""
    match scheme_of(at):
        case "":
            return LocalCheckpointStorage(at, stands_in=stands_in)
        case remote_storage.WEBHDFS:
            return WebHdfsCheckpointStorage(at)
        case _:
            return RemoteCheckpointStorage(at)


class MountedStorage:
    """The job's own storage with others mounted into it by name."""

    def __init__(self, own: CheckpointStorage, mounts: Mapping[str, str] | None = None) -> None:
        self._own = own
        self.mounts: dict[str, str] = {}
        """The place of each mounted storage, by name."""
        self._mounted: dict[str, CheckpointStorage] = {}
        for name, at in (mounts or {}).items():
            self.mount(name, at)

    @property
    def root(self) -> str:
        """The job's own folder."""
        return self._own.root

    def mount(self, name: str, at: str) -> None:
        """Mount the storage at a place under ``name``."""
        where = self.mounts[name] = location(at)
        self._mounted[name] = open_storage(where, stands_in=True)

    def write(self, path: str, data: bytes) -> None:
        """Write a file durably."""
        storage, there = self._find(path)
        storage.write(there, data)

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store a local file; ``earlier`` is used only within the same storage."""
        storage, there = self._find(path)
        if earlier is not None:
            before, earlier = self._find(earlier)
            if before is not storage:
                earlier = None
        storage.adopt(there, source, earlier)

    def publish(self, path: str, data: bytes) -> None:
        """Write a file durably and atomically, over an old one."""
        storage, there = self._find(path)
        storage.publish(there, data)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        storage, there = self._find(path)
        return storage.read(there)

    def delete(self, path: str) -> None:
        """Delete a file."""
        storage, there = self._find(path)
        storage.delete(there)

    def list(self, prefix: str) -> list[str]:
        """Return the sorted paths that begin with ``prefix``, all in the same storage."""
        storage, there = self._find(prefix)
        if storage is self._own:
            return storage.list(prefix)
        name = prefix.partition("/")[0]
        return [f"{name}/{path}" for path in storage.list(there)]

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        storage, there = self._find(path)
        return storage.exists(there)

    def create_exclusive(self, path: str, data: bytes = b"") -> bool:
        """Create a file durably; return False if it exists already."""
        storage, there = self._find(path)
        return storage.create_exclusive(there, data)

    def make_durable(self, path: str) -> None:
        """Make durable that a file is there, or is gone."""
        storage, there = self._find(path)
        storage.make_durable(there)

    @property
    def writes_may_be_late(self) -> bool:
        """Whether a write to the job's own storage may be late."""
        return self._own.writes_may_be_late

    @property
    def is_in_place(self) -> bool:
        """Whether the job's own folder that this process holds is still the one at its path."""
        return self._own.is_in_place

    def kept_in_view(self) -> AbstractContextManager[None]:
        """Hold the job's own folder open without its lock, if it is one."""
        return self._own.kept_in_view() if isinstance(self._own, LocalCheckpointStorage) else nullcontext()

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the job's own folder exclusively."""
        return self._own.exclusive()

    def remove_empty_folders(self) -> None:
        """Remove the empty folders that a dead process has left in the job's own folder, if it is one."""
        if isinstance(self._own, LocalCheckpointStorage):
            self._own.remove_empty_folders()

    def place_of(self, path: str) -> str:
        """Return the full path of a file, for messages."""
        storage, there = self._find(path)
        return storage.place_of(there)

    def _find(self, path: str) -> tuple[CheckpointStorage, str]:
        name, slash, rest = path.partition("/")
        if slash and name in self._mounted:
            return self._mounted[name], rest
        return self._own, path
