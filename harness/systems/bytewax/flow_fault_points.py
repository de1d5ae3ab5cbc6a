"""Maps the faults of a scenario to points of a flow of Bytewax.

The rules this module lives by:

- An epoch corresponds to a checkpoint. Its number is not known to Python code, and the clock decides how many
  records it has. So faults name no checkpoint, and wait for passes that every run has.
- Bytewax calls Python code of sources and sinks at few steps, and does all between them by itself. A fault of
  the engine's plan strikes at the step that is like it (``PLACES``).
- A kill of a task is SIGKILL to the process of the worker that passes the point; the others are ended after
  it, and all start again together, as a cluster of Bytewax does. A kill with a rescale is followed by another
  number of workers.
- A sink that fails ends the flow, which is started again, as by a supervisor.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import answers, missing_points, place_of
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.scenario import ANY_TASK, Fault, Scenario
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.process.forked_kills import ForkedKills

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.COMMIT_ERRORS,
        Capability.FAILED_COMMITS,
        Capability.RESCALE,
        Capability.CHECKPOINTS_SEEN,
    }
)

PLACES: Final[dict[Point, Point]] = {
    "restoring": "restoring",
    "restored": "restored",
    "triggered": "barrier_received",
    "barrier_received": "barrier_received",
    "aligned": "barrier_received",
    "element": "element",
    "end_of_data": "end_of_data",
    "pre_committed": "snapshotted",
    "snapshotted": "snapshotted",
    "uploaded": "snapshotted",
    "acknowledged": "snapshotted",
    "metadata_written": "committing",
    "committing": "committing",
    "completed": "notified",
    "committed": "committed",
    "notified": "notified",
}
"""The point of a flow for each point of the protocol.

restoring: a worker process is about to run the flow. restored: a partition of the source is built.
barrier_received: an epoch ends at the source. element: a record is about to be read. snapshotted: a sink is
asked for its state. committing and committed: before and after a sink shows rows. notified: the first record
of an epoch is about to be read, so the one before it is in the store.
"""

MISSING: Final = missing_points(
    CAPABILITIES,
    PLACES,
    "A fault planned for this point strikes at the step of a flow that is like it.",
    "No step of a flow is like this point.",
)
"""What this system could take by its kind, but never comes to (see ``prepared``), and why."""

ANSWERS: Final = answers(
    CAPABILITIES,
    {"tasks": ForkedKills.strike, "process": ForkedKills.strike, **COMMIT_METHODS},
    MISSING,
)

MOST_WORKERS: Final = 3
MOST_EPOCHS: Final = 8
"""For as many, the records of the longest split should last."""
LEAST_EPOCHS: Final = 3
MOST_PASSES: Final = 2
"""Largest number of passes of a point at the end of an epoch that is waited for."""
LONGEST_AFTER: Final = 3


def prepared(scenario: Scenario) -> Scenario:
    """Return the scenario as it runs, with its faults at points of a flow. The function is idempotent."""
    records = scenario.record_count()
    shortest, longest = (max(1, -(-records // epochs)) for epochs in (MOST_EPOCHS, LEAST_EPOCHS))
    interval = min(max(scenario.checkpoint_interval_ms // STEPS_PER_RECORD, shortest), longest)
    splits = sum(map(bool, scenario.records.values()))
    return replace(
        scenario,
        parallelism=min(scenario.parallelism, MOST_WORKERS),
        checkpoint_interval_ms=STEPS_PER_RECORD * interval,
        restart_delay_ms=0,
        faults=tuple([_placed(fault, records, splits) for fault in scenario.faults]),
    )


def _placed(fault: Fault, records: int, splits: int) -> Fault:
    """Return a fault at its point in a flow; an inapplicable fault is returned unchanged."""
    place = place_of(fault, CAPABILITIES, PLACES)
    if place is None:
        return fault
    return replace(
        fault,
        point=place,
        # The tasks of a flow differ from those of the engine's job.
        task=ANY_TASK,
        checkpoint=0,
        occurrence=_occurrence(fault, place, records, splits),
        # Steps of the simulation are short. Here the next point may come after the aimed situation.
        after=min(fault.after, LONGEST_AFTER) if place == "element" else 0,
        rescale_to=min(fault.rescale_to, MOST_WORKERS),
        # Every kill is a SIGKILL here, and strikes at its point.
        means="",
        delay=0,
    )


def _occurrence(fault: Fault, place: Point, records: int, splits: int) -> int:
    """Return the number of the pass at which a fault strikes, limited to passes that every run has."""
    match place:
        case "element":
            return min(fault.occurrence, max(1, records - 1))
        case "restored" | "end_of_data":
            return min(fault.occurrence, max(1, splits))
        case "restoring":
            return 1
        case _:
            return min(fault.occurrence, MOST_PASSES)
