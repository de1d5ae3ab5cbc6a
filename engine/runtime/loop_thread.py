"""The thread in which the coroutines of one subtask's requests run, and its event loop.

It is a module of its own because asyncio takes a tenth of the start of a process, and most jobs have no
requests: `request_loop.py`, which every process of a job imports, imports this module with the first request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

from onceproof.engine.forked_children import runs_user_code
from onceproof.engine.operators.async_requests import Answer

CLOSING_SECONDS: Final = 5.0
"""How long a coroutine may take to end after its cancellation; one that blocks its thread is left alone."""


class LoopThread:
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

    @runs_user_code
    def _live(self) -> None:
        loop = self.loop
        asyncio.set_event_loop(loop)
        try:
            self._run_until_stopped()
            running = list(self._running.values())
            for task in running:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*running, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _run_until_stopped(self) -> None:
        """Run the loop. What ends it otherwise, asyncio has let through: it is the answer to all requests."""
        while True:
            try:
                self.loop.run_forever()
                return
            except BaseException as error:
                for number, task in list(self._running.items()):
                    self.answers.put(Answer(number, None, error))
                    task.cancel()
                self._wake_up()

    def _ended(self, number: int, task: asyncio.Task[Any]) -> None:
        del self._running[number]
        self.answers.put(answer_of(number, task))
        self._wake_up()


def answer_of(number: int, task: asyncio.Task[Any]) -> Answer:
    """Return what a task that is done has come to."""
    if task.cancelled():
        return Answer(number, None, asyncio.CancelledError("the request has cancelled itself"))
    error = task.exception()
    return Answer(number, None if error is not None else task.result(), error)
