"""The context of the event that a task handles: the time, the probe, the wish to be called later.

Operators and functions hold this and never the task, so that a task is freed as soon as its driver drops it.
The simulation makes some dozens of tasks in each of its runs: as reference cycles they would be most of the
garbage collector's work.
"""

from __future__ import annotations

from onceproof.engine.protocol_points import ABORTED, COMMITTED, COMMITTING, Probe
from onceproof.engine.task.task_counters import TaskCounters
from onceproof.engine.wall_clock import WallClock


class EventContext:
    """What operators and functions may ask of their task while it handles an event."""

    __slots__ = ("_probe", "_task_name", "_wall_clock", "counters", "due_ms", "now")

    def __init__(self, task_name: str, probe: Probe, wall_clock: WallClock) -> None:
        self.now = 0
        """The driver's time of the event, in milliseconds; the task sets it."""
        self.due_ms: int | None = None
        """The earliest time that operators asked for and the task has not yet asked of the driver."""
        self._task_name = task_name
        self._probe = probe
        self._wall_clock = wall_clock
        self.counters = TaskCounters()

    def clock(self) -> int:
        """Return the processing time in milliseconds: that of the wall clock, as user code sees it."""
        wall_clock = self._wall_clock
        read = wall_clock.steady_ms
        return (self.now if read is None else read()) + wall_clock.ahead_ms

    def live_steady_ms(self) -> int:
        """Return the driver's clock, which goes on within an event; in the simulation it stands still."""
        read = self._wall_clock.steady_ms
        return self.now if read is None else read()

    def steady_clock(self) -> int:
        """Return the driver's time of the event in milliseconds, by which intervals are measured."""
        return self.now

    def wake_at(self, due_ms: int) -> None:
        """Ask to be called when processing time has reached ``due_ms``."""
        self.wake_at_steady(due_ms - self._wall_clock.ahead_ms)

    def wake_at_steady(self, due_ms: int) -> None:
        """Ask to be called when the driver's clock has reached ``due_ms``; the earliest wish counts."""
        if self.due_ms is None or due_ms < self.due_ms:
            self.due_ms = due_ms

    def pass_point(self, point: str, checkpoint_id: int) -> None:
        """Report a protocol point to the observer. The observer may raise to end the task here."""
        # Sinks report each commit, so they are counted here once for all of them.
        if point == COMMITTING:
            self.counters.commit_began_ms = self.live_steady_ms()
        elif point == COMMITTED:
            self.counters.committed(self.live_steady_ms())
        elif point == ABORTED:
            self.counters.aborted_transactions += 1
        probe = self._probe
        probe(point, self._task_name, checkpoint_id)
