"""The coroutines of requests, as operators see them. The driver runs them (runtime/request_loop.py).

The rules this module lives by:

- The task starts a request under a number, and takes answers in its own thread. Between the two only a queue
  is shared.
- ``wake_up`` is called for each answer, from the thread in which it came.
- What is closed has no thread left, and no coroutine that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol


class Answer(NamedTuple):
    """What a request has come to: a result, or the error that its coroutine raised."""

    number: int
    result: Any
    error: BaseException | None


class Requests(Protocol):
    """Runs the coroutines of one subtask."""

    def start(self, number: int, request: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine; its answer has this number."""
        ...

    def cancel(self, number: int) -> None:
        """Cancel a coroutine; an answer of it may have arrived."""
        ...

    def take(self) -> Answer | None:
        """Return the next answer, or None."""
        ...

    def wait(self, seconds: float | None) -> Answer | None:
        """Wait for the next answer, so many seconds at most; None: as long as it takes."""
        ...

    def now_ms(self) -> int:
        """Return the time by which the coroutines live, in milliseconds; it never jumps."""
        ...

    def close(self) -> None:
        """Cancel all coroutines, and end what runs them."""
        ...


MakeRequests = Callable[[str, Callable[[], None]], Requests]
"""Makes the requests of a subtask, from its name and what wakes it up."""


def no_requests(name: str, wake_up: Callable[[], None]) -> Requests:
    """Refuse: the driver runs no coroutines."""
    raise NotImplementedError(f"{name} needs a driver that runs coroutines")
