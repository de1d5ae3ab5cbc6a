"""What a run of a real system leaves for its reader: times, what was printed and given, files.

Rules:

- Nothing of it is judged, and nothing of it is in the history that checkers read.
- Files are those of the folder of the trial, cut in the middle where they are long. Links, pipes and devices
  are left out: a program could make the harness read what is not its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceproof.harness.model.scenario import InputRecord

MOST_FILES: Final = 200
MOST_BYTES: Final = 500_000
"""Of a file: its beginning and its end."""
MOST_BYTES_OF_ALL: Final = 20_000_000
MOST_LINES: Final = 5_000
"""That are shown with their times; the files of the programs have all."""


@dataclass(slots=True)
class RunRecord:
    """The record of one run; times are seconds since the epoch."""

    times: list[float] = field(default_factory=list)
    """By step, from 1."""
    printed: list[tuple[float, str, str]] = field(default_factory=list)
    """When a line was seen, of what, and the line."""
    given: list[tuple[float, str, InputRecord]] = field(default_factory=list)
    """When a record was given, its split, and the record."""
    files: dict[str, bytes] = field(default_factory=dict)
    """By path below the folder of the trial."""
    folder: str = ""
    """That folder, which is gone."""

    @classmethod
    def of(cls, folder: Path) -> RunRecord:
        """Return the record of a run of which no more is known than the files of its folder."""
        record = cls()
        record.add_files(folder)
        return record

    def add_line(self, at: float, of: str, line: str) -> None:
        """Add a line that was printed."""
        if len(self.printed) < MOST_LINES:
            self.printed.append((at, of, line))

    def add_files(self, folder: Path) -> None:
        """Read the files of the folder of a trial."""
        self.folder = str(folder)
        for path in _regular_files(folder):
            if len(self.files) == MOST_FILES or sum(map(len, self.files.values())) > MOST_BYTES_OF_ALL:
                break
            self.files[path.relative_to(folder).as_posix()] = _content(path)


def _regular_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            try:
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path
            except OSError:
                continue


def _content(path: Path) -> bytes:
    """Return what a file holds, without its middle if it is long; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= MOST_BYTES:
                return file.read(MOST_BYTES)
            head = file.read(MOST_BYTES // 2)
            file.seek(size - MOST_BYTES // 2)
            left = f"\n... {size - MOST_BYTES:,} bytes are left out ...\n".encode()
            return head + left + file.read(MOST_BYTES // 2)
    except OSError:
        return b""
