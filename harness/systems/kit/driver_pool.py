"""A pool of driver processes, and the run of one job on drivers of the pool.

Rules:

- One driver runs a job. If a fault of the scenario will kill it, the pool starts the next driver beforehand,
  because a start takes seconds.
- Points are counted on the fault board of the run, which the driver shares with its workers.
- Subclasses of DriverRun know the program of a driver, and the faults that kill it (``kills_driver``).
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import msgspec

from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.kit.driver_process import Driver
from onceproof.harness.systems.kit.incarnations import Ending, JobRun
from onceproof.harness.systems.process.fault_board import BoardFile
from onceproof.harness.systems.recording.event_log import read_all_events


class Drivers:
    """The drivers of one system; ``start`` starts a new one."""

    def __init__(self, start: Callable[[], Driver]) -> None:
        self._start = start
        self._idle: deque[Driver] = deque()

    def take(self) -> Driver:
        """Return a living driver, which may still be starting."""
        while self._idle:
            driver = self._idle.popleft()
            if driver.is_alive:
                return driver
            driver.end()
        return self._start()

    def give_back(self, driver: Driver) -> None:
        """Return a driver to the pool after its job; clean up after a dead one."""
        if driver.is_alive:
            self._idle.append(driver)
        else:
            driver.end()

    def prepare(self) -> None:
        """Start a driver if none is idle."""
        if not self._idle:
            self._idle.append(self._start())

    @property
    def idle(self) -> int:
        """Number of idle drivers."""
        return len(self._idle)

    def close(self) -> None:
        """End all idle drivers."""
        while self._idle:
            self._idle.popleft().end()


@dataclass(slots=True)
class DriverRun(JobRun):
    """The run of one job, whose incarnations are driver processes."""

    deaths: ClassVar[frozenset[int]] = frozenset({-signal.SIGKILL})
    """Exit codes of a driver that was killed."""

    drivers: Drivers = field(kw_only=True)
    process_seconds: float = field(kw_only=True)

    def kills_driver(self, fault: Fault) -> bool:
        """Return whether the driver dies of a fault."""
        return FAULTS[fault.kind].strikes == "process"

    def deaths_to_come(self) -> int:
        """Return how many faults still wait that kill a driver."""
        waiting = BoardFile(self.spec.board).read().waiting
        return sum(
            waiting.waits_for(number) and self.kills_driver(fault)
            for number, fault in enumerate(self.spec.faults)
        )

    def needs_another_driver(self) -> bool:
        """Return whether the driver that is about to start will die, and another one will go on."""
        return self.deaths_to_come() > 0

    def run(self) -> History:
        """Run the job on one driver after another until it has ended, and return its history."""
        board = self.folder / "faults.json"
        self.spec = msgspec.structs.replace(self.spec, board=str(board))
        # super() without arguments fails here, because dataclass(slots=True) creates a new class.
        history = JobRun.run(self)
        history.statistics.points = dict(BoardFile(board).read().points)
        return history

    def live(self, number: int, path: Path) -> Ending:
        """Run the job on one driver until it ends or the driver dies."""
        driver = self.drivers.take()
        begun = time.monotonic()
        driver.wait_until_ready()
        self.waited_seconds += time.monotonic() - begun
        if self.needs_another_driver():
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
