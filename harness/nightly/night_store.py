"""Where the files of the history of nights are: a folder, or an address in a file system of fsspec.

The rules this module lives by:

- A file appears whole: in a folder by a hidden name, fsync and a rename; in an object store a write is
  atomic.
- A file may come from a stranger: what is no regular file, or larger than a night can be, is not read.
- Errors are OSError or, for what is no file of a night, ValueError, whatever the file system raises.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import fsspec

from onceproof.engine.extras import S3, require
from onceproof.engine.locations import scheme_of
from onceproof.engine.outside_files import read_at_most

_S3_SCHEMES: Final = ("s3", "s3a")


class NightStore(Protocol):
    """The files of one history."""

    place: str
    """As the user named it, for messages."""

    def prepare(self) -> None:
        """Make the place and check that it is writable. Raises OSError."""

    def names(self) -> list[str]:
        """Return the names of the files, in their order."""

    def read(self, name: str, most_bytes: int) -> bytes:
        """Return a file. Raises FileNotFoundError, OSError, and ValueError for what cannot be a night."""

    def write(self, name: str, data: bytes) -> None:
        """Write a new file. Raises OSError."""

    def rename(self, name: str, other: str) -> None:
        """Give a file another name. Raises OSError."""

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone already is no error."""


def store_of(place: Path | str) -> NightStore:
    """Return the store at a folder or an address, such as ``s3://bucket/nights``."""
    text = str(place)
    return RemoteNights(text) if scheme_of(text) else FolderOfNights(Path(text))


class FolderOfNights:
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
        return sorted(path.name for path in self._folder.glob("*"))

    def read(self, name: str, most_bytes: int) -> bytes:
        """Return a regular file."""
        path = self._folder / name
        # To open a pipe would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("no regular file")
        return read_at_most(path, most_bytes)

    def write(self, name: str, data: bytes) -> None:
        """Write a hidden file, and rename it."""
        hidden = self._folder / f".{name}.part"
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


class RemoteNights:
    """The files below an address of fsspec; machines that share it share one history."""

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
        with _as_os_errors(self.place):
            try:
                found = self._files().ls(self._root, detail=True, refresh=True)
            except FileNotFoundError:
                return []
            return sorted(each["name"].rpartition("/")[2] for each in found if each["type"] == "file")

    def read(self, name: str, most_bytes: int) -> bytes:
        """Return a file."""
        path = f"{self._root}/{name}"
        with _as_os_errors(self.place):
            if (self._files().info(path)["size"] or 0) > most_bytes:
                raise ValueError(f"it is larger than {most_bytes:,} bytes")
            data: bytes = self._files().cat_file(path)
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
            self._files().mv(f"{self._root}/{name}", f"{self._root}/{other}")

    def delete(self, name: str) -> None:
        """Delete a file."""
        with _as_os_errors(self.place):
            try:
                self._files().rm_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return

    def _files(self) -> Any:
        if self._opened is None:
            if scheme_of(self.place) in _S3_SCHEMES:
                require(f"history at {self.place}: it", S3)
            # Nights of other machines must be visible.
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
