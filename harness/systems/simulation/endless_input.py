"""Input without an end in the simulation: records that arrive while the job runs, and the user who ends it.

The rules this module lives by:

- Some records are there when the job begins; the others arrive in portions, each split at a pace of its own.
  A checksum of the split's name and the offset decides how many come together, and when, so that a shrunk
  scenario keeps the arrivals of what is left. What has arrived stays: an attempt that reads again finds it.
- A source that has nothing waits. Its next poll is possible only once something has arrived.
- Once all records have arrived and are read, the user stops the job, drained: it ends as if the sources had
  ended. The user asks again as long as there is no savepoint.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from onceproof.harness.systems.simulation.actions import CLASS_INDEX

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.agenda import Agenda
    from onceproof.harness.systems.simulation.clock import Clock
    from onceproof.harness.systems.simulation.job_processes import JobProcesses
    from onceproof.harness.systems.simulation.simulated_io import SimulatedLog
    from onceproof.harness.systems.simulation.user_requests import UserRequests

MOST_AT_ONCE: Final = 6
LONGEST_MS: Final = 30
LOOK_MS: Final = 20

_TIMER: Final = CLASS_INDEX["timer"]


class EndlessInput:
    """Lets the records of one run arrive, and has the job ended behind the last of them."""

    __slots__ = ("_agenda", "_clock", "_log", "_processes", "_requests")

    def __init__(
        self, clock: Clock, agenda: Agenda, log: SimulatedLog, processes: JobProcesses, requests: UserRequests
    ) -> None:
        self._clock = clock
        self._agenda = agenda
        self._log = log
        self._processes = processes
        self._requests = requests
        for split in log.records:
            self._extend(split, 0)
        self._look_later()

    def _extend(self, split: str, arrived: int) -> None:
        """Add a portion to what has arrived in a split, and plan the next one."""
        drawn = zlib.crc32(f"{split} {arrived}".encode())
        last = len(self._log.records[split])
        self._log.available[split] = min(arrived + 1 + drawn % MOST_AT_ONCE, last)
        if self._log.available[split] < last:
            due = self._clock.now + 1 + drawn // MOST_AT_ONCE % LONGEST_MS
            self._agenda.add_later(due, _TIMER, f"records arrive in {split}", self._arrive, split)

    def _arrive(self, split: str) -> None:
        self._extend(split, self._log.available[split])
        self._processes.wake_sources()

    def _look_later(self) -> None:
        due = self._clock.now + LOOK_MS
        self._agenda.add_later(due, _TIMER, "timer user", self._look, None)

    def _look(self, _: Any) -> None:
        if self._requests.has_ended:
            return
        # Before the request, at which a fault may kill the process.
        self._look_later()
        if self._log.is_read:
            self._requests.ask_for_the_end()
