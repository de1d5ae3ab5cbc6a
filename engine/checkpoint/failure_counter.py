"""When failed checkpoints fail the job (Flink: CheckpointFailureManager).

Rules:

- Only failures of a task or of the storage and timeouts count. A checkpoint that another checkpoint, a
  failover or the end of a task has ended does not.
- A checkpoint counts once, and not if a younger one has completed meanwhile. A completion forgets all.
- A savepoint belongs to its user: it counts only where a task declined it, for then checkpoints would be
  declined as well. A synchronous one that is declined fails the job at once, since the job waits for it.
- When the job has failed of it, counting begins anew.
"""

from __future__ import annotations

from typing import Final

from onceproof.engine.messages import (
    CHECKPOINT,
    DECLINED_IN_BATCH,
    DECLINED_INPUT_END_OF_STREAM,
    DECLINED_ON_CANCELLATION_BARRIER,
    DECLINED_SUBSUMED,
    SYNC_SAVEPOINT,
    Kind,
)

EXPIRED: Final = "CHECKPOINT_EXPIRED"
FAILOVER: Final = "JOB_FAILOVER_REGION"
SUBSUMED: Final = "CHECKPOINT_SUBSUMED"
SUSPENDED: Final = "CHECKPOINT_COORDINATOR_SUSPEND"
SHUT_DOWN: Final = "CHECKPOINT_COORDINATOR_SHUTDOWN"
SCHEDULER_STOPPED: Final = "PERIODIC_SCHEDULER_SHUTDOWN"
TOO_MANY_REQUESTS: Final = "TOO_MANY_CHECKPOINT_REQUESTS"
WITHIN_MIN_PAUSE: Final = "MINIMUM_TIME_BETWEEN_CHECKPOINTS"
TASKS_NOT_RUNNING: Final = "NOT_ALL_REQUIRED_TASKS_RUNNING"

UNCOUNTED: Final = frozenset(
    (
        DECLINED_IN_BATCH,
        DECLINED_INPUT_END_OF_STREAM,
        DECLINED_ON_CANCELLATION_BARRIER,
        DECLINED_SUBSUMED,
        FAILOVER,
        SCHEDULER_STOPPED,
        SHUT_DOWN,
        SUBSUMED,
        SUSPENDED,
        TASKS_NOT_RUNNING,
        "CHECKPOINT_DECLINED_TASK_CLOSING",
        TOO_MANY_REQUESTS,
        WITHIN_MIN_PAUSE,
        "BLOCKING_OUTPUT_EXIST",
        "CHANNEL_STATE_SHARED_STREAM_EXCEPTION",
        "CHECKPOINT_DECLINED_TASK_NOT_READY",
        "TASK_CHECKPOINT_FAILURE",
        "TASK_FAILURE",
        "TRIGGER_CHECKPOINT_FAILURE",
        "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE",
    )
)
"""Flink's names of what is no failure of the job. Any other reason counts, such as what a storage said."""


class FailureCounter:
    """Counts checkpoints that failed since the last one that completed."""

    __slots__ = ("_counted", "_failures", "_last_completed_id", "_tolerable")

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._failures = 0
        self._counted: set[int] = set()
        self._last_completed_id = 0

    def failed(self, checkpoint_id: int | None, reason: str, kind: Kind, *, by_task: bool) -> bool:
        """Count a failure; return whether the job must fail because of it.

        ``checkpoint_id`` is None where it had none yet. ``by_task``: a task declined it.
        """
        if kind != CHECKPOINT:
            if not by_task:
                return False
            if kind == SYNC_SAVEPOINT:
                return True
        if reason in UNCOUNTED:
            return False
        if checkpoint_id is not None:
            if checkpoint_id <= self._last_completed_id or checkpoint_id in self._counted:
                return False
            self._counted.add(checkpoint_id)
        self._failures += 1
        if self._failures <= self._tolerable:
            return False
        self._forget()
        return True

    def completed(self, checkpoint_id: int) -> None:
        """Forget the failures before a completed checkpoint."""
        if checkpoint_id > self._last_completed_id:
            self._last_completed_id = checkpoint_id
            if self._failures:
                self._forget()

    def _forget(self) -> None:
        self._failures = 0
        self._counted.clear()
