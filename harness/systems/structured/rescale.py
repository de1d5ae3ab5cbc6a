"""Changes the number of state partitions of a stopped query, by Spark's offline repartition.

The rules this module lives by:

- The checkpoint location of a query fixes its number of partitions. Spark 4.3 changes it only with the
  private ``_streamingCheckpointManager.repartition``, while the query is stopped and its last batch is
  committed. The repartition adds a batch without records and rows.
- If the last batch is not committed, the query first runs until it is; its source then stops it. A
  repartition that a kill interrupted is repeated first, with its own number of partitions.
- Spark starts a repartition even for operators that it does not support, fails in the middle, and cannot
  start the query again. So this module checks the operators first. An unsupported query keeps its partitions,
  and the event log says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from onceproof.harness.systems.recording.event_log import EventLog
from onceproof.harness.systems.structured.output import batch_ends, finished_batches

RESCALE_REFUSED: Final = "rescale_refused"
"""The event: Spark cannot repartition the state of this query, or the query has no state."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_REPARTITIONED_OPERATORS: Final = frozenset(
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
"""The operators whose state Spark can repartition, by their names in the state metadata."""


class RescaleResult(NamedTuple):
    """The number of partitions after a rescale."""

    partitions: int
    """Partitions of the query now."""
    is_refused: bool = False
    """True: the query can never be rescaled."""


def rescale_query(session: SparkSession, checkpoints: Path, wanted: int, log: EventLog) -> RescaleResult:
    """Repartition the state of a stopped query to ``wanted`` partitions, if that is possible now."""
    ends = batch_ends(checkpoints)
    if not ends:
        return RescaleResult(wanted)
    last = max(ends)
    if last not in finished_batches(checkpoints):
        if not is_repartition(ends, last):
            return RescaleResult(partitions_of(checkpoints, last))
        _repartition(session, checkpoints, partitions_of(checkpoints, last))
    present = partitions_of(checkpoints, last)
    if present == wanted:
        return RescaleResult(present)
    operators = operators_of(checkpoints)
    if not operators or not operators <= _REPARTITIONED_OPERATORS:
        log.write(RESCALE_REFUSED, operators=sorted(operators - _REPARTITIONED_OPERATORS))
        return RescaleResult(present, is_refused=True)
    _repartition(session, checkpoints, wanted)
    return RescaleResult(wanted)


def is_repartition(ends: dict[int, dict[str, int]], batch: int) -> bool:
    """Return whether a batch is a repartition: it ends where the batch before it ends."""
    return batch - 1 in ends and ends[batch - 1] == ends[batch]


def partitions_of(checkpoints: Path, batch: int) -> int:
    """Return the number of partitions of a batch, from the settings in its offset file."""
    lines = (checkpoints / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    metadata: dict[str, Any] = msgspec.json.decode(lines[1])
    return int(metadata["conf"][_PARTITIONS])


def operators_of(checkpoints: Path) -> frozenset[str]:
    """Return the names of the stateful operators of a checkpoint location; empty without state."""
    files = [
        path
        for path in checkpoints.glob("state/*/_metadata/**/*")
        if path.is_file() and not path.name.startswith(".")
    ]
    lines = [path.read_text(encoding="utf-8").splitlines()[-1] for path in files]
    return frozenset([msgspec.json.decode(line)["operatorInfo"]["operatorName"] for line in lines])


def _repartition(session: SparkSession, checkpoints: Path, partitions: int) -> None:
    session._streamingCheckpointManager.repartition(str(checkpoints), partitions)
