"""Files at a place that several machines may share: a folder, or an address in a file system of fsspec.

The trials of a campaign and the history of nights are kept there.

The rules this module lives by:

- A file appears whole: in a folder by a hidden name, fsync and a rename; in an object store a write is
  atomic.
- A file may come from a stranger: what is no regular file, or larger than expected, is not read.
- Errors are OSError or, for a file that is not one of ours, ValueError, whatever the file system raises.
- A store can be pickled: each process opens it for itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import fsspec

from onceproof.engine.extras import S3, require
from onceproof.engine.locations import join_location, location, scheme_of
from onceproof.engine.outside_files import read_at_most

_S3_SCHEMES: Final = ("s3", "s3a")


class FileStore(Protocol):
    """The files at one place."""

    place: str
    """As the user named it, for messages."""

    def prepare(self) -> None:
        """Make the place and check that it is writable. Raises OSError."""

    def names(self) -> list[str]:
        """Return the names of the files, in their order."""

    def folders(self) -> list[str]:
        """Return the names of the folders below it, in their order."""

    def below(self, name: str) -> FileStore:
        """Return the store of a folder below it."""

    def read(self, name: str, most_bytes: int | None = None) -> bytes:
        """Return a file. Raises FileNotFoundError, OSError, and ValueError for a file that is not ours."""

    def write(self, name: str, data: bytes) -> None:
        """Write a new file. Raises OSError."""

    def rename(self, name: str, other: str) -> None:
        """Give a file another name. Raises OSError."""

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone already is no error."""

    def remove_folder(self) -> None:
        """Remove the place itself, if nothing is left in it."""


def store_of(place: Path | str) -> FileStore:
    """Return the store at a folder or an address, such as ``s3://bucket/nights``."""
    text = str(place)
    # An absolute path, because executors have other working folders.
    return RemoteStore(text) if scheme_of(text) else FolderStore(Path(location(text)))


class FolderStore:
    """The files in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._folder = folder

    def prepare(self) -> None:
        """Make the folder, and write and delete a file in it."""
        trial = self._folder / f".{os.getpid()}.trial"
        self._folder.mkdir(parents=True, exist_ok=True)
        trial.touch()
        trial.unlink()

    def names(self) -> list[str]:
        """Return the names of the files; none where there is no folder."""
        return sorted(path.name for path in self._folder.glob("*") if not path.is_dir())

    def folders(self) -> list[str]:
        """Return the names of the folders."""
        return sorted(path.name for path in self._folder.glob("*") if path.is_dir())

    def below(self, name: str) -> FolderStore:
        """Return the store of a folder below it."""
        return FolderStore(self._folder / name)

    def read(self, name: str, most_bytes: int | None = None) -> bytes:
        """Return a regular file."""
        path = self._folder / name
        # To open a pipe would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("no regular file")
        return path.read_bytes() if most_bytes is None else read_at_most(path, most_bytes)

    def write(self, name: str, data: bytes) -> None:
        """Write a hidden file, and rename it."""
        hidden = self._folder / f".{name}.part"
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with hidden.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            hidden.rename(self._folder / name)
        finally:
            hidden.unlink(missing_ok=True)

    def rename(self, name: str, other: str) -> None:
        """Rename a file."""
        (self._folder / name).rename(self._folder / other)

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self._folder / name).unlink(missing_ok=True)

    def remove_folder(self) -> None:
        """Remove the folder, if it is empty."""
        with suppress(OSError):
            self._folder.rmdir()


class RemoteStore:
    """The files below an address of fsspec."""

    def __init__(self, address: str) -> None:
        """Name the address; it is opened at the first call."""
        self.place = address
        self._opened: Any = None
        self._root = ""

    def prepare(self) -> None:
        """Write and delete a file."""
        name = f".{os.getpid()}-{os.urandom(4).hex()}.trial"
        self.write(name, b"")
        self.delete(name)

    def names(self) -> list[str]:
        """Return the names of the files; none where there is nothing yet."""
        return self._listed("file")

    def folders(self) -> list[str]:
        """Return the names of the folders."""
        return self._listed("directory")

    def _listed(self, kind: str) -> list[str]:
        with _as_os_errors(self.place):
            files = self._files()
            try:
                found = files.ls(self._root, detail=True, refresh=True)
            except FileNotFoundError:
                return []
            # A folder may be an empty object of its own name.
            names = [
                each["name"].rstrip("/").rpartition("/")[2]
                for each in found
                if each["type"] == kind and each["name"].rstrip("/") != self._root
            ]
            return sorted(names)

    def below(self, name: str) -> RemoteStore:
        """Return the store of a folder below it."""
        return RemoteStore(join_location(self.place, name))

    def read(self, name: str, most_bytes: int | None = None) -> bytes:
        """Return a file."""
        with _as_os_errors(self.place):
            files = self._files()
            path = f"{self._root}/{name}"
            if most_bytes is not None and (files.info(path)["size"] or 0) > most_bytes:
                raise ValueError(f"it is larger than {most_bytes:,} bytes")
            data: bytes = files.cat_file(path)
            return data

    def write(self, name: str, data: bytes) -> None:
        """Write a file by one request."""
        with _as_os_errors(self.place):
            files = self._files()
            # Only file systems with folders need it; object stores make nothing.
            files.makedirs(self._root, exist_ok=True)
            files.pipe_file(f"{self._root}/{name}", data)

    def rename(self, name: str, other: str) -> None:
        """Copy a file, and delete it under its first name."""
        with _as_os_errors(self.place):
            files = self._files()
            files.mv(f"{self._root}/{name}", f"{self._root}/{other}")

    def delete(self, name: str) -> None:
        """Delete a file."""
        with _as_os_errors(self.place):
            files = self._files()
            try:
                files.rm_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return

    def remove_folder(self) -> None:
        """Do nothing: in an object store a folder is gone with its last file."""

    def __reduce__(self) -> tuple[type[RemoteStore], tuple[str]]:
        """Pickle the address: each process opens it for itself."""
        return RemoteStore, (self.place,)

    def _files(self) -> Any:
        if self._opened is None:
            if scheme_of(self.place) in _S3_SCHEMES:
                require(f"{self.place}: it", S3)
            # Files of other machines must be visible.
            self._opened, root = fsspec.url_to_fs(self.place, use_listings_cache=False)
            self._root = root.rstrip("/")
        return self._opened


@contextmanager
def _as_os_errors(place: str) -> Iterator[None]:
    """Raise as OSError what a client of a store raises: each has types of its own."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) or "larger than" in str(error):
            raise
        raise OSError(0, " ".join(str(error).split()), place) from None
    except ImportError as error:
        raise OSError(0, " ".join(str(error).split()), place) from None
    except Exception as error:
        if type(error).__module__.startswith("onceproof."):
            raise
        raise OSError(0, f"{type(error).__name__}: {' '.join(str(error).split())}", place) from None
