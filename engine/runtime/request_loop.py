"""Runs the coroutines of requests in an event loop of asyncio, in a thread beside the tasks.

The rules this module lives by:

- The first request of a subtask starts the thread. Closing cancels all coroutines and ends it.
- The thread holds neither the task nor its requests: what a killed task leaves ends as it is freed.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any

from onceproof.engine.operators.async_requests import Answer

if TYPE_CHECKING:
    from onceproof.engine.runtime.loop_thread import LoopThread


class EventLoopRequests:
    """The requests of one subtask; see the protocol Requests."""

    def __init__(self, name: str, wake_up: Callable[[], None]) -> None:
        self._name = name
        self._wake_up = wake_up
        self._thread: LoopThread | None = None
        self._stop: weakref.finalize[..., EventLoopRequests] | None = None

    def start(self, number: int, request: Coroutine[Any, Any, Any]) -> None:
        thread = self._thread
        if thread is None:
            from onceproof.engine.runtime.loop_thread import LoopThread

            thread = self._thread = LoopThread(self._name, self._wake_up)
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
