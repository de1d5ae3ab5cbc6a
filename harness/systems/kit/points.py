"""Where the faults of a scenario strike a system that has points of its own.

Rules:

- Scenarios plan faults at points of the engine's protocol. Another system has a place for each point: its
  step that is like it, at which the faults of that point strike.
- A fault without a place, or of a kind that the system cannot take, stays as it is. It is counted as not
  applicable.
- The tasks and checkpoints of a system differ from those of the engine's job. So a fault strikes any task,
  and waits for a number of passes that every run has.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import MissingPoints
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, Scenario
from onceproof.harness.model.step_limits import STEPS_PER_RECORD

Places = Mapping[Point, Point]
"""By point of the protocol, the point of a system at which its faults strike."""

SUPERVISED: Final = frozenset(
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
"""The capabilities of a job that is killed by SIGKILL and started again, with a sink of the harness."""
WORKERS_PLACES: Final[Places] = {
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
    "completed": "completed",
    "committed": "committed",
    "notified": "notified",
}
"""The places of a system whose workers store and commit by themselves."""
LONGEST_AFTER: Final = 3
"""Steps of the simulation are short. On another system the next point may come after the aimed situation."""


def missing_points(
    capabilities: frozenset[Capability],
    places: Places,
    moved: str = "A fault planned for this point strikes at the step that is like it.",
    unlike: str = "No step of the system is like this point.",
) -> MissingPoints:
    """Return the points that a system never comes to because its faults strike at places.

    Args:
        capabilities: of the system.
        places: of the system.
        moved: why a point is missed whose faults strike at another one.
        unlike: why a point is missed whose faults strike nowhere.
    """
    return {
        (kind, point): moved if point in places else unlike
        for kind, row in FAULTS.items()
        if row.needs in capabilities
        for point in row.points
        if point not in places.values()
    }


def place_of(fault: Fault, capabilities: frozenset[Capability], places: Places) -> Point | None:
    """Return the point of a system at which a fault strikes; None if the system cannot take the fault."""
    row = FAULTS[fault.kind]
    place = places.get(fault.point)
    return place if row.needs in capabilities and place in row.points else None


def at_place(
    fault: Fault,
    place: Point,
    most_passes: int,
    most_parallelism: int,
    lingering: Container[Point] = ("element",),
) -> Fault:
    """Return a fault at its place, where it is a SIGKILL or an error of a commit.

    Args:
        fault: as it was planned.
        place: the point of the system.
        most_passes: how often every run passes that point.
        most_parallelism: the largest parallelism after a rescale.
        lingering: the points at which a fault may strike some passes of any point later.
    """
    return replace(
        fault,
        point=place,
        task=ANY_TASK,
        checkpoint=0,
        occurrence=min(fault.occurrence, most_passes),
        after=min(fault.after, LONGEST_AFTER) if place in lingering else 0,
        rescale_to=min(fault.rescale_to, most_parallelism),
        means="",
        delay=0,
    )


def placed(
    fault: Fault,
    capabilities: frozenset[Capability],
    places: Places,
    passes: Mapping[Point, int],
    most_passes: int,
    most_parallelism: int,
) -> Fault:
    """Return a fault at its place, waiting for passes that every run has; unchanged if it is not applicable.

    Args:
        fault: as it was planned.
        capabilities: of the system.
        places: of the system.
        passes: how often every run passes a point, where that is known.
        most_passes: for how many passes of another point a fault waits at most.
        most_parallelism: the largest parallelism after a rescale.
    """
    place = place_of(fault, capabilities, places)
    if place is None:
        return fault
    return at_place(fault, place, passes.get(place, most_passes), most_parallelism)


def records_between_checkpoints(scenario: Scenario, least: int, most: int) -> int:
    """Return an interval in records, near the scenario's, with ``least`` to ``most`` checkpoints in a run."""
    records = scenario.record_count()
    shortest, longest = (max(1, -(-records // checkpoints)) for checkpoints in (most, least))
    return min(max(scenario.checkpoint_interval_ms // STEPS_PER_RECORD, shortest), longest)
