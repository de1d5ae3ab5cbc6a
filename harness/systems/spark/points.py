"""What the engine on Spark can take, and where faults strike it."""

from __future__ import annotations

from typing import Final

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import MissingPoints, answers
from onceproof.harness.model.fault_kinds import Means, Point
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.spark.kills import WorkerKills
from onceproof.harness.systems.spark.observed_subtask import FaultyStorage

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.WRITE_FAULTS,
        Capability.COMMIT_ERRORS,
        Capability.FAILED_COMMITS,
        Capability.RESCALE,
        Capability.CHECKPOINTS_SEEN,
        Capability.INPUT_SEEN,
        Capability.ENGINE,
    }
)

DRIVER_POINTS: Final[tuple[Point, ...]] = (
    "triggered",
    "metadata_written",
    "completed",
    "notified",
    "committing",
    "committed",
)
"""Points that only the driver passes, between two epochs, when no worker runs a task."""
WORKER_POINTS: Final[tuple[Point, ...]] = (
    "barrier_received",
    "aligned",
    "pre_committed",
    "snapshotted",
    "uploaded",
    "acknowledged",
    "restoring",
    "restored",
    "element",
    "end_of_data",
)
"""Points that tasks pass, in workers."""

LOCAL_MEANS: Final[frozenset[Means]] = frozenset({"java", "zombie", "shuffle", "full", "read_only"})
CLUSTER_MEANS: Final[frozenset[Means]] = LOCAL_MEANS | {"executor"}
"""In local mode tasks run in the driver's own Java, so there is no executor to kill."""
STANDALONE_MEANS: Final[frozenset[Means]] = CLUSTER_MEANS | {"slow"}
"""Spark runs a slow task a second time only on another host."""
UNFENCED: Final[frozenset[Means]] = frozenset({"zombie", "slow"})
"""With these means two workers run the same task, and the later one writes old rows. A table by key has no
transactions that fence such writes, so families with a table do not get these means."""

ABORTED: Final[Point] = "aborted"
MISSING: Final[MissingPoints] = {
    **{
        (row.kind, point): "The driver passes this point between two epochs, when no worker runs a task."
        for row in FAULTS.values()
        if row.kills_tasks
        for point in DRIVER_POINTS
    },
    **{
        (
            row.kind,
            ABORTED,
        ): "A sink has nothing open once its snapshot is taken; the driver sweeps up what is"
        " left by dead tasks, and a sweep passes no point."
        for row in FAULTS.values()
        if row.is_kill
    },
    **{
        (row.kind, point): "An epoch waits for its writes, so no write is reported after the epoch."
        for row in FAULTS.values()
        if row.needs is Capability.WRITE_FAULTS and row.delay == "required"
        for point in row.points
    },
}
"""Fault kinds at points where they cannot occur on this system, and why."""

ANSWERS: Final = answers(
    CAPABILITIES,
    {
        "tasks": WorkerKills.strike,
        "process": WorkerKills.strike,
        "write": FaultyStorage.carry_out,
        **COMMIT_METHODS,
    },
    MISSING,
    {
        Capability.KILL_MASTER: "The driver is the job master: its death is that of the process.",
        Capability.STORAGE_FAULTS: "Only writes of its storage are made to fail.",
        Capability.LEAVING_FUNCTIONS: "Tests raise and fork in functions on Spark.",
        Capability.PAUSED_WORKERS: "Zombies are stopped workers, whose task Spark gives to another one.",
        Capability.MESSAGE_FAULTS: "Acknowledgements travel with the data of Spark's jobs, not alone.",
    },
)
