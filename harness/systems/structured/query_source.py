"""The source of a query under trial: it replays the records of a scenario, a few in each batch.

The rules this module lives by:

- An offset says of each split how many records come before it, as a cut of the input does. Spark keeps it and
  hands it back; what a batch holds follows from its two offsets and the records alone.
- A batch takes the records of the splits in turn, so that each has something of every split that is not over.
- Each record is a row: split, offset, timestamp, and the columns of the family's ``record_schema``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from onceproof.harness.systems.process.job_specification import read_records
from onceproof.harness.systems.structured.query_fault_board import board_of

RECORDS: Final = "onceproof_records"
COLUMNS: Final = "split STRING, offset BIGINT, timestamp BIGINT"
SPEC: Final = "spec"
DRIVER_PROCESS: Final = "driver"

TASK: Final = "source"


class Slice(InputPartition):
    """What one task reads: of each split from one record to another."""

    def __init__(self, number: int, ranges: dict[str, tuple[int, int]]) -> None:
        super().__init__(number)
        self.number = number
        self.ranges = ranges


class RecordSource(DataSource):
    """The data source, by its options: the specification of the job, and the process id of the driver."""

    @classmethod
    def name(cls) -> str:
        """As in ``format``."""
        return RECORDS

    def streamReader(self, schema: StructType) -> RecordReader:  # noqa: N802 (the name is Spark's)
        """A reader of the records."""
        return RecordReader(self.options[SPEC], int(self.options[DRIVER_PROCESS]))


class RecordReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the records of a scenario. It travels to the workers."""

    def __init__(self, path: str, driver: int) -> None:
        self._path = path
        self._driver = driver

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Nothing has been read."""
        return dict.fromkeys(self._records(), 0)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All that there will ever be is there."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The records of a batch."""
        spec, _ = board_of(self._path, self._driver)
        return ReadMaxRows(spec.interval_records)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The end of the batch that begins at an offset."""
        _, board = board_of(self._path, self._driver)
        lengths = {split: len(records) for split, records in self._records().items()}
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(lengths.values())
        end = next_offset(start, lengths, rows)
        if end != start:
            board.end_to_rescale()
            board("triggered", TASK, 0)
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Slice]:
        """What each task reads of a batch."""
        spec, _ = board_of(self._path, self._driver)
        ranges = {split: (start[split], end[split]) for split in end if start[split] < end[split]}
        tasks = min(len(ranges), spec.source_parallelism or spec.parallelism)
        return [
            Slice(number, {split: ranges[split] for split in list(ranges)[number::tasks]})
            for number in range(tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Give the records of a slice."""
        assert isinstance(partition, Slice)
        _, board = board_of(self._path, self._driver)
        records = self._records()
        for split, (begin, end) in partition.ranges.items():
            for offset in range(begin, end):
                board("element", f"{TASK}-{partition.number}", 0)
                timestamp, value = records[split][offset]
                columns = value if isinstance(value, tuple) else (value,)
                yield (split, offset, timestamp, *columns)
        # Whatever the sink: a worker has done its part, and the driver does not know it.
        board("pre_committed", f"{TASK}-{partition.number}", 0)

    def commit(self, end: dict[str, int]) -> None:
        """A batch is over."""
        _, board = board_of(self._path, self._driver)
        board("notified", TASK, 0)

    def _records(self) -> Mapping[str, Sequence[tuple[int, Any]]]:
        spec, _ = board_of(self._path, self._driver)
        return read_records(spec.records)


def next_offset(start: Mapping[str, int], lengths: Mapping[str, int], rows: int) -> dict[str, int]:
    """Return the offset after so many more records, taken of the splits in turn."""
    end = dict(start)
    while rows and any(end[split] < lengths[split] for split in end):
        for split in end:
            if rows and end[split] < lengths[split]:
                end[split] += 1
                rows -= 1
    return end
