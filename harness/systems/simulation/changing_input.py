"""The input of a simulated job whose input changes: the engine's source of files reads real files.

The rules this module lives by:

- Only a scenario in which the input changes has files; all others read their records from memory.
- No text of the job shows where the files are: two runs of a scenario have the same trace.
- What a checkpoint covers is counted in records, as everywhere: a position is that of the engine's reader
  with the count.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onceproof.engine.connectors.source import ForwardingReader, SplitReader
from onceproof.engine.elements import Record
from onceproof.harness.model.fault_kinds import TOPIC_CHANGES
from onceproof.harness.model.history import as_tuple
from onceproof.harness.model.scenario import Fault, InputRecord
from onceproof.harness.systems.filed_input import change, source_of, write_files
from onceproof.harness.systems.simulation.simulated_io import SimulatedLog


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
