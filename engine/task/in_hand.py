"""What operators and functions may ask while their task handles an event: the time, the probe, an alarm.

They hold this and never the task, so that a task is gone as soon as its driver lets go of it. The simulation
makes some dozens of tasks in each of its runs: as cycles they would be most of the garbage collector's work.
"""

from __future__ import annotations

from onceproof.engine.protocol_points import Probe


class EventInHand:
    """The time of the event that a task handles, and the task's way to the probe."""

    __slots__ = ("_probe", "_task_name", "due_ms", "now")

    def __init__(self, task_name: str, probe: Probe) -> None:
        self.now = 0
        self.due_ms: int | None = None
        """The earliest time at which an operator wants to be called that the driver was not told."""
        self._task_name = task_name
        self._probe = probe

    def clock(self) -> int:
        """Processing time in milliseconds."""
        return self.now

    def wake_at(self, due_ms: int) -> None:
        """Remember that an operator wants to be called then."""
        if self.due_ms is None or due_ms < self.due_ms:
            self.due_ms = due_ms

    def pass_point(self, point: str, checkpoint_id: int) -> None:
        """Tell whoever watches that the task passes a protocol point; it may raise."""
        probe = self._probe
        probe(point, self._task_name, checkpoint_id)
