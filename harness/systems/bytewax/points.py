"""Maps the faults of a scenario to points of a flow of Bytewax.

Rules:

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

from onceproof.harness.model.fault_answers import answers
from onceproof.harness.model.fault_kinds import Point
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.kit.drivers import ForkedKills
from onceproof.harness.systems.kit.points import (
    SUPERVISED,
    WORKERS_PLACES,
    Places,
    missing_points,
    placed,
    records_between_checkpoints,
)

CAPABILITIES: Final = SUPERVISED

PLACES: Final[Places] = {**WORKERS_PLACES, "completed": "notified"}
"""The point of a flow for each point of the protocol.

restoring: a worker process is about to run the flow. restored: a partition of the source is built.
barrier_received: an epoch ends at the source. element: a record is about to be read. snapshotted: a sink is
asked for its state. committing and committed: before and after a sink shows rows. notified: the first record
of an epoch is about to be read, so the one before it is in the store.
"""

MISSING: Final = missing_points(CAPABILITIES, PLACES)
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


def prepared(scenario: Scenario) -> Scenario:
    """Return the scenario as it runs, with its faults at points of a flow. The function is idempotent."""
    interval = records_between_checkpoints(scenario, LEAST_EPOCHS, MOST_EPOCHS)
    splits = max(1, sum(map(bool, scenario.records.values())))
    passes: dict[Point, int] = {
        "element": max(1, scenario.record_count() - 1),
        "restoring": 1,
        "restored": splits,
        "end_of_data": splits,
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
