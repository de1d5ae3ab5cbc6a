"""The source of a job in a real process whose input is in files, a line for each record."""

from __future__ import annotations

from onceproof.engine.elements import Record
from onceproof.harness.model.history import as_tuple
from onceproof.harness.systems.filed_input import source_of
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.process.test_io import CountedReader, CountedSource
from onceproof.harness.systems.recording.event_log import EventLog


class LinesOfRecords(CountedReader):
    """Reads and counts the records of a file, with their own timestamps."""

    def read(self, limit: int) -> list[Record]:
        return [(as_tuple(value), timestamp) for (timestamp, value), _ in super().read(limit)]


class FiledRecords(CountedSource):
    """The splits of a scenario in files."""

    reader_class = LinesOfRecords


def filed_source(spec: Spec, log: EventLog) -> FiledRecords:
    """Return the source of the files of a specification, which are in the order of its splits."""
    paths = dict(zip(read_records(spec.records), spec.files, strict=True))
    return FiledRecords(source_of(paths), log, paths)
