"""The end of a job that somebody wants: with a savepoint, and then by stopping or by being cancelled.

Between the request and the savepoint's outcome the job goes on; what it will be is decided by the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.checkpoint.events import RequestResolved, TriggerRequested

JOB_IS_ENDING: Final = "the job is ending"
JOB_IS_NOT_RUNNING: Final = "the job is not running"
JOB_HAS_FINISHED: Final = "the job has finished by itself"


class EndWithSavepoint(Struct):
    """One request to end the job with the savepoint that is asked for under ``number``."""

    number: int
    request: TriggerRequested
    """What the coordinator is asked for, and once more where a task has finished meanwhile."""
    stops: bool
    """The job commits what the savepoint lists, and finishes; otherwise it is cancelled."""
    is_complete: bool = False
    """The savepoint is."""
    only_commits: bool = False
    """The attempt that took the savepoint has failed: one that is restored from it ends when it runs."""

    def outcome_in(self, effects: Iterable[Any]) -> RequestResolved | None:
        """What became of the savepoint, if these effects tell."""
        for effect in effects:
            if type(effect) is RequestResolved and effect.number == self.number:
                return effect
        return None
