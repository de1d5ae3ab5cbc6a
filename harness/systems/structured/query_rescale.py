"""How a query goes on with another number of partitions: by Spark's offline repartition of its state.

The rules this module lives by:

- The number of partitions of a query's state is kept in its checkpoint location and outlives any restart.
  What Spark 4.3 has to change it, ``_streamingCheckpointManager.repartition``, is private, and wants the
  query to be down and its last batch to be over. It writes a batch of its own, without records and rows.
- So a query whose last batch was begun and is not over goes on as it is first, until that one is: its source
  ends it before the next one. A repartition that a death has cut off is done again before anything else, with
  the number that it had.
- Spark begins a repartition that it cannot do, fails in the middle, and cannot start the query again. So
  what it cannot deal out is found out before: the query goes on with what it has, and that is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.structured.query_output import batch_ends, finished_batches

RESCALE_REFUSED: Final = "rescale_refused"
"""The event: Spark cannot deal out the state of this query, or there is none."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_DEALT_OUT: Final = frozenset(
    {
        "stateStoreSave",
        "dedupe",
        "dedupeWithinWatermark",
        "sessionWindowStateStoreSaveExec",
        "symmetricHashJoin",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
        "transformWithStateExec",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    }
)
"""The operators whose state Spark can deal out anew, by the names that it notes beside the state."""


class Rescaled(NamedTuple):
    """What became of a rescale."""

    partitions: int
    """Those of the query now."""
    is_refused: bool = False
    """They stay as they are, whatever is asked."""


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
    operators = operators_of(checkpoints)
    if not operators or not operators <= _DEALT_OUT:
        log.say(RESCALE_REFUSED, operators=sorted(operators - _DEALT_OUT))
        return Rescaled(present, is_refused=True)
    _repartition(session, checkpoints, wanted)
    return Rescaled(wanted)


def is_repartition(ends: dict[int, dict[str, int]], batch: int) -> bool:
    """Whether a batch is one by which state was dealt out anew: every other has records."""
    return batch - 1 in ends and ends[batch - 1] == ends[batch]


def partitions_of(checkpoints: Path, batch: int) -> int:
    """Return with how many partitions a batch was planned; that stands in the line before its offsets."""
    lines = (checkpoints / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    metadata: dict[str, Any] = msgspec.json.decode(lines[1])
    return int(metadata["conf"][_PARTITIONS])


def operators_of(checkpoints: Path) -> frozenset[str]:
    """Return the operators that keep state in a checkpoint location; none where there is no state."""
    notes = [
        path
        for path in checkpoints.glob("state/*/_metadata/**/*")
        if path.is_file() and not path.name.startswith(".")
    ]
    lines = [path.read_text(encoding="utf-8").splitlines()[-1] for path in notes]
    return frozenset([msgspec.json.decode(line)["operatorInfo"]["operatorName"] for line in lines])


def _repartition(session: SparkSession, checkpoints: Path, partitions: int) -> None:
    session._streamingCheckpointManager.repartition(str(checkpoints), partitions)
