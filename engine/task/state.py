"""Where a task is in its life."""

from __future__ import annotations

from enum import Enum
from typing import Final


class TaskState(Enum):
    """Where a task is in its life."""

    CREATED = "created"
    RUNNING = "running"
    ENDED_DATA = "ended data"
    """All input is processed; barriers are still answered."""
    STOPPED = "stopped"
    """It has taken the savepoint with which the job ends, and reads no more until it is complete."""
    FINISHED = "finished"
    CANCELED = "canceled"


CREATED: Final = TaskState.CREATED
RUNNING: Final = TaskState.RUNNING
ENDED_DATA: Final = TaskState.ENDED_DATA
STOPPED: Final = TaskState.STOPPED
FINISHED: Final = TaskState.FINISHED
ALIVE: Final = (RUNNING, ENDED_DATA, STOPPED)
"""Names of their own: reading a member off its enumeration costs more than a function call."""
