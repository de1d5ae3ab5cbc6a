"""Decides how many records an epoch reads, and how many bytes at most.

The rules this module lives by:

- The number is decided before the epoch begins, and never by a clock while it runs: a task that Spark runs
  again must read the same records again.
- ``execution.checkpointing.interval-records`` is split among the source subtasks that have records left.
- A source subtask that has nothing now reads no more in the epoch. If all do, the epoch says nothing of the
  speed; if it has read nothing at all, a rest follows.
- A job in BATCH mode reads its whole input in one epoch: no checkpoint could hold what its stages collect.
- An interval in time is converted into records by the speed of earlier epochs. The first epoch is small, and
  none is more than LARGEST_GROWTH times the previous one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.messages import TaskId

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
