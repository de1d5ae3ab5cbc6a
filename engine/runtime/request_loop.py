"""Runs the coroutines of requests in an event loop of asyncio, in a thread beside the tasks.

The rules this module lives by:

- The first request of a subtask starts the thread. Closing cancels all coroutines and ends it.
- The thread holds neither the task nor its requests: what a killed task leaves ends as it is freed.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from onceproof.engine.operators.async_requests import Answer

CLOSING_SECONDS: Final = 5.0
"""How long a coroutine may take to end after its cancellation; one that blocks its thread is left alone."""


class _LoopThread:
    """An event loop in a thread of its own, and what runs in it. The thread holds this, and nothing else."""

    def __init__(self, name: str, wake_up: Callable[[], None]) -> None:
        self.answers: SimpleQueue[Answer] = SimpleQueue()
        self.loop = asyncio.new_event_loop()
        self._wake_up = wake_up
        self._running: dict[int, asyncio.Task[Any]] = {}
        """Belongs to the thread."""
        self._thread = threading.Thread(target=self._live, name=f"requests-{name}", daemon=True)
        self._thread.start()

    def begin(self, number: int, request: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine; called in the thread."""
        task = self.loop.create_task(request)
        self._running[number] = task
        task.add_done_callback(lambda done: self._ended(number, done))

    def cancel(self, number: int) -> None:
        """Cancel a coroutine; called in the thread."""
        task = self._running.get(number)
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """Cancel all coroutines and end the thread; called from another one, or as garbage is collected."""
        with suppress(RuntimeError):
            # The loop may be closed already.
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSING_SECONDS)

    def _live(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            running = list(self._running.values())
            for task in running:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*running, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _ended(self, number: int, task: asyncio.Task[Any]) -> None:
        del self._running[number]
        self.answers.put(answer_of(number, task))
        self._wake_up()


class EventLoopRequests:
    """The requests of one subtask; see the protocol Requests."""

    def __init__(self, name: str, wake_up: Callable[[], None]) -> None:
        self._name = name
        self._wake_up = wake_up
        self._thread: _LoopThread | None = None
        self._stop: weakref.finalize[..., EventLoopRequests] | None = None

    def start(self, number: int, request: Coroutine[Any, Any, Any]) -> None:
        thread = self._thread
        if thread is None:
            thread = self._thread = _LoopThread(self._name, self._wake_up)
            self._stop = weakref.finalize(self, thread.stop)
        thread.loop.call_soon_threadsafe(thread.begin, number, request)

    def cancel(self, number: int) -> None:
        thread = self._thread
        assert thread is not None, "a request that was not started is cancelled"
        thread.loop.call_soon_threadsafe(thread.cancel, number)

    def take(self) -> Answer | None:
        return self._next(block=False)

    def wait(self, seconds: float | None) -> Answer | None:
        return self._next(block=True, timeout=seconds)

    def _next(self, *, block: bool, timeout: float | None = None) -> Answer | None:
        if self._thread is not None:
            with suppress(Empty):
                return self._thread.answers.get(block, timeout)
        return None

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
        self._thread = None


def answer_of(number: int, task: asyncio.Task[Any]) -> Answer:
    """Return what a task that is done has come to."""
    if task.cancelled():
        return Answer(number, None, asyncio.CancelledError("the request has cancelled itself"))
    error = task.exception()
    return Answer(number, None if error is not None else task.result(), error)
