"""The source of a flow under trial: a partition for each split of the scenario, one record at a time.

The rules this module lives by:

- The state of a partition is the number of records that it has read, an int: the cut of the input.
- A record comes every few milliseconds, as the records of a stream do: an epoch has some of each split.
- What a snapshot covers is logged as it is asked for; so is the first record after it, with which the
  partition is in its next epoch. No worker of Bytewax reads a record of an epoch before the one before it is
  in the store. So these events put the epochs in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

from onceproof.harness.model.scenario import InputRecord, RecordValue
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec, read_records

PACE: Final = timedelta(milliseconds=5)
"""From one record of a split to the next."""
TASK: Final = "source"

SPLIT_RESUMED: Final = "split_resumed"
EPOCH_BEGUN: Final = "epoch_begun"
SPLIT_SNAPSHOT: Final = "split_snapshot"


class FlowRecord(NamedTuple):
    """A record as a flow gets it."""

    split: str
    offset: int
    timestamp: int
    """In milliseconds."""
    value: RecordValue


class RecordSplit(StatefulSourcePartition):  # type: ignore[misc]
    """Reads the records of a split, from a position on."""

    def __init__(self, board: FaultBoard, split: str, records: Sequence[InputRecord], position: int) -> None:
        self.split = split
        self.position = position
        self._board = board
        self._records = records
        self._is_new_epoch = True
        self._is_first_epoch = True
        self._awake_at = datetime.now(UTC)

    def next_batch(self) -> list[FlowRecord]:
        """Return the next record. Raises StopIteration behind the last one."""
        if self._is_new_epoch:
            self._is_new_epoch = False
            self._board.log.write(EPOCH_BEGUN, split=self.split)
            if not self._is_first_epoch:
                self._board("notified", TASK, 0)
            self._is_first_epoch = False
        if self.position >= len(self._records):
            self._board("end_of_data", TASK, 0)
            raise StopIteration
        self._board("element", TASK, 0)
        timestamp, value = self._records[self.position]
        record = FlowRecord(self.split, self.position, timestamp, value)
        self.position += 1
        self._awake_at = datetime.now(UTC) + PACE
        return [record]

    def next_awake(self) -> datetime:
        """Return when the next record is there."""
        return self._awake_at

    def snapshot(self) -> int:
        """Return the number of records read: an epoch ends here."""
        self._board.log.write(SPLIT_SNAPSHOT, split=self.split, position=self.position)
        self._is_new_epoch = True
        self._board("barrier_received", TASK, 0)
        return self.position


class RecordSource(FixedPartitionedSource):  # type: ignore[misc]
    """The splits of a scenario."""

    def __init__(self, spec: Spec, board: FaultBoard) -> None:
        self._records = read_records(spec.records)
        self._board = board
        self._splits: list[RecordSplit] = []
        board.reading = lambda: {each.split: each.position for each in self._splits}

    def list_parts(self) -> list[str]:
        """Return the names of the splits."""
        return sorted(self._records)

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> RecordSplit:
        """Return the partition of a split, from its snapshot on."""
        position = 0 if resume_state is None else int(resume_state)
        self._board.log.write(SPLIT_RESUMED, split=for_part, position=position)
        self._board("restored", TASK, 0)
        split = RecordSplit(self._board, for_part, self._records[for_part], position)
        self._splits.append(split)
        return split
