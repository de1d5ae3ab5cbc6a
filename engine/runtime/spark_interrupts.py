"""Ctrl-C while Spark starts and runs: no traceback of its client, and no Java left behind.

The rules this module lives by:

- The process decides what a signal does. pyspark sets a handler of its own, which is taken back.
- py4j logs the traceback of an interrupt and passes it on; the log is left out, the interrupt is not.
- A launch that is interrupted leaves no Java, although pyspark gives no handle of it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

_SECONDS_TO_EXIT: Final = 10


def kill_launched(folder: Path) -> None:
    """Kill the Java of a launch that was interrupted, of which pyspark gives no handle.

    Its main thread fails, because pyspark has removed the folder in which it answers, and its others wait.
    """
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if any(str(folder) in word for word in child.cmdline()):
                    child.kill()
                    child.wait(_SECONDS_TO_EXIT)


_LOGGED_AND_RAISED = ("KeyboardInterrupt while sending command.", "Exception while sending command.")


def is_not_raised_as_well(record: logging.LogRecord) -> bool:
    """Return False for a traceback that py4j logs before it raises the same exception.

    Without the filter a Ctrl-C, or a Java that dies, prints a page to standard error.
    """
    return record.msg not in _LOGGED_AND_RAISED


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep what this process does at Ctrl-C: pyspark sets a handler of its own, which asks Java first.

    A second Ctrl-C would come while that one waits for an answer, and end in a traceback of py4j.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
