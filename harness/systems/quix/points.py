"""Maps the faults of a scenario to points of an application of Quix Streams.

Rules:

- A checkpoint of one worker corresponds to a checkpoint of the job: each worker commits for itself. Which
  records are in it depends on which partitions it has. So faults name no checkpoint, and wait for passes that
  every run has.
- A fault of the engine's plan strikes at the step of a worker that is like it (``PLACES``).
- A kill of a task is SIGKILL to the worker that passes the point, and the others go on. A kill of all tasks
  or of the process is SIGKILL to all workers. A kill with a rescale is followed by another number of them.
- A commit that fails ends its worker, which is started again, as by a supervisor.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import answers
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.kit.drivers import ForkedKills
from onceproof.harness.systems.kit.points import (
    SUPERVISED,
    WORKERS_PLACES,
    missing_points,
    placed,
    records_between_checkpoints,
)

CAPABILITIES: Final = SUPERVISED

PLACES: Final = WORKERS_PLACES
"""The point of a worker for each point of the protocol.

restoring: a worker is about to build its application. restored: it has been assigned partitions, and knows
their committed offsets; states come from the changelog after it. barrier_received: a checkpoint begins.
element: a record of the input is about to be processed. end_of_data: so is the end of a split. snapshotted:
rows and changes of states are in Kafka, and offsets are about to be sent. committing and committed: before
and after the transaction is committed. completed: after that; states are written to RocksDB next. notified:
they are.
"""

MISSING: Final = missing_points(CAPABILITIES, PLACES)
"""What this system could take by its kind, but never comes to (see ``prepared``), and why."""

ANSWERS: Final = answers(
    CAPABILITIES,
    {"tasks": ForkedKills.strike, "process": ForkedKills.strike, **COMMIT_METHODS},
    MISSING,
    {
        Capability.SERVER_FAULTS: "Faults of a server are drawn for families that name it.",
    },
)

MOST_WORKERS: Final = 3
MOST_CHECKPOINTS: Final = 8
"""For as many, the records should last, if one worker has them all."""
LEAST_CHECKPOINTS: Final = 3
MOST_PASSES: Final = 3
"""Largest number of passes of a point of a checkpoint that is waited for."""


def prepared(scenario: Scenario) -> Scenario:
    """Return the scenario as it runs, with its faults at points of a worker. The function is idempotent."""
    interval = records_between_checkpoints(scenario, LEAST_CHECKPOINTS, MOST_CHECKPOINTS)
    passes: dict[Point, int] = {
        "element": max(1, scenario.record_count() - 1),
        "restoring": 1,
        "restored": 1,
        "end_of_data": max(1, len(scenario.records)),
    }
    return replace(
        scenario,
        parallelism=min(scenario.parallelism, MOST_WORKERS),
        checkpoint_interval_ms=STEPS_PER_RECORD * interval,
        restart_delay_ms=0,
        faults=tuple(
            [
                placed(fault, CAPABILITIES, PLACES, passes, MOST_PASSES, MOST_WORKERS)
                for fault in scenario.faults
            ]
        ),
    )
