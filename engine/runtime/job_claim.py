"""Whether this process still has the job that it runs.

The rules this module lives by:

- Only the process that has the job may complete checkpoints, commit and delete. So the claim is checked
  before a checkpoint is published and again before its output is committed, before tasks are deployed and
  before files are deleted.
- It is lost where another process has claimed the job (recovery.py), and where the job's folder is no longer
  the one that was locked (storage.py): another process may begin in the folder that is now at its path.
- A run that has lost the job ends. No restart helps, and it must not go on without commits until its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from onceproof.engine.graph import JobGraph
from onceproof.engine.runtime.deletion import Superseded
from onceproof.engine.runtime.lease import JobLost
from onceproof.engine.runtime.recovery import RecoverableStorage, Recovered, is_claimed_by

CLAIM_LOOKS: Final = 3
"""How often a process looks whether it still has the job before the storage's error counts."""
TAKEN_OVER: Final = (
    "another process has taken job {!r} over, or its claim was deleted from the checkpoint folder"
)
FOLDER_GONE: Final = (
    "the checkpoint folder of job {!r} was deleted, moved or replaced while it ran, so nothing is committed"
    " any more: bring {}/{} back, and start the job again"
)


class JobClaim:
    """The claim of one process on a job."""

    def __init__(self, graph: JobGraph, storage: RecoverableStorage, recovered: Recovered) -> None:
        self._graph = graph
        self._storage = storage
        self._recovered = recovered

    @property
    def is_lost(self) -> bool:
        """Whether another process has claimed the job, whose files are its own then. Raises OSError."""
        for _ in range(CLAIM_LOOKS - 1):
            try:
                return not self._is_held()
            except OSError:
                continue
        return not self._is_held()

    def _is_held(self) -> bool:
        return is_claimed_by(self._storage, self._recovered.incarnation, self._recovered.token)

    def check(self) -> None:
        """Raise Superseded if the claim is lost."""
        self.check_folder()
        if self.is_lost:
            raise Superseded(TAKEN_OVER.format(self._graph.name))

    def check_folder(self) -> None:
        """Raise Superseded if the job's folder is no longer the one that this process holds."""
        if not self._storage.is_in_place:
            directory, job_id = self._graph.settings.directory, self._graph.job_id
            raise Superseded(FOLDER_GONE.format(self._graph.name, directory, job_id))

    @contextmanager
    def ends_the_run(self) -> Iterator[None]:
        """Raise JobLost where the body raises Superseded."""
        try:
            yield
        except Superseded as error:
            raise JobLost(f"job {self._graph.name!r} has ended in this process: {error}") from error
