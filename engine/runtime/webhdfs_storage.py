"""The storage of checkpoints in HDFS by its web interface: ``webhdfs://namenode:9870/checkpoints``.

The rules this module lives by:

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
from typing import Any, Final, Literal
from urllib.parse import quote

from onceproof.engine.locations import name_of, parent_of
from onceproof.engine.runtime.remote_storage import WEBHDFS, RemoteCheckpointStorage, RemoteStorageError

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
