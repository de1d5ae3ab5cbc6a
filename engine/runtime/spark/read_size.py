"""How much a source subtask reads in an epoch, and at once.

The rules this module lives by:

- A subtask reads its share of records, or fewer if what it sends reaches its share of bytes before. Workers
  hold an epoch's buffers in memory, so an epoch of large records must be one of few.
- The size of a buffer is estimated from some of its records, spread over it: to pickle all of them twice
  would cost more than it saves. The estimate depends on the records alone, so a task that Spark runs again
  reads the same.
- Buffers begin small, and grow to what the records seen so far allow: a first buffer of large records must
  not be the one that is too large.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.serializers import CPickleSerializer

from onceproof.engine.elements import Element, Record
from onceproof.engine.task.outputs import Queue

FIRST_BUFFER_RECORDS: Final = 16
BUFFER_BYTES: Final = 4 * 1024 * 1024
"""The size of what one buffer makes the subtask send, as far as it can be foreseen."""
SAMPLE_RECORDS: Final = 8

_serializer: Final = CPickleSerializer()


class ReadSize:
    """The share of one source subtask in an epoch."""

    def __init__(self, records: int, size_bytes: int, buffer_records: int) -> None:
        self._records = records
        self._bytes = size_bytes
        self._largest_buffer = buffer_records
        self._buffer = min(buffer_records, FIRST_BUFFER_RECORDS)
        self._sent_bytes = 0
        self.is_full = False
        """Whether the share of bytes is reached."""

    def next_buffer(self, records_read: int) -> int:
        """Return how many records to read at once, after ``records_read``; 0 if the share is read."""
        if self.is_full:
            return 0
        return max(0, min(self._records - records_read, self._buffer))

    def add(self, queues: Iterable[Queue], records_read: int) -> None:
        """Note what ``records_read`` records in all have put into the output queues since the last call."""
        self._sent_bytes += sum([estimated_bytes(element) for queue in queues for element in queue])
        self.is_full = self._sent_bytes >= self._bytes
        if records_read:
            bytes_per_record = max(1, self._sent_bytes // records_read)
            # Not at once: the next records may be larger than those before.
            grown = min(self._largest_buffer, 4 * self._buffer)
            room = min(BUFFER_BYTES, self._bytes - self._sent_bytes) // bytes_per_record
            self._buffer = max(1, min(grown, room))


def estimated_bytes(element: Element) -> int:
    """Return about how many bytes a buffer has when it is pickled; 0 for what is no buffer."""
    if type(element) is not list:
        return 0
    records: list[Record] = element
    step = max(1, len(records) // SAMPLE_RECORDS)
    sample = records[::step]
    size: int = len(_serializer.dumps(sample))
    return size * len(records) // len(sample)
