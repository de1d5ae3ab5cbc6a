"""Deleting what nobody needs any more.

No deletion is worth a job: nobody refers to what cannot be deleted now, and the end of the job deletes it.
The marker of a process that was taken for dead is another matter (recovery.py): while it stands, that process
may publish.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

_logger = logging.getLogger(__name__)


class DeletingStorage(Protocol):
    """The part of a storage that deletions need."""

    def delete(self, path: str) -> None:
        """Delete a file; one that is not there is fine."""
        ...


@contextmanager
def deletion_may_fail() -> Iterator[None]:
    """Leave what cannot be deleted now, with a warning."""
    try:
        yield
    except OSError as error:
        _logger.warning("%s; the end of the job deletes it", error)


def delete_if_possible(storage: DeletingStorage, paths: Iterable[str]) -> None:
    """Delete files, in order, up to the first that cannot be deleted now."""
    with deletion_may_fail():
        for path in paths:
            storage.delete(path)
