"""Whether this process has opened a database.

RocksDB has threads of its own, which write in the background for all databases of a process. They do not
survive a fork: a database that the child opens would wait for them for ever.
"""

from __future__ import annotations

import os
from typing import Final

_opened_in: Final[set[int]] = set()


def note_opened() -> None:
    """Note that this process opens a database."""
    _opened_in.add(os.getpid())


def has_opened() -> bool:
    """Return whether this process, or one that it is a fork of, has opened a database."""
    return bool(_opened_in)
