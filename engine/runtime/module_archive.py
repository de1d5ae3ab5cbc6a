"""Packs a folder of Python modules on the driver, and unpacks it where a Spark worker runs.

The rules this module lives by:

- Executors have Python and the installed packages, and nothing of the user's. So the folder from which a
  user's program imports its modules travels with the job, as an archive in memory.
- What lies outside that folder never travels: no link is followed. Neither do hidden files and folders,
  virtual environments, and folders that no module can be imported from.
- Python files travel from wherever they can be imported, other files only from the folder itself and from
  packages, and only small ones: a module may read a list beside it, and input is no part of a program.
- A folder that is too large, such as a home folder with a program in it, does not travel at all. The error of
  a worker that misses a module then says so.
- Equal folders give equal archives, whenever and wherever they are packed.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

LARGEST_DATA: Final = 1 << 20
"""The size in bytes of the largest file that travels and is no Python file."""
LARGEST_ARCHIVE: Final = 32 << 20
"""The size in bytes of all files of the largest folder that travels."""
MOST_ENTRIES: Final = 10_000
"""The number of files and folders in the largest folder that travels."""

_UNPACKED: Final = "onceproof-modules-"
_SUFFIX: Final = ".py"


class FolderTooLarge(Exception):
    """A folder is too large to travel. The message is one line."""


@dataclass(frozen=True, slots=True)
class ModuleArchive:
    """The modules of a folder; without data where there are none to send."""

    folder: str = ""
    """The folder on the driver, for messages."""
    data: bytes = b""
    objection: str = ""
    """Why the folder does not travel."""

    def why_missing(self) -> str:
        """Return for an error message which modules a worker has."""
        if self.objection:
            return f"{self.objection}, so workers have none of its modules: give the program a smaller folder"
        if not self.data:
            return "the program is interactive or installed, so none of its modules travel with the job"
        return f"of the modules of the program, workers have those in {self.folder}"


NO_MODULES: Final = ModuleArchive()


def packed_modules(folder: Path) -> ModuleArchive:
    """Return the archive of a folder."""
    try:
        return ModuleArchive(str(folder), _zipped(folder))
    except FolderTooLarge as error:
        return ModuleArchive(str(folder), objection=str(error))


def modules_of_program() -> ModuleArchive:
    """Return the archive of the folder from which the program of this process imports its modules.

    There is none for an interactive interpreter, and for a program that was installed, such as pytest.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or not file.endswith(_SUFFIX):
        return NO_MODULES
    path = Path(file).absolute()
    # A module that was run by `python -m` imports from the folder in which Python was started.
    folder = path.parent if main.__spec__ is None else Path(sys.path[0]).absolute()
    is_installed = any(path.is_relative_to(each) for each in (sys.prefix, sys.base_prefix))
    return NO_MODULES if is_installed or not path.is_relative_to(folder) else packed_modules(folder)


def unpacked(archive: ModuleArchive, below: str | None = None) -> Path:
    """Unpack an archive, once for all workers of an executor, and return the folder.

    Args:
        below: where the folder is made: Spark's own folder, which ends with the executor; None: in the folder
            for temporary files, until this process ends.
    """
    parent = Path(below or _temporary_folder())
    folder = parent / f"{_UNPACKED}{hashlib.sha256(archive.data).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    new = Path(tempfile.mkdtemp(prefix=f".{_UNPACKED}", dir=parent))
    with zipfile.ZipFile(BytesIO(archive.data)) as file:
        file.extractall(new)
    try:
        new.rename(folder)
    except OSError:
        # Another worker of this executor was faster.
        shutil.rmtree(new, ignore_errors=True)
        if not folder.is_dir():
            raise
    return folder


def import_from(archive: ModuleArchive, below: str | None = None) -> None:
    """Let this process import the modules of an archive, and forget those of the archive before.

    A worker runs one job after another, and each may have a module of the same name.
    """
    folder = None if not archive.data else str(unpacked(archive, below))
    for other in [each for each in sys.path if Path(each).name.startswith(_UNPACKED) and each != folder]:
        sys.path.remove(other)
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(other + os.sep):
                del sys.modules[name]
    if folder is not None and folder not in sys.path:
        # Last: a file of a user's must not stand in for a module of ours or of Python's.
        sys.path.append(folder)
        importlib.invalidate_caches()


def _temporary_folder() -> str:
    folder = tempfile.mkdtemp(prefix=_UNPACKED)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _zipped(folder: Path) -> bytes:
    buffer = BytesIO()
    size = 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            try:
                content = path.read_bytes()
            except OSError:
                # A file that cannot be read, or is gone meanwhile, cannot be imported here either.
                continue
            size += len(content)
            if size > LARGEST_ARCHIVE:
                raise FolderTooLarge(f"{folder} holds more than {LARGEST_ARCHIVE >> 20} MB of Python files")
            # A time of its own would make another archive of the same files.
            archive.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), content)
    return buffer.getvalue()


def _files(top: Path) -> Iterator[Path]:
    """Yield the files of a folder that travel, in order. Raises FolderTooLarge."""
    seen = 0
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        seen += len(entries)
        if seen > MOST_ENTRIES:
            raise FolderTooLarge(f"{top} holds more than {MOST_ENTRIES:,} files and folders")
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names:
            continue
        takes_data = folder == top or "__init__.py" in names
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name.isidentifier() and entry.name != "__pycache__":
                    waiting.append(Path(entry.path))
            elif entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                is_small = entry.stat(follow_symlinks=False).st_size <= LARGEST_DATA
                if entry.name.endswith(_SUFFIX) or (takes_data and is_small):
                    yield Path(entry.path)
