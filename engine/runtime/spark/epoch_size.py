"""Decides how many records an epoch reads, and how many bytes at most.

Rules:

- The number is decided before the epoch begins, and never by a clock while it runs: a task that Spark runs
  again must read the same records again.
- ``execution.checkpointing.interval-records`` is split among the source subtasks that have records left.
- A source subtask that has nothing now reads no more in the epoch. If all do, the epoch says nothing of the
  speed; if it has read nothing at all, a rest follows.
- A job in BATCH mode reads its whole input in one epoch: no checkpoint could hold what its stages collect.
- An interval in time is converted into records by the speed of earlier epochs. The first epoch is small, and
  none is more than LARGEST_GROWTH times the previous one.
- The meter of an epoch reads clocks of its own and decides nothing: the time that the task sees is that of
  the epoch.
- All records of an epoch are there before a subtask begins, so there is no alignment, and nothing makes a
  task wait for room.
- What Spark carries between workers is not counted in bytes: only Spark knows them, and shows them itself.
- A subtask reads its share of records, or fewer if what it sends reaches its share of bytes before. Workers
  hold an epoch's buffers in memory, so an epoch of large records must be one of few.
- The size of a buffer is estimated from some of its records, spread over it: to pickle all of them twice
  would cost more than it saves. The estimate depends on the records alone, so a task that Spark runs again
  reads the same.
- Buffers begin small, and grow to what the records seen so far allow: a first buffer of large records must
  not be the one that is too large.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace
from pyspark.serializers import CPickleSerializer

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.elements import Element, Record
from onceproof.engine.messages import AcknowledgeCheckpoint, CheckpointMeasures, TaskId
from onceproof.engine.runtime.monitor.job_view import SubtaskReading
from onceproof.engine.runtime.monitor.task_readings import read_tasks
from onceproof.engine.task.outputs import Queue
from onceproof.engine.task.task import Task
from onceproof.engine.task.task_counters import NANOS_OF_MS

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


class EpochMeter:
    """What one subtask has done in one epoch; ``triggered_ms`` is when its checkpoint was triggered."""

    def __init__(self, triggered_ms: int) -> None:
        self._triggered_ms = triggered_ms
        self._worked_ns = 0
        self._start_delay_ms = 0
        self._sync_ns = 0
        self._async_ns = 0
        self._reading: SubtaskReading | None = None

    def timed(self, steps: Iterator[None]) -> Iterator[None]:
        """Yield each step, and count the time that the steps take themselves."""
        while True:
            began_ns = time.perf_counter_ns()
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self._worked_ns += time.perf_counter_ns() - began_ns
            yield

    def snapshot_taken(self, began_ns: int) -> None:
        """Note that the task, whose handling of the barrier began then, has taken its snapshot."""
        self._sync_ns = time.perf_counter_ns() - began_ns
        now_ms = time.time_ns() // NANOS_OF_MS
        self._start_delay_ms = max(0, now_ms - self._sync_ns // NANOS_OF_MS - self._triggered_ms)

    def snapshot_stored(self, began_ns: int) -> None:
        """Note that the snapshot, whose storing began then, is durable."""
        self._async_ns = time.perf_counter_ns() - began_ns

    def measured(self, message: AcknowledgeCheckpoint) -> AcknowledgeCheckpoint:
        """Return an acknowledgement with the measures of its checkpoint."""
        sync_ms, async_ms = self._sync_ns // NANOS_OF_MS, self._async_ns // NANOS_OF_MS
        return replace(message, measures=CheckpointMeasures(self._start_delay_ms, 0, sync_ms, async_ms))

    def read(self, task: Task) -> None:
        """Read the counters of the task at the end of the epoch, before it is cancelled."""
        [self._reading] = read_tasks([task], time.time_ns() // NANOS_OF_MS)

    def reading(self) -> SubtaskReading | None:
        """Return what the task has counted in the epoch; None: it was never made."""
        worked_ms = self._worked_ns // NANOS_OF_MS
        return self._reading and replace(self._reading, busy_ms=worked_ms, turn_ms=worked_ms, idle_ms=0)


FIRST_RECORDS: Final = 10_000
LARGEST_GROWTH: Final = 4
MOST_RECORDS: Final = 4_000_000
"""The upper limit of an epoch, because workers sort its buffers in memory."""


MOST_BYTES: Final = 256 * 1024 * 1024
"""The upper limit of what the sources of an epoch send, for the same reason: records may be large."""


WHOLE: Final = 1 << 62
"""More records, and bytes, than any input has."""


SHORTEST_REST_MS: Final = 100
LONGEST_REST_MS: Final = 1000
"""Timers of processing time wait for the next epoch, so the rest between two epochs is short."""


def rest_ms(retry_ms: int) -> int:
    """Return how long to rest after an epoch in which no source had anything to read.

    ``retry_ms``: when the first of them wants to be asked again.
    """
    return max(SHORTEST_REST_MS, min(retry_ms, LONGEST_REST_MS))


class EpochSize:
    """Computes the size of the next epoch."""

    def __init__(
        self, settings: CheckpointSettings, most_bytes: int = MOST_BYTES, *, is_batch: bool = False
    ) -> None:
        self._is_batch = is_batch
        self._most_bytes = most_bytes
        self._interval_ms = settings.interval_ms
        self._given = settings.interval_records
        self._records = settings.interval_records or FIRST_RECORDS

    def quotas(self, sources: Sequence[TaskId], ended: Collection[TaskId] = ()) -> dict[TaskId, int]:
        """Return how many records each source subtask reads, at least 1; ``ended`` have none left."""
        if self._is_batch:
            return dict.fromkeys(sources, WHOLE)
        readers = [source for source in sources if source not in ended]
        share, rest = divmod(self._records, max(1, len(readers)))
        quotas = dict.fromkeys(sources, 1)
        quotas.update({source: max(1, share + (place < rest)) for place, source in enumerate(readers)})
        return quotas

    def bytes_each(self, sources: Sequence[TaskId], ended: Collection[TaskId] = ()) -> int:
        """Return how many bytes each source subtask sends at most; one record may exceed it."""
        if self._is_batch:
            return WHOLE
        readers = len(sources) - len([source for source in sources if source in ended])
        return self._most_bytes // max(1, readers)

    def learn(self, records: int, elapsed_ms: int) -> None:
        """Adapt to an epoch that read ``records`` in ``elapsed_ms``."""
        if self._given is None and self._interval_ms is not None and records:
            wanted = records * self._interval_ms // max(1, elapsed_ms)
            self._records = max(1, min(wanted, LARGEST_GROWTH * self._records, MOST_RECORDS))
