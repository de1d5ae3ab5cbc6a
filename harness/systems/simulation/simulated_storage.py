"""Storage that outlives every process of the simulated world.

A write is one step of the schedule; what a fault makes of it is decided there. Reads and deletions happen at
once, inside the step that asks for them.
"""

from __future__ import annotations

from pathlib import Path


class FileMissing(Exception):
    """A file that should be there is not."""


class SimulatedStorage:
    """Files by path, relative to the job's checkpoint directory."""

    __slots__ = ("files",)

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        """The content of a file; FileMissing where there is none."""
        try:
            return self.files[path]
        except KeyError:
            raise FileMissing(f"{path} is not there") from None

    def write(self, path: str, data: bytes) -> None:
        """Put a file in place, whole."""
        self.files[path] = data

    def publish(self, path: str, data: bytes) -> None:
        """Put a file in place, whole, as every write does here."""
        self.files[path] = data

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Put a file of the process's own disk in place; what was stored of it before is not read again."""
        known = None if earlier is None else self.files.get(earlier)
        self.files[path] = Path(source).read_bytes() if known is None else known

    def tear(self, path: str, data: bytes) -> None:
        """Put the first half of a file in place, as a crash in the middle of a write does."""
        self.files[path] = data[: len(data) // 2]

    def list(self, prefix: str) -> list[str]:
        """All paths that begin with ``prefix``, sorted."""
        if not prefix:
            return sorted(self.files)
        length = len(prefix)
        return sorted([path for path in self.files if path[:length] == prefix])

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        self.files.pop(path, None)

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self.files

    def create_exclusive(self, path: str) -> bool:
        """Create an empty file; False where it exists."""
        if path in self.files:
            return False
        self.files[path] = b""
        return True
