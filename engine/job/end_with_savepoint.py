"""A user's request to end the job with a savepoint: to stop it, or to cancel it after the savepoint.

Between the request and the savepoint's outcome the job runs on; the outcome decides how it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.checkpoint.events import RequestResolved, TriggerRequested

JOB_IS_ENDING: Final = "the job is ending"
JOB_IS_NOT_RUNNING: Final = "the job is not running"
NO_SAVEPOINT_IN_BATCH: Final = "a job in BATCH mode takes none: cancel it, and start it again"
JOB_HAS_FINISHED: Final = "the job has finished by itself"


class EndWithSavepoint(Struct):
    """One request to end the job with the savepoint that is asked for under ``number``."""

    number: int
    request: TriggerRequested
    """The request to the coordinator; repeated when a task has finished meanwhile."""
    stops: bool
    """The job commits what the savepoint lists, and finishes; otherwise it is cancelled."""
    is_complete: bool = False
    """Whether the savepoint is complete."""
    only_commits: bool = False
    """The attempt that took the savepoint has failed: one that is restored from it ends when it runs."""

    def outcome_in(self, effects: Iterable[Any]) -> RequestResolved | None:
        """Return the outcome of the savepoint if it is among these effects."""
        for effect in effects:
            if type(effect) is RequestResolved and effect.number == self.number:
                return effect
        return None
