"""The simulated checkpoint storage, which survives the death of every simulated process.

The world schedules each write as a step of its own, in which a fault may change it. Reads and deletions
happen at once, in the step of the caller.
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
        """Return the content of a file. Raises FileMissing if there is none."""
        try:
            return self.files[path]
        except KeyError:
            raise FileMissing(f"{path} is not there") from None

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a file, atomically."""
        self.files[path] = data

    def publish(self, path: str, data: bytes) -> None:
        """Create or replace a file, atomically, like ``write``."""
        self.files[path] = data

    def adopt(self, path: str, source: str, earlier: str | None) -> None:
        """Store the local file ``source``; take the content from ``earlier`` if it is stored there."""
        known = None if earlier is None else self.files.get(earlier)
        self.files[path] = Path(source).read_bytes() if known is None else known

    def tear(self, path: str, data: bytes) -> None:
        """Store the first half of a file, as a crash in the middle of a write does."""
        self.files[path] = data[: len(data) // 2]

    def list(self, prefix: str) -> list[str]:
        """Return all paths that begin with ``prefix``, sorted."""
        if not prefix:
            return sorted(self.files)
        length = len(prefix)
        return sorted([path for path in self.files if path[:length] == prefix])

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        self.files.pop(path, None)

    def exists(self, path: str) -> bool:
        return path in self.files

    def create_exclusive(self, path: str) -> bool:
        """Create an empty file. Return False if it exists already."""
        if path in self.files:
            return False
        self.files[path] = b""
        return True
