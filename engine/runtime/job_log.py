"""What goes wrong with a job while it lives: each event is a log record, and is counted for the job's result.

The rules this module lives by:

- A failed checkpoint and a restart are warnings, the end of a failed job is an error. Each has its reason.
- What ends a checkpoint without a failure (a newer one, the end of a task or attempt) is for debugging.
- Of an event that repeats many times a second only the first few are logged, and then how many were left out.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from onceproof.engine.checkpoint.coordinator import TASK_FINISHED
from onceproof.engine.checkpoint.events import CheckpointAborted
from onceproof.engine.checkpoint.failure_counter import EXPIRED, UNCOUNTED
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import layout_of
from onceproof.engine.runtime.job_warnings import (
    MORE_TIME,
    PAGE,
    SHORTER_EPOCHS,
    DelayOf,
    slowest_of,
    unseen,
)

_logger = logging.getLogger(__name__)

PERIOD_MS: Final = 1000
LOGGED_IN_A_PERIOD: Final = 5


class Repeated:
    """How often an event was counted since ``since_ms``."""

    __slots__ = ("count", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.count = 0


class JobLog:
    """The log and the counts of one job in this process."""

    def __init__(self, job_name: str, timeout_ms: int) -> None:
        self._job_name = job_name
        self._timeout_ms = timeout_ms
        self.failed_checkpoints = 0
        self.last_checkpoint_failure = ""
        self.restarts = 0
        self.last_restart_cause = ""
        self._repeated: dict[str, Repeated] = {}
        """By event, without what differs from one time to the next."""

    def checkpoint_aborted(self, checkpoint_id: int, reason: str, now: int) -> None:
        """A checkpoint will not complete; ``now`` is in milliseconds."""
        if reason in UNCOUNTED or reason == TASK_FINISHED:
            _logger.debug("job %r: checkpoint %d is aborted: %s", self._job_name, checkpoint_id, reason)
            return
        said = f"not complete within {self._timeout_ms} ms" if reason == EXPIRED else reason
        self.failed_checkpoints += 1
        self.last_checkpoint_failure = said
        self._warn(f"checkpoint failed: {said}", f"checkpoint {checkpoint_id} failed: {said}", now)

    def checkpoint_waited(
        self, graph: JobGraph, effect: CheckpointAborted, now: int, delay_of: DelayOf = unseen
    ) -> None:
        """Say which subtask an expired checkpoint waited for, and what can be done about it.

        ``delay_of`` returns where a subtask is with a checkpoint.
        """
        if not effect.missing:
            return
        slowest = slowest_of(effect.missing, layout_of(graph).upstreams)
        name = f"{graph.vertices[slowest.vertex].name}-{slowest.subtask}"
        delay = delay_of(slowest, effect.checkpoint_id)
        self._warn(
            f"checkpoint waited: {name}: {delay.stage.name}",
            f"checkpoint {effect.checkpoint_id} waited longest for {name}: {delay.describe()}; see {PAGE}",
            now,
        )

    def epoch_waited(self, effect: CheckpointAborted, now: int) -> None:
        """Say that an expired checkpoint waited for its epoch on Spark, at whose end all subtasks answer."""
        if not effect.missing:
            return
        self._warn(
            "epoch waited",
            f"checkpoint {effect.checkpoint_id} waited longest for its epoch, which had not ended: on Spark"
            f" all subtasks answer at its end: {SHORTER_EPOCHS}, {MORE_TIME}; see {PAGE}",
            now,
        )

    def stored_too_late(self, task: str, checkpoint_id: int) -> None:
        """A subtask has stored its part of a checkpoint whose time was up: the user can raise the timeout."""
        _logger.warning(
            "%s stored its part of checkpoint %d after its time-out of %d ms: it is thrown away",
            task,
            checkpoint_id,
            self._timeout_ms,
        )

    def restart_planned(
        self, attempt: str, cause: str, delay_ms: int, latest_id: int | None, now: int
    ) -> None:
        """The attempt has failed, and another one follows after ``delay_ms`` from the latest checkpoint."""
        self.restarts += 1
        self.last_restart_cause = cause
        begins = "from the beginning" if latest_id is None else f"from checkpoint {latest_id}"
        self._warn(
            f"attempt failed: {cause}",
            f"attempt {attempt} failed: {cause}: the next one follows in {delay_ms} ms {begins}",
            now,
        )

    def job_failed(self, cause: str) -> None:
        """The job has failed for good."""
        self.write(logging.ERROR, f"job {self._job_name!r} has failed: {cause}")

    def metrics(self, values: dict[str, Any]) -> dict[str, Any]:
        """Log the metrics that functions have counted, and return them."""
        for name, value in values.items():
            self.write(logging.INFO, f"job {self._job_name!r}: metric {name} is {value}")
        return values

    def write(self, level: int, message: str) -> None:
        """Write a record; a driver whose run is recorded in another way overrides this."""
        _logger.log(level, "%s", message)

    def _warn(self, event: str, message: str, now: int) -> None:
        repeated = self._repeated.get(event)
        left_out = 0
        if repeated is None or now - repeated.since_ms >= PERIOD_MS:
            if repeated is not None:
                left_out = max(0, repeated.count - LOGGED_IN_A_PERIOD)
            # Reasons can carry numbers of their own: those of past periods are not kept.
            self._repeated = {
                each: known
                for each, known in self._repeated.items()
                if now - known.since_ms < PERIOD_MS or known.count > LOGGED_IN_A_PERIOD
            }
            repeated = self._repeated[event] = Repeated(now)
        repeated.count += 1
        if repeated.count <= LOGGED_IN_A_PERIOD:
            again = f" ({left_out} more like it were left out)" if left_out else ""
            self.write(logging.WARNING, f"job {self._job_name!r}: {message}{again}")
