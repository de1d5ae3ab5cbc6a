"""How many records an epoch has.

The rules this module lives by:

- It is decided before the epoch begins, and never by a clock while it runs: a task that Spark runs again must
  read the same records again.
- ``execution.checkpointing.interval-records`` is taken at its word, and divided over the source subtasks that
  have something to read. An interval in time becomes the number of
  records that would take so long, judged by the epochs before; the first one is small, and none is much
  larger than the one before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.messages import TaskId

FIRST_RECORDS: Final = 10_000
LARGEST_GROWTH: Final = 4
MOST_RECORDS: Final = 4_000_000
"""The buffers of an epoch lie in the memory of the workers while they are put into order."""


class EpochSize:
    """The size of the next epoch."""

    def __init__(self, settings: CheckpointSettings) -> None:
        self._interval_ms = settings.interval_ms
        self._given = settings.interval_records
        self._records = settings.interval_records or FIRST_RECORDS

    def quotas(self, sources: Sequence[TaskId], ended: Collection[TaskId] = ()) -> dict[TaskId, int]:
        """How many records each source subtask shall read, one at least; ``ended`` have none left."""
        readers = [source for source in sources if source not in ended]
        share, rest = divmod(self._records, max(1, len(readers)))
        quotas = dict.fromkeys(sources, 1)
        quotas.update({source: max(1, share + (place < rest)) for place, source in enumerate(readers)})
        return quotas

    def learn(self, records: int, elapsed_ms: int) -> None:
        """Take an epoch into account: what it read, and how long it took."""
        if self._given is None and self._interval_ms is not None and records:
            wanted = records * self._interval_ms // max(1, elapsed_ms)
            self._records = max(1, min(wanted, LARGEST_GROWTH * self._records, MOST_RECORDS))
