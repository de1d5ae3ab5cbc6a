"""A task with operators that are called at times: to fire timers, or to emit watermarks.

Rules:

- The driver owns the clock. The task asks it by StartTaskTimer for the earliest time that an operator wants,
  and gets TimerDue then. It asks again only for a time earlier than all that it has asked for.
- At TimerDue every operator is called, in the order of the chain, and asks anew for its next time.
- The times are those of the driver's clock, into which wishes in processing time are converted. If the wall
  clock is set back, TimerDue comes too early and the operators ask again; if it is set forward, the driver
  sends WallClockAdvanced.
- After the end of the data nothing fires, as in Flink: timers that are left stay in the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.task.events import StartTaskTimer, TaskEffect, TaskEvent, TimerDue
from onceproof.engine.task.task import NOTHING, RUNNING, Task, TaskSettings


class TimedTask(Task):
    """A task whose operators use time (Flink: ProcessingTimeService of a StreamTask)."""

    __slots__ = ("_requested",)

    def __init__(
        self,
        task_id: TaskId,
        vertex: JobVertex,
        settings: TaskSettings,
        queue_input: Sequence[int],
        operators: Sequence[Operator],
    ) -> None:
        super().__init__(task_id, vertex, settings, queue_input, operators)
        self._requested: list[int] = []
        """The times asked of the driver and not yet due, latest first."""

    def handle(self, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        """Handle the event, and ask the driver for the time that an operator has begun to wait for."""
        effects = super().handle(event, now)
        context = self._context
        due_ms = context.due_ms
        if due_ms is None:
            return effects
        context.due_ms = None
        requested = self._requested
        if self.state is not RUNNING or (requested and requested[-1] <= due_ms):
            return effects
        requested.append(due_ms)
        return [*effects, StartTaskTimer(due_ms)]

    def _timer_due(self, event: TimerDue) -> Sequence[TaskEffect]:
        self._requested.remove(event.due_ms)
        return self._time_passed()

    def _time_passed(self) -> Sequence[TaskEffect]:
        if self.state is not RUNNING:
            return NOTHING
        now = self._context.clock()
        first = len(self._chain) - len(self.operators)
        for place, operator in enumerate(self.operators, start=first):
            records = operator.process_time(now)
            if records:
                self._emit(records, place + 1)
        return NOTHING

    def validate(self) -> None:
        """Check the task, and that no time is asked for twice."""
        super().validate()
        requested = self._requested
        for later, earlier in pairwise(requested):
            assert later > earlier, f"{self.name} has asked for {earlier} though {later} comes first"
