"""Input that changes or has no end, in the simulation.

Rules:

- Only a scenario in which the input changes has files; all others read their records from memory.
- No text of the job shows where the files are: two runs of a scenario have the same trace.
- What a checkpoint covers is counted in records, as everywhere: a position is that of the engine's reader
  with the count.
- Some records are there when the job begins; the others arrive in portions, each split at a pace of its own.
  A checksum of the split's name and the offset decides how many come together, and when, so that a shrunk
  scenario keeps the arrivals of what is left. What has arrived stays: an attempt that reads again finds it.
- A source that has nothing waits. Its next poll is possible only once something has arrived.
- A source that discovers splits looks for them as records arrive, in all subtasks one after the other.
- Once all records have arrived and are read, the user stops the job, drained: it ends as if the sources had
  ended. The user asks again as long as there is no savepoint.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.connectors.source import ForwardingReader, SplitReader
from onceproof.engine.elements import Record
from onceproof.harness.model.fault_kinds import TOPIC_CHANGES
from onceproof.harness.model.history import as_tuple
from onceproof.harness.model.scenario import Fault, InputRecord
from onceproof.harness.systems.filed_input import change, source_of, write_files
from onceproof.harness.systems.simulation.actions import CLASS_INDEX
from onceproof.harness.systems.simulation.simulated_io import SimulatedLog

if TYPE_CHECKING:
    from onceproof.harness.systems.simulation.agenda import Agenda, Clock
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
        self._log.find_splits()
        self._processes.wake_sources()

    def _look_later(self) -> None:
        due = self._clock.now + LOOK_MS
        self._agenda.add_later(due, _TIMER, "timer user", self._look, None)

    def _look(self, _: Any) -> None:
        if self._requests.has_ended:
            return
        # Before the request, at which a fault may kill the process.
        self._look_later()
        if self._log.find_splits():
            self._processes.wake_sources()
        if self._log.is_read:
            self._requests.ask_for_the_end()


class FiledReader(ForwardingReader):
    """Reads one split from its file, and counts."""

    def __init__(self, log: ChangingLog, split: str, reader: SplitReader, count: int) -> None:
        super().__init__(reader)
        self._log = log
        self._split = split
        self._count = count

    def read(self, limit: int) -> list[Record]:
        """Return up to ``limit`` records."""
        documents = self._reader.read(limit)
        self._count += len(documents)
        self._log.read_up_to[self._split] = self._count
        return [(as_tuple(value), timestamp) for (timestamp, value), _ in documents]

    @property
    def position(self) -> list[Any]:
        """The position in the file, and the number of records before it."""
        return [self._reader.position, self._count]


class ChangingLog(SimulatedLog):
    """The scenario's splits in files that a fault changes."""

    def __init__(self, records: dict[str, tuple[InputRecord, ...]]) -> None:
        super().__init__(records)
        self._rows = records
        self._folder = ""
        self._paths: dict[str, str] = {}

    def open_split(self, split: str, position: Any | None) -> FiledReader:
        """Return a reader that begins at a position, or at the first record."""
        inner, count = (None, 0) if position is None else position
        self.read_up_to[split] = count
        paths = self._files()
        return FiledReader(self, split, source_of(paths).open_split(paths[split], inner), count)

    def offsets(self, positions: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the counts in positions."""
        return {split: position[1] for split, position in positions.items()}

    def change(self, fault: Fault, cut: Mapping[str, int]) -> str:
        """Change the file of which a checkpoint covers most; return its name, "" if it covers nothing.

        A fault that changes topics changes no file.
        """
        if fault.means in TOPIC_CHANGES:
            return ""
        split = max(cut, key=lambda each: cut[each], default="")
        if not split or not cut[split]:
            return ""
        path = self._files()[split]
        change(path, cut[split], fault)
        return Path(path).name

    def shown(self, text: str) -> str:
        """Return a text of the job with the names of files alone."""
        return text.replace(f"{self._folder}/", "") if self._folder else text

    def _files(self) -> Mapping[str, str]:
        """Return the paths by split; the files are written when they are needed for the first time."""
        if not self._paths:
            self._folder = tempfile.mkdtemp(prefix="onceproof-input-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            self._paths = write_files(Path(self._folder), self._rows)
        return self._paths
