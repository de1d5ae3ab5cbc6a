"""The closed list of protocol points: the places where a fault can strike.

Fault injection, coverage and failpoints share this list, so that a fault means the same in the simulation, in
a local process and on Spark. Machines call their probe at each point. The probe may raise, and the caller
then fails there: so a task dies in the middle of a commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

TRIGGERED: Final = "triggered"
BARRIER_RECEIVED: Final = "barrier_received"
ALIGNED: Final = "aligned"
PRE_COMMITTED: Final = "pre_committed"
SNAPSHOTTED: Final = "snapshotted"
UPLOADED: Final = "uploaded"
ACKNOWLEDGED: Final = "acknowledged"
METADATA_WRITTEN: Final = "metadata_written"
COMPLETED: Final = "completed"
NOTIFIED: Final = "notified"
COMMITTING: Final = "committing"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
RESTORING: Final = "restoring"
RESTORED: Final = "restored"
ELEMENT: Final = "element"
END_OF_DATA: Final = "end_of_data"

POINTS: Final = (
    TRIGGERED,
    BARRIER_RECEIVED,
    ALIGNED,
    PRE_COMMITTED,
    SNAPSHOTTED,
    UPLOADED,
    ACKNOWLEDGED,
    METADATA_WRITTEN,
    COMPLETED,
    NOTIFIED,
    COMMITTING,
    COMMITTED,
    ABORTED,
    RESTORING,
    RESTORED,
    ELEMENT,
    END_OF_DATA,
)

COORDINATOR: Final = "coordinator"
"""The task name that the job master gives to its probe."""

Probe: TypeAlias = Callable[[str, str, int], None]
"""Called with (point, task name, checkpoint id or 0). The probe may raise to make the caller fail there."""


def no_probe(point: str, task: str, checkpoint_id: int) -> None:
    """Do nothing: the probe of a job that runs without fault injection."""
