"""What the local runtime can take, with and without workers, and where faults strike it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import MissingPoints, answers
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.systems.clock_jumps import ShiftedClocks
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.filed_input import change
from onceproof.harness.systems.leaving_functions import leave
from onceproof.harness.systems.local.kills import ProcessKills
from onceproof.harness.systems.local.observed_job import ObservedLocalExecution
from onceproof.harness.systems.local.observed_workers import BoardClocks
from onceproof.harness.systems.local.stalling_link import StallingLink
from onceproof.harness.systems.local.unreliable_storage import UnreliableStorage
from onceproof.harness.systems.process.fault_actions import die, lose_folder, move_visible, pause
from onceproof.harness.systems.process.server_strikes import StruckServer

_COMMON: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.COMMIT_ERRORS,
        Capability.FAILED_COMMITS,
        Capability.CLOCK_JUMPS,
        Capability.STORAGE_FAULTS,
        Capability.SERVER_FAULTS,
        Capability.RESCALE,
        Capability.CHECKPOINTS_SEEN,
        Capability.INPUT_SEEN,
        Capability.LEAVING_FUNCTIONS,
        Capability.MOVED_OUTPUT,
        Capability.LOST_FOLDERS,
        Capability.ENGINE,
    }
)
_METHODS: Final[Mapping[str, Callable[..., object]]] = {
    "read": UnreliableStorage.suffer,
    "deletion": UnreliableStorage.suffer,
    "server": StruckServer.strike,
    "function": leave,
    "output": move_visible,
    "folder": lose_folder,
    "kill_server": StruckServer.kill,
    **COMMIT_METHODS,
}
_ABSENCES: Final = {
    Capability.POWER_CUTS: "The machine stays on. Tests rebuild disks from recorded calls.",
    Capability.LOST_ROWS: "The broker is a real one. Where it is killed or paused, rows are lost.",
}

# In one process.

CAPABILITIES: Final = _COMMON | {Capability.CHANGED_INPUT}

MISSING: Final[MissingPoints] = {}
MISSING_IN_A_STORE: Final[MissingPoints] = {
    ("move_output", "committed"): "The rows of objects are read in the store, where they stay."
}
"""What does not strike a job that writes into an object store."""

ANSWERS: Final = answers(
    CAPABILITIES,
    {
        **_METHODS,
        "tasks": ObservedLocalExecution.strike,
        "process": die,
        "clock": ShiftedClocks.jump,
        "input": change,
    },
    MISSING,
    {
        **_ABSENCES,
        Capability.LATE_PUTS: "In a folder no write is late. Tests run processes over an object store.",
        Capability.PAUSED_WORKERS: "It has no workers.",
    },
)

# With workers.

WORKERS_CAPABILITIES: Final = _COMMON | {
    Capability.MESSAGE_FAULTS,
    Capability.PAUSED_WORKERS,
    Capability.RESCALE_RUNNING,
}

WORKERS_MISSING: Final[MissingPoints] = {
    (kind, point): "A socket between two processes of a machine loses nothing and repeats nothing."
    for kind, row in FAULTS.items()
    if row.strikes == "message" and kind != "delay_message"
    for point in row.points
}

WORKERS_ANSWERS: Final = answers(
    WORKERS_CAPABILITIES,
    {
        **_METHODS,
        "tasks": ProcessKills.strike,
        "process": ProcessKills.strike,
        "message": StallingLink.stall,
        "clock": BoardClocks.wall_ms,
        "worker": pause,
    },
    WORKERS_MISSING,
    {
        **_ABSENCES,
        Capability.CHANGED_INPUT: "Its readers are those of one process, where files change.",
    },
)
