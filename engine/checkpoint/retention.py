"""Which checkpoints outlive their job, by how the job ended (Flink: CheckpointRetentionPolicy).

A job that has finished needs none: all its output is committed. One that was cancelled or has failed can be
taken up again from its checkpoints, and what its sinks had pre-committed can be committed only so; whether
that is wanted says the user. Without a setting those of a failed job are kept, which Flink would delete.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from onceproof.engine.configuration import DELETE_ON_CANCELLATION, NO_EXTERNALIZED, RETAIN_ON_CANCELLATION


class JobOutcome(Enum):
    """How a job ended for good."""

    FINISHED = "finished"
    CANCELED = "canceled"
    FAILED = "failed"
    SUSPENDED = "suspended"
    """Its process gave it up, so that another may take it over."""


_KEPT: Final = {
    None: (JobOutcome.FAILED, JobOutcome.SUSPENDED),
    NO_EXTERNALIZED: (),
    DELETE_ON_CANCELLATION: (JobOutcome.FAILED,),
    RETAIN_ON_CANCELLATION: (JobOutcome.CANCELED, JobOutcome.FAILED, JobOutcome.SUSPENDED),
}


def is_retained(retention: str | None, outcome: JobOutcome) -> bool:
    """Whether the checkpoints of a job stay; ``retention`` is the option as it was set, if it was."""
    return outcome in _KEPT[retention]
