"""Ctrl-C ends a job between two of its steps; pressed again, it ends the program at once.

Rules:

- Python raises KeyboardInterrupt at any instruction, also in the middle of a user's function. The first
  Ctrl-C is therefore noted, and raised where the driver handles events. The tasks are closed there.
- The checkpoints stay, whatever the retention option says: the user has not cancelled the job. Started again
  under its name it goes on.
- Only Python's own handler is replaced, and only in the main thread. A program with a handler keeps it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_logger = logging.getLogger(__name__)


@contextmanager
def between_steps(submit: Callable[[Callable[[], None]], None], job_name: str) -> Iterator[None]:
    """Let the first Ctrl-C within the context be raised by the driver.

    Args:
        submit: gives the driver a function that it calls between two steps; it must be safe in a signal
            handler, which runs between any two instructions of the main thread.
        job_name: for the log.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        submit(interrupt)

    def interrupt() -> None:
        _logger.warning("job %r is interrupted: its tasks close, and its checkpoints stay", job_name)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
