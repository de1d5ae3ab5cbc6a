"""The source of a query under test: it reads the records of a scenario, a few in each batch.

The rules this module lives by:

- An offset is the number of records read from each split, like a cut of the input. Spark stores it; the
  records of a batch follow from its two offsets alone.
- A batch takes records from the splits in turn, so that it contains records of every unfinished split.
- Each record is a row: split, offset, timestamp, and the columns of the family's ``record_schema``.
- A user's query may read several sources: each has the splits that begin with its name. Its closing records
  are a split of their own, one in each batch, once all other records of all sources are in planned batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from onceproof.harness.model.split_names import source_of, split_name
from onceproof.harness.systems.process.job_specification import Spec, read_records
from onceproof.harness.systems.structured.kills import board_of, end_to_rescale
from onceproof.harness.systems.structured.output import last_end

RECORDS: Final = "onceproof_records"
COLUMNS: Final = "split STRING, offset BIGINT, timestamp BIGINT"
SPEC: Final = "spec"
SOURCE: Final = "source"
"""The option with the name of one of several sources; without it a source has all splits."""
CLOSING_FILE: Final = "closing.json"
"""Beside the records: by source, its closing records."""
CLOSING_SPLIT: Final = "closing"
"""No other split of a source has a name for a number."""
DRIVER_PROCESS: Final = "driver"

TASK: Final = "source"


class Slice(InputPartition):
    """The input of one task: a range of records for each split."""

    def __init__(self, number: int, ranges: dict[str, tuple[int, int]]) -> None:
        super().__init__(number)
        self.number = number
        self.ranges = ranges


class RecordSource(DataSource):
    """The data source. Its options are the job's specification and the process id of the driver."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return RECORDS

    def streamReader(self, schema: StructType) -> RecordReader:  # noqa: N802 (the name is Spark's)
        """Return the reader."""
        return RecordReader(
            self.options[SPEC], int(self.options[DRIVER_PROCESS]), self.options.get(SOURCE, "")
        )


class RecordReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the records of a scenario. Spark ships it to the workers."""

    def __init__(self, path: str, driver: int, source: str) -> None:
        self._path = path
        self._driver = driver
        self._source = source

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before the first record."""
        return dict.fromkeys(self._records(), 0)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: all records are available from the start."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the number of records per batch."""
        spec, _ = board_of(self._path, self._driver)
        return ReadMaxRows(spec.interval_records)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the end of the batch that starts at an offset; stop the query here if it must rescale."""
        spec, board = board_of(self._path, self._driver)
        lengths = {split: len(records) for split, records in self._records().items()}
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(lengths.values())
        closing = closing_split(self._source)
        left = lengths.pop(closing, 0) - start.get(closing, 0)
        end = {**start, **next_offset({split: start[split] for split in lengths}, lengths, rows)}
        if end == start and left and has_all(spec, last_end(Path(spec.checkpoints))):
            end[closing] += 1
        if end != start:
            end_to_rescale(board)
            board("triggered", TASK, 0)
        return end

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Slice]:
        """Return the slices of a batch, one per task."""
        spec, _ = board_of(self._path, self._driver)
        ranges = {split: (start[split], end[split]) for split in end if start[split] < end[split]}
        tasks = min(len(ranges), spec.source_parallelism or spec.parallelism)
        return [
            Slice(number, {split: ranges[split] for split in list(ranges)[number::tasks]})
            for number in range(tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the records of a slice."""
        assert isinstance(partition, Slice)
        _, board = board_of(self._path, self._driver)
        records = self._records()
        for split, (begin, end) in partition.ranges.items():
            for offset in range(begin, end):
                board("element", f"{TASK}-{partition.number}", 0)
                timestamp, value = records[split][offset]
                columns = value if isinstance(value, tuple) else (value,)
                yield (split, offset, timestamp, *columns)
        # The worker has finished its part, and the driver does not know it yet.
        board("pre_committed", f"{TASK}-{partition.number}", 0)

    def commit(self, end: dict[str, int]) -> None:
        """Pass the point `notified`: Spark reports that a batch is finished."""
        _, board = board_of(self._path, self._driver)
        board("notified", TASK, 0)

    def _records(self) -> Mapping[str, Sequence[tuple[int, Any]]]:
        spec, _ = board_of(self._path, self._driver)
        records: Mapping[str, Sequence[tuple[int, Any]]] = read_records(spec.records)
        if not self._source:
            return records
        own = {split: each for split, each in records.items() if source_of(split) == self._source}
        closing = read_records(Path(spec.records).with_name(CLOSING_FILE))
        return {**own, closing_split(self._source): closing[self._source]}


def closing_split(source: str) -> str:
    """Return the name of the split with the closing records of a source."""
    return split_name(source, CLOSING_SPLIT)


def has_all(spec: Spec, end: Mapping[str, int]) -> bool:
    """Return whether the input before an offset has all records of a scenario."""
    return all(end.get(split, 0) == len(own) for split, own in read_records(spec.records).items())


def next_offset(start: Mapping[str, int], lengths: Mapping[str, int], rows: int) -> dict[str, int]:
    """Return the offset ``rows`` records after ``start``, taken from the splits in turn."""
    end = dict(start)
    while rows and any(end[split] < lengths[split] for split in end):
        for split in end:
            if rows and end[split] < lengths[split]:
                end[split] += 1
                rows -= 1
    return end
