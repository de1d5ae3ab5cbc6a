"""Deletes files of checkpoints that are not needed any more.

A failed delete does not fail the job: no checkpoint refers to the file, and the end of the job deletes it, or
the next start of a job that has ended.
The marker of a superseded process is an exception (recovery.py): while it exists, that process may publish.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

NEXT_START: Final = "the next start of the job"

_logger = logging.getLogger(__name__)


class Superseded(OSError):
    """Another process has claimed the job since this one did. The message is one line."""


class DeletingStorage(Protocol):
    """The part of a storage that deletions need."""

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it is not there."""
        ...


@contextmanager
def deletion_may_fail(deleted_by: str = "the end of the job") -> Iterator[None]:
    """Log a failed delete as a warning, with what will delete the file, instead of raising it.

    Of a job that another process has now nothing is deleted, and there is nothing to say: the files are that
    process's, and this one learns that it has lost the job when it next writes.
    """
    try:
        yield
    except Superseded:
        pass
    except OSError as error:
        _logger.warning("%s; %s deletes it", error, deleted_by)


def delete_if_possible(storage: DeletingStorage, paths: Iterable[str]) -> None:
    """Delete files in order; the first failure is logged and ends the call."""
    with deletion_may_fail():
        for path in paths:
            storage.delete(path)
