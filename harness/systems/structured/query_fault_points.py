"""What Structured Streaming can take of a scenario's faults, and where they strike in it.

The rules this module lives by:

- A micro-batch is the epoch of a query: the offsets of its end are written before it is run, and from then on
  no other records can be in it. So batch n is the checkpoint n + 1, complete when its offsets are there.
- Faults are planned for the engine and strike here where the same thing is under way: a barrier passes when
  the records of a batch are read, a snapshot is stored when its rows leave the workers (``PLACES``).
- What has no place is counted as not applicable: messages, since the driver asks and waits; and the files of
  the state store, which Java writes.
- After a kill with a rescale the query goes on with another number of partitions, once the batch that was
  under way is over (`structured_rescale.py`).
- Batches are dear, half a second each, so a scenario has a few of them, and faults wait for passes that come.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.faults import FAULTS, FaultKind, Point
from onceproof.harness.model.scenario import ANY_TASK, Fault, Scenario
from onceproof.harness.model.step_limits import STEPS_PER_RECORD

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.COMMIT_ERRORS,
        Capability.FAILED_COMMITS,
        Capability.RESCALE,
    }
)

PLACES: Final[dict[Point, Point]] = {
    "restoring": "restoring",
    "restored": "restoring",
    "triggered": "triggered",
    "barrier_received": "element",
    "aligned": "element",
    "element": "element",
    "end_of_data": "element",
    "snapshotted": "pre_committed",
    "uploaded": "pre_committed",
    "acknowledged": "pre_committed",
    "pre_committed": "pre_committed",
    "metadata_written": "committing",
    "committing": "committing",
    "completed": "committed",
    "committed": "committed",
    "notified": "notified",
}
"""Where a fault that is planned for a point strikes.

restoring: a query is about to start. triggered: the source is asked for the end of the next batch. element:
a worker reads a record. pre_committed: a worker has read its records, or has its rows, and nobody else knows.
committing and committed: before and after the sink has made the rows of a batch visible, when Spark has not
noted it yet. notified: the source is told that a batch is over, between two batches.
"""

WORKER_POINTS: Final[frozenset[Point]] = frozenset({"element", "pre_committed"})
"""Points at which Spark gives the work of a dead worker to another one, and the query goes on."""

MISSING: Final[frozenset[tuple[FaultKind, Point]]] = frozenset(
    {
        (kind, point)
        for kind, row in FAULTS.items()
        if row.needs in CAPABILITIES
        for point in row.points
        if point not in PLACES.values()
    }
)
"""What this system could take by its kind, but never comes to, once faults have found their places."""

LEAST_BATCHES: Final = 2
MOST_BATCHES: Final = 4
MOST_PARTITIONS: Final = 2
MOST_PARTITIONS_AFTER: Final = 3
"""A rescale may ask for so many."""
LONGEST_AFTER: Final = 3


def prepared(scenario: Scenario) -> Scenario:
    """Return the scenario as it is run: doing this again changes nothing."""
    records = scenario.record_count()
    shortest, longest = (max(1, -(-records // batches)) for batches in (MOST_BATCHES, LEAST_BATCHES))
    asked = scenario.checkpoint_interval_ms // STEPS_PER_RECORD
    interval = min(max(asked, shortest), longest)
    batches = max(1, -(-records // interval))
    return replace(
        scenario,
        parallelism=min(scenario.parallelism, MOST_PARTITIONS),
        source_parallelism=min(scenario.source_parallelism, MOST_PARTITIONS),
        sink_parallelism=0,
        checkpoint_interval_ms=STEPS_PER_RECORD * interval,
        restart_delay_ms=0,
        faults=tuple([_placed(fault, records, batches) for fault in scenario.faults]),
    )


def _placed(fault: Fault, records: int, batches: int) -> Fault:
    """Return a fault at its place; one that has none stays as it is, for others to count."""
    place = PLACES.get(fault.point)
    row = FAULTS[fault.kind]
    if row.needs not in CAPABILITIES or place is None or place not in row.points:
        return fault
    return replace(
        fault,
        point=place,
        # A query has other tasks than the job of the engine.
        task=ANY_TASK,
        checkpoint=min(fault.checkpoint, batches) if place in ("committing", "committed") else 0,
        occurrence=_occurrence(fault, place, records, batches),
        # Steps of the simulation are small; here the next point may be far, and what was aimed at over.
        after=min(fault.after, LONGEST_AFTER) if place in WORKER_POINTS else 0,
        rescale_to=min(fault.rescale_to, MOST_PARTITIONS_AFTER),
        # A death is by SIGKILL here.
        means="",
    )


def _occurrence(fault: Fault, place: Point, records: int, batches: int) -> int:
    """Return which pass it waits for: one that comes, though most places are passed less often here."""
    if place == "element":
        return min(fault.occurrence, max(1, records - 1))
    if place == "restoring" or (place in ("committing", "committed") and fault.checkpoint):
        return 1
    # The source is not told that the last batch is over.
    return min(fault.occurrence, max(1, batches - 1))
