"""A value that several processes share: one file, read and replaced as a whole, under a lock.

The rules this module lives by:

- A process holds the lock from reading to replacing, so no change is lost. The lock is a separate file; the
  kernel releases it when its holder dies.
- What the class of the value needs for decoding is made with the object, in one thread. Two threads that
  decode a class of msgspec for the first time crash the interpreter: one sees what the other has half made.
- A new value replaces the file atomically, so a process that dies in the middle leaves the old value.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

Value = TypeVar("Value", bound=msgspec.Struct)


class LockedFile(Generic[Value]):
    """The file of one shared value. ``empty`` is its class; without a file the value is ``empty()``."""

    def __init__(self, path: str | Path, empty: type[Value]) -> None:
        self._path = str(path)
        self._empty = empty
        self._decoder = msgspec.json.Decoder(empty)

    def read(self) -> Value:
        """Return the value as it is now, without the lock."""
        try:
            return self._decoder.decode(Path(self._path).read_bytes())
        except FileNotFoundError:
            return self._empty()

    def replace(self, value: Value) -> None:
        """Replace the file. The caller must hold the lock, or be the only process."""
        new = Path(f"{self._path}.new")
        new.write_bytes(msgspec.json.encode(value))
        os.replace(new, self._path)

    @contextmanager
    def held(self) -> Iterator[Value]:
        """Lock the file and yield its value; write the value as the caller changed it, unless it raised."""
        descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            value = self.read()
            yield value
            self.replace(value)
        finally:
            os.close(descriptor)
