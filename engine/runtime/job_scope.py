"""The scope of a job: what tells its output apart from that of jobs over other checkpoint folders.

The job's folder keeps a random token in the name of an empty file, ``owner-<token>``. It is never deleted, so
every process of the job finds it. If two processes make one at the same moment, the first by name counts; the
other process is superseded anyway.
"""

from __future__ import annotations

import re
from secrets import token_hex
from typing import Final, Protocol

MARKER: Final = "owner-"
_MARKER: Final = re.compile(re.escape(MARKER) + "[0-9a-f]{32}")
_TOKEN_BYTES: Final = 16


class ScopeStorage(Protocol):
    """The part of a job's storage that the scope needs."""

    @property
    def root(self) -> str:
        """The place of the job's folder; "" in memory."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Return the sorted paths that begin with a prefix."""
        ...

    def create_exclusive(self, path: str) -> bool:
        """Create an empty file durably; return False if it exists."""
        ...


def scope_of(storage: ScopeStorage) -> str:
    """Return the scope of the job whose storage this is; make its token if there is none yet."""
    markers = _markers(storage)
    if not markers:
        storage.create_exclusive(f"{MARKER}{token_hex(_TOKEN_BYTES)}")
        markers = _markers(storage)
    return f"{markers[0]}\0{storage.root}"


def _markers(storage: ScopeStorage) -> list[str]:
    return sorted(filter(_MARKER.fullmatch, storage.list(MARKER)))
