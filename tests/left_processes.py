"""A test that leaves a process running fails, and the failure names the process.

Rules:

- What counts is what the body of a test has started, itself or through others: its children, and the
  processes that have inherited the name of the test in their environment. Servers, Spark and browsers that
  fixtures start for several tests are started in a set-up, and do not count.
- A process that is about to end is waited for.
- Processes are looked for only after tests that have started any, which costs a few milliseconds.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

VARIABLE = "ONCEPROOF_TEST"
MOST_LOOKS = 600
SECONDS_BETWEEN_LOOKS = 0.05
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "multiprocessing-fork")
"""What Python starts once for a process, and ends with it."""


class LeftProcesses:
    """The processes that a test has started and not ended. Made before the body of the test."""

    def __init__(self, test: str) -> None:
        self._test = test
        self._before = set(_children())
        self._ended_before = _ended_children()
        os.environ[VARIABLE] = test

    def end_of_body(self) -> None:
        """Note that fixtures end, and that what starts from now on is theirs."""
        os.environ.pop(VARIABLE, None)

    def found(self) -> list[str]:
        """Return the processes that are left, as "id command"; call it after the fixtures have ended."""
        if _ended_children() == self._ended_before and set(_children()) <= self._before:
            return []
        found: list[str] = []
        for _ in range(MOST_LOOKS):
            found = sorted({f"{each} {_command_of(each)}" for each in self._living()})
            if not found:
                break
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return found

    def _living(self) -> Iterator[int]:
        marked = f"{VARIABLE}={self._test}".encode()
        candidates = [each for each in _children() if each not in self._before]
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and folder.name != str(os.getpid()):
                with suppress(OSError):
                    if marked in (folder / "environ").read_bytes().split(b"\0"):
                        candidates.append(int(folder.name))
        for each in candidates:
            with suppress(psutil.Error):
                process = psutil.Process(each)
                # A zombie has ended: what waits for it is the object that started it.
                if process.status() != psutil.STATUS_ZOMBIE and not _is_helper(process):
                    yield each


def _is_helper(process: psutil.Process) -> bool:
    return any(name in " ".join(process.cmdline()) for name in HELPERS)


def _command_of(process_id: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(process_id).cmdline())[:200]
    return "has ended"


def _children() -> list[int]:
    """Return the children of this process."""
    found: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with suppress(OSError):
            found += map(int, (thread / "children").read_text().split())
    return found


def _ended_children() -> tuple[float, ...]:
    """Return what changes whenever this process has waited for a child that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime, used.ru_minflt, used.ru_nvcsw
