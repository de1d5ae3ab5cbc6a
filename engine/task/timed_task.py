"""A task with operators that are called at times: to fire timers, or to emit watermarks.

Rules:

- The driver owns the clock. The task asks it by StartTaskTimer for the earliest time that an operator wants,
  and gets TimerDue then. It asks again only for a time earlier than all that it has asked for.
- At TimerDue every operator is called, in the order of the chain, and asks anew for its next time.
- The times are those of the driver's clock, into which wishes in processing time are converted. If the wall
  clock is set back, TimerDue comes too early and the operators ask again; if it is set forward, the driver
  sends WallClockAdvanced.
- The head of the chain may hold records back, while its requests fill its capacity, and let the end of the
  data wait for their answers. Then the task takes only barriers of checkpoints that the job outlives: a
  savepoint that drains the job comes behind the end, and must find nothing in flight.
- Whatever an operator waits for, ``next_due_ms`` names the time. The task is to be woken by then, and what is
  due when the operators are called is done: what would only be late is an error.
- After the end of the data nothing fires, as in Flink: timers that are left stay in the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.graph import JobVertex
from onceproof.engine.messages import SYNC_SAVEPOINT, TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.task.events import StartTaskTimer, TaskEffect, TaskEvent, TimerDue
from onceproof.engine.task.task import NOTHING, RUNNING, Task, TaskSettings


class TimedTask(Task):
    """A task whose operators use time (Flink: ProcessingTimeService of a StreamTask)."""

    __slots__ = ("_ends_when_idle", "_requested", "_timed", "_was_called")

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
        self._timed = [operator for operator in operators if operator.uses_time]
        self._was_called = False
        """Whether the operators were called at a time since the last ``validate``."""
        self._ends_when_idle = False
        """Whether the input has ended, and the head of the chain is busy."""

    @property
    def may_hold_input(self) -> bool:
        """Return whether ``takes`` must be asked before the task is given input."""
        return self.operators[0].may_hold_input

    def takes(self, channel: int) -> bool:
        """Return whether the task takes the next element of a channel now."""
        if self._ends_when_idle:
            element = self.queues[channel][0]
            return type(element) is CheckpointBarrier and element.kind != SYNC_SAVEPOINT
        return not self.operators[0].holds_input or type(self.queues[channel][0]) is not list

    def handle(self, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        """Handle the event, and ask the driver for the time that an operator has begun to wait for."""
        # By the name of its class: to look ``super()`` up for every event costs more than the call.
        effects = Task.handle(self, event, now)
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
        self._was_called = True
        now = self._context.clock()
        first = len(self._chain) - len(self.operators)
        for place, operator in enumerate(self.operators, start=first):
            records = operator.process_time(now)
            if records:
                self._emit(records, place + 1)
        return self.end_data() if self._ends_when_idle else NOTHING

    def end_data(self) -> Sequence[TaskEffect]:
        """End the data, unless the head of the chain waits for answers."""
        self._ends_when_idle = bool(self._chain) and self._chain[0].is_busy
        return NOTHING if self._ends_when_idle else super().end_data()

    def validate(self) -> None:
        """Check the task and its operators, and that the driver wakes it in time, once for each time."""
        Task.validate(self)
        requested = self._requested
        if len(requested) > 1:
            for later, earlier in pairwise(requested):
                assert later > earlier, f"{self.name} has asked for {earlier} though {later} comes first"
        if not self._timed or self.state is not RUNNING:
            return
        # What is due when the operators are called is done in that call.
        done_ms = self._context.now if self._was_called else None
        self._was_called = False
        wall_clock = self.settings.wall_clock
        for operator in self._timed:
            operator.validate()
            due_ms = operator.next_due_ms(wall_clock)
            if due_ms is None:
                continue
            if not requested or requested[-1] > due_ms:
                asked = f"for {requested[-1]} only" if requested else "for no time"
                raise AssertionError(
                    f"{self._named(operator)} waits until {due_ms}, and the task has asked {asked}"
                )
            assert done_ms is None or due_ms > done_ms, (
                f"{self._named(operator)} still waits for {due_ms} after it was called at {done_ms}"
            )

    def _named(self, operator: Operator) -> str:
        return f"{type(operator).__name__} of {self.name}"
