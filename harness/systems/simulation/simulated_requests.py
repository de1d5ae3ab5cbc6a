"""Coroutines of requests in the simulation: they run step by step in virtual time.

The rules this module lives by:

- A coroutine runs in the step that starts it, or that has something it waits for, up to its next ``await``.
  What it may wait for is what asyncio has without the outside: sleep, futures, locks, other tasks.
- Sleep is by the clock of the simulation. Its end is an action, like any timer.
- Each answer is an action of its own, so the schedule decides which one the task hears first.
- The coroutines of a task that was killed are dropped where they stand.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final

from onceproof.engine.errors import Ending
from onceproof.engine.operators.async_requests import Answer
from onceproof.engine.runtime.loop_thread import answer_of
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.agenda import Agenda, Clock

_TIMER: Final = CLASS_INDEX["timer"]


class Call(asyncio.TimerHandle):
    """A call that the loop will make, unless it is cancelled."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        arguments: Any,
        loop: Any,
        context: Context,
    ) -> None:
        super().__init__(when, callback, arguments, loop, context)
        self._make: Callable[[], object] = lambda: context.run(callback, *arguments)

    def make(self) -> None:
        """Make the call."""
        if not self.cancelled():
            self._make()


class VirtualLoop:
    """An event loop that runs what is ready at the time of the simulation, and never waits.

    It has the methods of asyncio.AbstractEventLoop that need nothing outside.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[Call] = deque()
        self._later: list[tuple[float, int, Call]] = []
        self._sequence = 0

    def run_ready(self) -> None:
        """Run everything that is ready, and what that makes ready."""
        this: Any = self
        _set_running_loop(this)
        try:
            while True:
                while self._later and self._later[0][0] <= self.time():
                    self._ready.append(heapq.heappop(self._later)[2])
                if not self._ready:
                    return
                try:
                    self._ready.popleft().make()
                except Ending:
                    raise
                except (SystemExit, KeyboardInterrupt):
                    # Asyncio lets these two through. They are the answer of the coroutine as well.
                    pass
        finally:
            _set_running_loop(None)

    def next_due_ms(self) -> int | None:
        """Return when something is ready next, by the clock of the simulation; None: never by itself."""
        while self._later and self._later[0][2].cancelled():
            heapq.heappop(self._later)
        return round(self._later[0][0] * 1000) if self._later else None

    # What coroutines and tasks of asyncio use.

    def time(self) -> float:
        return self._clock.now / 1000

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        call = Call(self.time(), callback, args, self, context or copy_context())
        self._ready.append(call)
        return call

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._sequence += 1
        call = Call(when, callback, args, self, context or copy_context())
        heapq.heappush(self._later, (when, self._sequence, call))
        return call

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        this: Any = self
        return asyncio.Future(loop=this)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        this: Any = self
        return asyncio.Task(coro, loop=this, **options)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Say nothing of a coroutine that a killed task has left."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled call is passed over."""


class SimulatedRequests:
    """The requests of one simulated task; ``wake_up`` lets the task hear an answer at once."""

    dies_with_process: Final = True
    """A coroutine of a dead process takes no further step, and its answer reaches no task."""

    def __init__(self, name: str, clock: Clock, agenda: Agenda, wake_up: Callable[[], None]) -> None:
        self._name = name
        self._clock = clock
        self._agenda = agenda
        self._wake_up = wake_up
        self._loop = VirtualLoop(clock)
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._answers: deque[Answer] = deque()
        self._looks_at: int | None = None
        """When the agenda has an action for what sleeps."""
        self._is_closed = False

    def start(self, number: int, request: Coroutine[Any, Any, Any]) -> None:
        task = self._loop.create_task(request)
        self._running[number] = task
        task.add_done_callback(lambda done: self._ended(number, done))
        self._run()

    def cancel(self, number: int) -> None:
        task = self._running.get(number)
        if task is not None:
            task.cancel()
            self._run()

    def take(self) -> Answer | None:
        return self._answers.popleft() if self._answers else None

    def wait(self, seconds: float | None) -> Answer | None:
        raise AssertionError("a simulated task waits for nothing in place")

    def now_ms(self) -> int:
        return self._clock.now

    def close(self) -> None:
        self._is_closed = True
        for task in list(self._running.values()):
            task.cancel()
        self._loop.run_ready()

    def _run(self) -> None:
        self._loop.run_ready()
        due_ms = self._loop.next_due_ms()
        if due_ms is not None and due_ms != self._looks_at:
            self._looks_at = due_ms
            self._agenda.add_later(due_ms, _TIMER, f"request {self._name} {due_ms}", self._look, due_ms)

    def _look(self, due_ms: int) -> None:
        if self._looks_at == due_ms:
            self._looks_at = None
        if not self._is_closed:
            self._run()

    def _ended(self, number: int, task: asyncio.Task[Any]) -> None:
        del self._running[number]
        answer = answer_of(number, task)
        if not self._is_closed:
            self._agenda.add(_TIMER, f"answer {self._name} {number}", self._arrive, answer)

    def _arrive(self, answer: Answer) -> None:
        if not self._is_closed:
            self._answers.append(answer)
            self._wake_up()
