"""A file to which others append, read on from where the last look ended."""

from __future__ import annotations

from pathlib import Path


class GrowingFile:
    """Reads whole lines; one without an end is kept until its end is there.

    Args:
        path: of the file, which exists when it is read.
        start: how many bytes of it are left out.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path = path
        self._read = start
        self._rest = b""

    def new_lines(self) -> list[bytes]:
        """Return the lines since the last call, without their ends. Raises OSError."""
        with self._path.open("rb") as stream:
            stream.seek(self._read)
            block = stream.read()
        self._read += len(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        return lines

    def new_texts(self) -> list[str]:
        """Return the same as text, whatever bytes it holds."""
        return [line.decode(errors="replace") for line in self.new_lines()]
