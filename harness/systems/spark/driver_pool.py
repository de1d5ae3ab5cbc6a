"""Drivers that serve one job after another, and a job that lives and dies with them.

The rules this module lives by:

- One driver works, and one more is started beforehand where a scenario is going to need it: it takes seconds.
- What a driver runs is its system's business, and so are the board on which points are counted and the faults
  of which it dies (``points_on``, ``will_die``).
"""

from __future__ import annotations

import signal
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import msgspec

from onceproof.harness.model.history import History
from onceproof.harness.systems.process.incarnations import Ending, JobRun
from onceproof.harness.systems.recording.event_log import read_all_events
from onceproof.harness.systems.spark.driver_process import Driver


class Drivers:
    """The drivers of one system: one that works, and one more where it is going to be needed."""

    def __init__(self, start: Callable[[], Driver]) -> None:
        self._start = start
        self._idle: deque[Driver] = deque()

    def take(self) -> Driver:
        """One that is ready, or will be soon."""
        while self._idle:
            driver = self._idle.popleft()
            if driver.is_alive:
                return driver
            driver.end()
        return self._start()

    def give_back(self, driver: Driver) -> None:
        """It has done its job, and can do another one; where it is dead nothing of it stays."""
        if driver.is_alive:
            self._idle.append(driver)
        else:
            driver.end()

    def prepare(self) -> None:
        """One will be needed soon."""
        if not self._idle:
            self._idle.append(self._start())

    @property
    def idle(self) -> int:
        """How many wait for something to do."""
        return len(self._idle)

    def close(self) -> None:
        """End all that are idle."""
        while self._idle:
            self._idle.popleft().end()


@dataclass(slots=True)
class DriverRun(JobRun):
    """One job whose incarnations are drivers."""

    deaths: ClassVar[frozenset[int]] = frozenset({-signal.SIGKILL})
    """Exit codes of a driver that was killed."""

    drivers: Drivers = field(kw_only=True)
    process_seconds: float = field(kw_only=True)

    @abstractmethod
    def points_on(self, board: Path) -> Mapping[str, int]:
        """How often each protocol point was passed, as the board says."""

    @abstractmethod
    def will_die(self) -> bool:
        """Whether a fault still waits that kills the driver."""

    def run(self) -> History:
        """Start driver after driver until the job has ended; the points are counted on the board."""
        board = self.folder / "faults.json"
        self.spec = msgspec.structs.replace(self.spec, board=str(board))
        # Spelt out: a class with slots is made anew, and the short form would look in the old one.
        history = JobRun.run(self)
        history.statistics.points = dict(self.points_on(board))
        return history

    def live(self, number: int, path: Path) -> Ending:
        """Let one driver do the job, or die of it."""
        driver = self.drivers.take()
        driver.wait_until_ready()
        if self.will_die():
            self.drivers.prepare()
        try:
            answer = driver.run(path, self.process_seconds)
            at = time.monotonic_ns()
            last_words = f"exit code {answer.code}: {driver.last_words()}"
        except BaseException:
            driver.end()
            raise
        self.drivers.give_back(driver)
        return Ending(
            at=at,
            was_killed=answer.code in self.deaths,
            in_time=answer.in_time,
            events=read_all_events(self.events_path(number)),
            last_words=last_words,
        )
