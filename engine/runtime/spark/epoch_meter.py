"""Measures one subtask in one epoch of a monitored job, in the worker.

The rules this module lives by:

- It reads clocks of its own and decides nothing: the time that the task sees is that of the epoch.
- All records of an epoch are there before a subtask begins, so there is no alignment, and nothing makes a
  task wait for room.
- What Spark carries between workers is not counted in bytes: only Spark knows them, and shows them itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec.structs import replace

from onceproof.engine.messages import AcknowledgeCheckpoint, CheckpointMeasures
from onceproof.engine.runtime.monitor.job_view import SubtaskReading
from onceproof.engine.runtime.monitor.task_readings import read_tasks
from onceproof.engine.task.task import Task
from onceproof.engine.task.task_counters import NANOS_OF_MS


class EpochMeter:
    """What one subtask has done in one epoch; ``triggered_ms`` is when its checkpoint was triggered."""

    def __init__(self, triggered_ms: int) -> None:
        self._triggered_ms = triggered_ms
        self._worked_ns = 0
        self._start_delay_ms = 0
        self._sync_ns = 0
        self._async_ns = 0
        self._reading: SubtaskReading | None = None

    def timed(self, steps: Iterator[None]) -> Iterator[None]:
        """Yield each step, and count the time that the steps take themselves."""
        while True:
            began_ns = time.perf_counter_ns()
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self._worked_ns += time.perf_counter_ns() - began_ns
            yield

    def snapshot_taken(self, began_ns: int) -> None:
        """Note that the task, whose handling of the barrier began then, has taken its snapshot."""
        self._sync_ns = time.perf_counter_ns() - began_ns
        now_ms = time.time_ns() // NANOS_OF_MS
        self._start_delay_ms = max(0, now_ms - self._sync_ns // NANOS_OF_MS - self._triggered_ms)

    def snapshot_stored(self, began_ns: int) -> None:
        """Note that the snapshot, whose storing began then, is durable."""
        self._async_ns = time.perf_counter_ns() - began_ns

    def measured(self, message: AcknowledgeCheckpoint) -> AcknowledgeCheckpoint:
        """Return an acknowledgement with the measures of its checkpoint."""
        sync_ms, async_ms = self._sync_ns // NANOS_OF_MS, self._async_ns // NANOS_OF_MS
        return replace(message, measures=CheckpointMeasures(self._start_delay_ms, 0, sync_ms, async_ms))

    def read(self, task: Task) -> None:
        """Read the counters of the task at the end of the epoch, before it is cancelled."""
        [self._reading] = read_tasks([task], time.time_ns() // NANOS_OF_MS)

    def reading(self) -> SubtaskReading | None:
        """Return what the task has counted in the epoch; None: it was never made."""
        worked_ms = self._worked_ns // NANOS_OF_MS
        return self._reading and replace(self._reading, busy_ms=worked_ms, turn_ms=worked_ms, idle_ms=0)
