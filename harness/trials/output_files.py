"""The files and folders that commands write: checked before the work, whole afterwards, and never shared.

The rules this module lives by:

- A folder of results has one writer at a time. A command that finds another one in it is refused; the claim
  ends with the process, however it dies, and leaves no file.
- What cannot be written is OutputUnwritable, one line with the path and the reason, also where the disk is
  full in the middle of a run.
- A file that the user names may be a link, a pipe or a device: it is written through, never replaced. Only a
  regular file is emptied before the work, so that no result of an earlier run stays.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from onceproof.engine.file_locks import hold_lock, release_lock

OUTCOMES: Final = "outcomes.jsonl"
_MOST_LINKS: Final = 40
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""An address that a path holds, such as s3://bucket, whose slashes have become one."""


class OutputUnwritable(Exception):
    """The folder or file for results cannot be written to; the message is one line."""


def unwritable(path: Path, error: OSError) -> OutputUnwritable:
    """Return the error for a file that cannot be written."""
    return OutputUnwritable(f"{path}: cannot be written: {error.strerror or error}")


def made_folder(folder: Path) -> Path:
    """Create a folder for results if it does not exist, and return it.

    Raises:
        OutputUnwritable: the folder cannot be created.
    """
    if _ADDRESS.match(str(folder)):
        raise OutputUnwritable(
            f"{folder}: an address cannot be a folder of results: give --out a folder; a campaign writes to"
            " an address with --store"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputUnwritable(f"{folder}: cannot be written to: {error.strerror or error}") from None
    return folder


def emptied_folder(folder: Path) -> Path:
    """Return a folder without what was left in it; raises OutputUnwritable."""
    try:
        shutil.rmtree(folder, ignore_errors=not folder.exists())
    except OSError as error:
        raise OutputUnwritable(f"{folder}: cannot be emptied: {error.strerror or error}") from None
    return made_folder(folder)


@contextmanager
def claimed_folder(folder: Path) -> Iterator[Path]:
    """Create a folder for results and keep other commands from writing into it meanwhile.

    Raises:
        OutputUnwritable: the folder cannot be created, or another command writes into it.
    """
    descriptor = _claim(made_folder(folder))
    try:
        yield folder
    finally:
        if descriptor is not None:
            release_lock(descriptor)


def _claim(folder: Path) -> int | None:
    """Lock a folder; None on a file system without locks for folders, where two runs are not kept apart."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        hold_lock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise OutputUnwritable(
            f"{folder}: another run writes its results there: wait until it has ended, or give --out another"
            " folder"
        ) from None
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


class OutcomeFile:
    """The file outcomes.jsonl of a run. It is not buffered: what was written is there, whatever happens."""

    def __init__(self, path: Path) -> None:
        """Open the file, without what was in it. Raises OSError."""
        self.path = path
        # The descriptor of a pipe or a device takes no O_TRUNC.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def write(self, lines: Iterable[bytes]) -> None:
        """Write lines. Raises OutputUnwritable; a part of them may be there then."""
        left = memoryview(b"".join(lines))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise unwritable(self.path, error) from None

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@contextmanager
def open_output(folder: Path | None) -> Iterator[OutcomeFile | None]:
    """Open outcomes.jsonl in a folder, which is created if necessary; None if no folder is given."""
    if folder is None:
        yield None
        return
    made_folder(folder)
    try:
        lines = OutcomeFile(folder / OUTCOMES)
    except OSError as error:
        raise OutputUnwritable(f"{folder}: cannot be written to: {error.strerror or error}") from None
    try:
        yield lines
    finally:
        lines.close()


def prepare_file(path: Path | None) -> None:
    """Make the folder of a file that the user names, and empty what an earlier run has left in the file.

    A command that ends before its report must not leave the results of another one. Commands call this before
    any work is done. A pipe or a device is left alone: opening it would end what its reader reads.

    Raises:
        OutputUnwritable: the file cannot be written.
    """
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(0, "Is a directory")
        if not _is_regular(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(0, "Permission denied")
        elif _own_descriptor(path) is None:
            # Opened for writing to see whether it can be; a link keeps its target.
            path.open("wb").close()
            if not path.is_symlink():
                path.unlink()
    except OSError as error:
        raise unwritable(path, error) from None


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file of a folder of results whole: a reader, after a crash too, finds one version of it.

    Raises:
        OutputUnwritable: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.unlink(missing_ok=True)
        # Exclusively, so that a link in a stranger's folder leads nowhere.
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise unwritable(path, error) from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file that the user names, through links, pipes and devices. Raises OutputUnwritable."""
    descriptor = _own_descriptor(path)
    try:
        if descriptor is None:
            path.write_bytes(content)
            return
        # Opened by its name, a redirected output would have two ends, each of which overwrites the other's.
        sys.stdout.flush()
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(path, error) from None


def _is_regular(path: Path) -> bool:
    """Return whether a path is a regular file, also behind links, or may become one."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def _own_descriptor(path: Path) -> int | None:
    """Return the open descriptor of this process that a path such as /dev/stdout names; None for a file."""
    absolute = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        # The folder /dev/fd is a link as well.
        folder, name = os.path.realpath(os.path.dirname(absolute)), os.path.basename(absolute)
        if folder == f"/proc/{os.getpid()}/fd" and name.isdecimal():
            return int(name)
        if not os.path.islink(absolute):
            return None
        absolute = os.path.join(folder, os.readlink(absolute))
    return None
