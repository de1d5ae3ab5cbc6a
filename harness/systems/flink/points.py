"""Maps the faults of a scenario to what can be seen of a job on Flink, and says what Flink can take.

Rules:

- The source logs what it passes (`client/ScenarioSource.java`); the other points are files that appear. A
  fault that is planned for a step inside of Flink strikes at the step before it that is seen (``PLACES``).
- A task lives in a TaskManager with others: its kill is that of the TaskManager. Flink restarts what it ran.
- The JobManager keeps nothing beyond its death: the job goes on from its latest checkpoint, on another
  cluster where all has died, as an operator would do. If it dies alone it is started again, and until its
  TaskManagers notice, their tasks run on.
- What happens between Flink's processes and to its files is Flink's own: no message is lost, no write torn.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import answers
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.fault_means import with_means
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation, Scenario
from onceproof.harness.systems.flink.cluster import FlinkCluster
from onceproof.harness.systems.kit.points import missing_points, place_of

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.KILL_MASTER,
        Capability.RESCALE,
        Capability.CHECKPOINTS_SEEN,
        Capability.ENGINE,
    }
)

PLACES: Final[dict[Point, Point]] = {
    "restoring": "restored",
    "restored": "restored",
    "element": "element",
    "triggered": "triggered",
    "barrier_received": "snapshotted",
    "aligned": "snapshotted",
    "pre_committed": "snapshotted",
    "snapshotted": "snapshotted",
    "uploaded": "snapshotted",
    "acknowledged": "snapshotted",
    "metadata_written": "completed",
    "completed": "completed",
    "notified": "notified",
    "committing": "notified",
    "committed": "committed",
    "end_of_data": "end_of_data",
}
"""The point that is seen for each point of the protocol.

restored, element, snapshotted, notified, end_of_data: a reader of the source passes it. triggered, completed:
the JobManager does. committed: a part file has its name.
"""

_MOST_PASSES: Final[dict[Point, int]] = {"restored": 2, "committed": 2, "end_of_data": 1}
"""How often a point is passed in a short run, at least; other points but ``element``: ``_ROUNDS`` times."""
ROUNDS: Final = 4
"""In how many parts a job reads its input, with a checkpoint behind each."""

MISSING: Final = missing_points(
    CAPABILITIES,
    PLACES,
    "A fault planned for this point strikes at the point before it that is seen.",
    "No file and no line of the source shows that a sink aborts.",
)
"""What Flink could take by its kind, but never comes to (see ``prepared``), and why."""

ANSWERS: Final = answers(
    CAPABILITIES,
    {
        "tasks": FlinkCluster.kill_task_managers,
        "process": FlinkCluster.kill,
        "master": FlinkCluster.kill_job_manager,
    },
    MISSING,
    {
        Capability.SERVER_FAULTS: "Its own processes are struck; the broker of a family lives on.",
    },
)


def affordable(faults: tuple[Fault, ...]) -> tuple[tuple[Fault, ...], dict[tuple[str, str], int]]:
    """Return the kills that strike, and by (kind, point) how many more there are: each costs seconds.

    The first one strikes, and the next one of tasks alone, whose processes are the cheaper ones.
    """
    second = next((fault for fault in faults[1:] if FAULTS[fault.kind].kills_tasks), None)
    taken = tuple([fault for fault in (*faults[:1], second) if fault is not None])
    left: dict[tuple[str, str], int] = {}
    rest = list(faults)
    for fault in taken:
        rest.remove(fault)
    for fault in rest:
        left[fault.kind, fault.point] = left.get((fault.kind, fault.point), 0) + 1
    return taken, left


def prepared(scenario: Scenario) -> Scenario:
    """Return the scenario as it runs, with its faults and requests at points that are seen; idempotent."""
    timed = with_means(scenario, frozenset())
    records = scenario.record_count()
    asked = tuple([_placed_request(each, records) for each in scenario.asked])
    faults = tuple([_placed(fault, records) for fault in timed.faults])
    return replace(timed, faults=faults, operations=asked) if asked else replace(timed, faults=faults)


def _placed(fault: Fault, records: int) -> Fault:
    """Return a fault at a point that is seen; one that is not applicable is returned unchanged."""
    place = place_of(fault, CAPABILITIES, PLACES)
    if place is None:
        return fault
    return replace(
        fault,
        point=place,
        # Names of vertices are the family's; what is seen are readers and the JobManager.
        task=ANY_TASK,
        # Ids have gaps: Flink declines checkpoints while tasks start.
        checkpoint=0,
        occurrence=_occurrence(max(fault.occurrence, fault.checkpoint), place, records),
        after=0,
        means="",
    )


def _placed_request(request: Operation, records: int) -> Operation:
    place = PLACES.get(request.point, "element")
    return replace(
        request,
        point=place,
        task=ANY_TASK,
        checkpoint=0,
        occurrence=_occurrence(max(request.occurrence, request.checkpoint), place, records),
        after=0,
    )


def _occurrence(occurrence: int, place: Point, records: int) -> int:
    """Return the number of the pass at which something strikes, limited to passes that occur."""
    if place == "element":
        return min(occurrence, max(1, records - 1))
    return min(occurrence, _MOST_PASSES.get(place, ROUNDS - 1))
