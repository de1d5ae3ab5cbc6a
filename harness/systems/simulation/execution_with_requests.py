"""An execution whose requests run in the time of the simulation.

The requests themselves (`simulated_requests.py`) are imported with the first task that has some, because
asyncio takes a tenth of the start of a process.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from onceproof.engine.messages import TaskId
from onceproof.engine.operators.async_requests import MakeRequests
from onceproof.engine.runtime.execution import Execution
from onceproof.engine.task.events import WOKEN_UP
from onceproof.harness.systems.simulation.agenda import Agenda
from onceproof.harness.systems.simulation.clock import Clock

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.simulated_requests import SimulatedRequests


class ExecutionWithRequests(Execution):
    """An execution whose coroutines run in the time of the simulation."""

    _clock: Clock
    _agenda: Agenda

    def source_waker(self) -> Callable[[TaskId], None]:
        """Let a living task hear at once that a request has an answer; sources are woken by their input."""
        held = weakref.ref(self)

        def wake(task_id: TaskId) -> None:
            process = held()
            task = None if process is None else process.tasks.get(task_id)
            if process is not None and task is not None:
                process.task_event(task, WOKEN_UP)

        return wake

    def make_requests(self) -> MakeRequests:
        """Return what runs coroutines step by step."""
        clock, agenda = self._clock, self._agenda

        def make(name: str, wake_up: Callable[[], None]) -> SimulatedRequests:
            from onceproof.harness.systems.simulation.simulated_requests import SimulatedRequests

            return SimulatedRequests(name, clock, agenda, wake_up)

        return make
