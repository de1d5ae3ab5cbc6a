"""Drivers of Structured Streaming under trial, seen from outside: as those of `spark_driver.py`, with SQL.

The rules this module lives by:

- All that is said there of a driver, its session and its end is true here; only the program that runs in it
  is another one.
- One driver waits for the next scenario, and one more is started where the one that works is going to die.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Final
from weakref import finalize

from harness.systems.spark_driver import Driver, _finish, _short_folder

CHILD: Final = "harness.systems.structured_child"


class StructuredDriver(Driver):
    """One driver process, which starts at once and is ready somewhat later."""

    def __init__(self) -> None:
        self.folder = Path(_short_folder())
        self._said = self.folder / "said"
        self._ready = False
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "TMPDIR": str(self.folder)},
                start_new_session=True,
            )
        self._finalizer = finalize(self, _finish, self._process, self.folder)


class StructuredDrivers:
    """The drivers of one system."""

    def __init__(self) -> None:
        self._idle: deque[StructuredDriver] = deque()

    def take(self) -> StructuredDriver:
        """One that is ready, or will be soon."""
        while self._idle:
            driver = self._idle.popleft()
            if driver.is_alive:
                return driver
            driver.end()
        return StructuredDriver()

    def give_back(self, driver: StructuredDriver) -> None:
        """It has done its job; where it is dead nothing of it stays."""
        if driver.is_alive:
            self._idle.append(driver)
        else:
            driver.end()

    def prepare(self) -> None:
        """One will be needed soon."""
        if not self._idle:
            self._idle.append(StructuredDriver())

    def close(self) -> None:
        """End all that are idle."""
        while self._idle:
            self._idle.popleft().end()
