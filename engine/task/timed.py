"""A task with an operator that wants to be called at a time: to fire timers, or to give watermarks.

The rules it lives by:

- Time is the driver's: the task asks for the earliest moment that one of its operators wants, by an effect,
  and is handed an event then. It asks again only for what is earlier than all that it has asked for.
- At such a moment every operator is called, in the order of the chain, and says anew what it wants next.
- When its data are over nothing fires any more, as in Flink: timers that are left stay in the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.task.events import StartTaskTimer, TaskEffect, TaskEvent, TimerDue
from onceproof.engine.task.settings import TaskSettings
from onceproof.engine.task.state import RUNNING
from onceproof.engine.task.task import NOTHING, Task


class TimedTask(Task):
    """A task whose operators are called at times of their own."""

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
        """What the driver has been asked for, latest first."""

    def handle(self, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        """As every task; and ask for the time that an operator has begun to wait for."""
        effects = super().handle(event, now)
        in_hand = self._event
        due_ms = in_hand.due_ms
        if due_ms is None:
            return effects
        in_hand.due_ms = None
        requested = self._requested
        if self.state is not RUNNING or (requested and requested[-1] <= due_ms):
            return effects
        requested.append(due_ms)
        return [*effects, StartTaskTimer(due_ms)]

    def _timer_due(self, event: TimerDue) -> Sequence[TaskEffect]:
        self._requested.remove(event.due_ms)
        if self.state is not RUNNING:
            return NOTHING
        now = self._event.now
        first = len(self._chain) - len(self.operators)
        for place, operator in enumerate(self.operators, start=first):
            records = operator.process_time(now)
            if records:
                self._emit(records, place + 1)
        return NOTHING

    def validate(self) -> None:
        """As every task; and no time is asked for twice."""
        super().validate()
        requested = self._requested
        for later, earlier in pairwise(requested):
            assert later > earlier, f"{self.name} has asked for {earlier} though {later} comes first"
