"""Reading files that a stranger may have written: no more of them is read than they can hold."""

from __future__ import annotations

import errno
import os
from os import PathLike


def read_at_most(path: str | PathLike[str], most_bytes: int) -> bytes:
    """Return the content of a file of at most ``most_bytes``. Raises OSError, also for a larger file.

    At most one byte more is read, so neither an endless device nor a sparse file fills the memory.
    """
    with open(path, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", os.fspath(path))
    return data
