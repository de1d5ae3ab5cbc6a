"""How a query goes on with another number of partitions: by Spark's offline repartition of its state.

The rules this module lives by:

- The number of partitions of a query's state is kept in its checkpoint location and outlives any restart.
  What Spark 4.3 has to change it, ``_streamingCheckpointManager.repartition``, is private, and wants the
  query to be down and its last batch to be over. It writes a batch of its own, without records and rows.
- So a query whose last batch was begun and is not over goes on as it is first, until that one is: its source
  ends it before the next one. A repartition that a death has cut off is done again before anything else, with
  the number that it had.
- What Spark cannot repartition goes on with the partitions that it has, and that is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from harness.systems.event_log import EventLog
from harness.systems.structured_output import batch_ends, finished_batches

RESCALE_REFUSED: Final = "rescale_refused"
"""The event: Spark cannot repartition the state of this query."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_CANNOT: Final = ("UNSUPPORTED_STATEFUL_OPERATOR", "UNSUPPORTED_PROVIDER", "UNSUPPORTED_TRANSFORM_WITH_STATE")


class Rescaled(NamedTuple):
    """What became of a rescale."""

    partitions: int
    """Those of the query now."""
    is_refused: bool = False
    """Spark cannot change them."""


def rescaled(session: SparkSession, checkpoints: Path, wanted: int, log: EventLog) -> Rescaled:
    """See to it that a query that is down goes on with so many partitions."""
    ends = batch_ends(checkpoints)
    if not ends:
        return Rescaled(wanted)
    last = max(ends)
    if last not in finished_batches(checkpoints):
        if not is_repartition(ends, last):
            return Rescaled(partitions_of(checkpoints, last))
        _repartition(session, checkpoints, partitions_of(checkpoints, last))
    present = partitions_of(checkpoints, last)
    if present == wanted:
        return Rescaled(present)
    try:
        _repartition(session, checkpoints, wanted)
    except PySparkException as error:
        if not any(condition in str(error.getCondition()) for condition in _CANNOT):
            raise
        log.say(RESCALE_REFUSED, reason=str(error).splitlines()[0])
        return Rescaled(present, is_refused=True)
    return Rescaled(wanted)


def is_repartition(ends: dict[int, dict[str, int]], batch: int) -> bool:
    """Whether a batch is one by which state was dealt out anew: every other has records."""
    return batch - 1 in ends and ends[batch - 1] == ends[batch]


def partitions_of(checkpoints: Path, batch: int) -> int:
    """Return with how many partitions a batch was planned; that stands in the line before its offsets."""
    lines = (checkpoints / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    metadata: dict[str, Any] = msgspec.json.decode(lines[1])
    return int(metadata["conf"][_PARTITIONS])


def _repartition(session: SparkSession, checkpoints: Path, partitions: int) -> None:
    session._streamingCheckpointManager.repartition(str(checkpoints), partitions)
