"""Ctrl-C ends a job between two of its steps; pressed again, it ends the program at once.

Rules:

- Python raises KeyboardInterrupt at any instruction, also in the middle of a user's function. The first
  Ctrl-C is therefore noted, and raised where the driver handles events. The tasks are closed there.
- The checkpoints stay, whatever the retention option says: the user has not cancelled the job. Started again
  under its name it goes on.
- Only Python's own handler is replaced, and only in the main thread. A program with a handler keeps it.
- What the second Ctrl-C raises is an Interrupted. Any other KeyboardInterrupt that comes out of a user's
  function is a failure of that function: the function itself or a handler of the program has raised it.
- A program must not end with exit code 0 while its job is incomplete: SystemExit(0) within a run that has not
  ended, such as that of a handler of SIGTERM, is a failure of the job.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from onceproof.engine.errors import Interrupted
from onceproof.engine.runtime.job_result import JobExecutionFailed

_logger = logging.getLogger(__name__)


@contextmanager
def between_steps(submit: Callable[[Callable[[], None]], None], job_name: str) -> Iterator[None]:
    """Let the first Ctrl-C within the context, a job's run, be raised by the driver.

    Args:
        submit: gives the driver a function that it calls between two steps; it must be safe in a signal
            handler, which runs between any two instructions of the main thread.
        job_name: for the log.
    """
    before = set(threading.enumerate())
    with no_success_before_the_end(job_name), _noted(submit, job_name):
        yield
    _name_threads_left(job_name, before)


def _name_threads_left(job_name: str, before: set[threading.Thread]) -> None:
    """Say which threads, begun by functions of the job, keep the program from ending."""
    left = [each.name for each in threading.enumerate() if each not in before and not each.daemon]
    # Those of an executor end when they have nothing to do, and those of other jobs with their jobs.
    names = [name for name in left if not name.startswith(("ThreadPoolExecutor", "job-"))]
    if names:
        _logger.warning(
            "job %r has ended, but not its threads %s: the program ends only with them, so make them daemonic"
            " or end them in close()",
            job_name,
            ", ".join(names),
        )


@contextmanager
def _noted(submit: Callable[[Callable[[], None]], None], job_name: str) -> Iterator[None]:
    if not _python_handles_interrupts():
        yield
        return

    own_process = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        if os.getpid() != own_process:
            # A user function has forked this process; its run is not here.
            raise KeyboardInterrupt
        signal.signal(signal.SIGINT, _end_at_once)
        submit(interrupt)

    def interrupt() -> None:
        _logger.warning("job %r is interrupted: its tasks close, and its checkpoints stay", job_name)
        raise KeyboardInterrupt

    with _handled_by(note):
        yield


@contextmanager
def at_once() -> Iterator[None]:
    """Let Ctrl-C end the context, a job's run, wherever it is; no function of a user is to blame."""
    if not _python_handles_interrupts():
        yield
        return
    with _handled_by(_end_at_once):
        yield


def _python_handles_interrupts() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _end_at_once(number: int, frame: FrameType | None) -> None:
    raise Interrupted


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    except Interrupted as error:
        # Python tells the shell of a KeyboardInterrupt, and of no other class.
        raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def no_success_before_the_end(job_name: str) -> Iterator[None]:
    """Raise JobExecutionFailed where the run within the context is left with exit code 0."""
    try:
        yield
    except SystemExit as error:
        if error.code:
            raise
        raise JobExecutionFailed(
            f"job {job_name!r} was left by SystemExit({error.code}) before it had ended: start it again to"
            " resume from its checkpoints"
        ) from error
