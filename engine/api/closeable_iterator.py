"""The rows of ``execute_and_collect``, which the program reads while the job runs.

The rules this module lives by:

- The job runs in a thread of its own and puts rows into a queue (connectors/collect.py). So the input need
  not end, and the first row is there before the last one is read.
- Only the iterator reads the rows: when it is closed, or nothing refers to it, the job is cancelled.
- The error that fails the job is raised behind the last row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from onceproof.engine.api.job_client import JobClient
from onceproof.engine.connectors.collect import CollectedRows


class CloseableIterator:
    """The rows of ``execute_and_collect``, also a context manager (PyFlink: CloseableIterator)."""

    def __init__(self, rows: CollectedRows, client: JobClient) -> None:
        self._rows = rows
        self._client = client
        self._next: Iterator[Any] = iter(())
        self._has_ended = False
        client.get_job_execution_result().add_done_callback(lambda _: rows.arrived.put(None))

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        """Return the next row; wait for it. Raises the error that failed the job."""
        for row in self._next:
            return row
        while not self._has_ended:
            try:
                arrived = self._rows.arrived.get()
            except BaseException:
                # Ctrl-C: nothing else will read the rows.
                self.close()
                raise
            if arrived is None:
                self._has_ended = True
                self._client.get_job_execution_result().result()
                break
            self._next = iter(arrived)
            for row in self._next:
                return row
        raise StopIteration

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._has_ended:
            self._client.cancel()

    def close(self) -> None:
        """Cancel the job, wait for its end, and drop the rows that were not read."""
        if not self._has_ended:
            self._has_ended = True
            self._client.cancel()
            # How the job has ended no longer matters to a program that needs no more rows.
            with suppress(Exception):
                self._client.get_job_execution_result().result()
        self._next = iter(())
