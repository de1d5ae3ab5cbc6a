"""Maps the faults of a scenario to points of a Structured Streaming query.

Rules:

- A micro-batch corresponds to an epoch: Spark writes the offsets of its end before it runs, and they fix its
  records. Batch n is checkpoint n + 1, complete when its offsets are written.
- Scenarios plan faults for the engine. Here a fault strikes at the corresponding step of a query: a barrier
  corresponds to reading the records of a batch, a snapshot to the rows leaving a worker (``PLACES``).
- Faults without such a step are counted as inapplicable: faults of messages, because the driver waits for
  each answer, and of the files of the state store, which Java writes.
- After a kill with a rescale the query restarts with another number of partitions, after the running batch
  (`rescale.py`).
- A batch takes half a second, so a scenario has few batches, and faults wait for a pass that occurs.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import answers
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.scenario import Fault, Scenario
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.kit.points import (
    SUPERVISED,
    at_place,
    missing_points,
    place_of,
    records_between_checkpoints,
)
from onceproof.harness.systems.structured.kills import QueryKills

CAPABILITIES: Final = SUPERVISED

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
"""The point of a query for each point of the protocol.

restoring: a query is about to start. triggered: Spark asks the source for the end of the next batch. element:
a worker reads a record. pre_committed: a worker has read its records or made its rows, and the driver does
not know it yet. committing and committed: before and after the sink makes the rows of a batch visible, when
Spark has not committed the batch yet. notified: Spark reports a finished batch to the source, between two
batches.
"""

WORKER_POINTS: Final[frozenset[Point]] = frozenset({"element", "pre_committed"})
"""Points in workers: after a kill Spark runs the task in another worker, and the query continues."""

MISSING: Final = missing_points(CAPABILITIES, PLACES)
"""What this system could take by its kind, but never comes to (see ``prepared``), and why."""

ANSWERS: Final = answers(
    CAPABILITIES,
    {
        "tasks": QueryKills.strike,
        "process": QueryKills.strike,
        **COMMIT_METHODS,
    },
    MISSING,
    {
        Capability.KILL_MASTER: "The driver plans the batches: its death is that of the process.",
    },
)

LEAST_BATCHES: Final = 2
MOST_BATCHES: Final = 4
MOST_PARTITIONS: Final = 2
MOST_PARTITIONS_AFTER: Final = 3
"""Largest number of partitions of a rescale."""


def prepared(scenario: Scenario) -> Scenario:
    """Return the scenario as it runs, with its faults at points of a query. The function is idempotent."""
    records = scenario.record_count()
    interval = records_between_checkpoints(scenario, LEAST_BATCHES, MOST_BATCHES)
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
    """Return a fault at its point in a query; an inapplicable fault is returned unchanged."""
    place = place_of(fault, CAPABILITIES, PLACES)
    if place is None:
        return fault
    # A commit may wait for its batch, which has the number of a checkpoint.
    checkpoint = min(fault.checkpoint, batches) if place in ("committing", "committed") else 0
    # Spark does not report the last batch to the source.
    most_passes = max(1, (records if place == "element" else batches) - 1)
    if place == "restoring" or checkpoint:
        most_passes = 1
    placed = at_place(fault, place, most_passes, MOST_PARTITIONS_AFTER, WORKER_POINTS)
    return replace(placed, checkpoint=checkpoint)
