"""A test that leaves a process running fails, and the failure names the process and the test.

Rules:

- Processes are looked for when the last test of a module has ended with its fixtures: until then a driver or
  a cluster may serve several tests.
- What counts is what the bodies of its tests have started, themselves or through others: children, and
  processes that have inherited the name of a test in their environment.
- Servers and Spark serve many modules, and a test that kills one starts it again. They do not count.
- A process that is about to end is waited for. Nothing is looked for unless a test has started a process.
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
MOST_LOOKS = 2400
SECONDS_BETWEEN_LOOKS = 0.05
KNOWN = ("java", "postgres", "versitygw", "moto_server", "pyspark.daemon", "multiprocessing.resource_tracker")
"""Words in the commands of servers, of Spark, and of what Python starts once for a process."""


class LeftProcesses:
    """The processes that the tests of a module have started and not ended. Made before the first of them."""

    def __init__(self, module: str) -> None:
        self.module = module
        # Other workers of the run may have tests of the same module, and other runs as well.
        self._mark = f"{os.getpid()}:{module}::"
        self._before = set(_children())
        self._ended_before = _ended_children()

    def begin(self, test: str) -> None:
        """Note that the body of a test begins."""
        os.environ[VARIABLE] = f"{self._mark}{test}"

    def end(self) -> None:
        """Note that the body has ended: what starts from now on belongs to fixtures."""
        os.environ.pop(VARIABLE, None)

    def found(self) -> list[str]:
        """Return the processes that are left after the end of all fixtures, as "test: id command"."""
        if _ended_children() == self._ended_before and set(_children()) <= self._before:
            return []
        found: list[str] = []
        for _ in range(MOST_LOOKS):
            found = sorted(f"{test}: {each} {_command_of(each)}" for each, test in self._living().items())
            if not found:
                break
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return found

    def _living(self) -> dict[int, str]:
        """Return by id of each process the test that started it."""
        started = {each: self.module for each in _children() if each not in self._before}
        for each, test in marked(self._mark):
            started[each] = f"{self.module}::{test}"
        return {each: test for each, test in started.items() if _counts(each)}


def marked(mark: str) -> Iterator[tuple[int, str]]:
    """Yield the other processes whose environment has a mark, and what follows it there."""
    beginning = f"{VARIABLE}={mark}"
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != str(os.getpid()):
            with suppress(OSError):
                for variable in (folder / "environ").read_bytes().split(b"\0"):
                    if variable.startswith(beginning.encode()):
                        yield int(folder.name), variable.decode().removeprefix(beginning)


def _counts(process_id: int) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(process_id)
        # A zombie has ended: what waits for it is the object that started it.
        is_known = any(word in " ".join(process.cmdline()) for word in KNOWN)
        return process.status() != psutil.STATUS_ZOMBIE and not is_known
    return False


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
