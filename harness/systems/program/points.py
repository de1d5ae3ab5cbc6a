"""What a program of which nothing else is known can take."""

from __future__ import annotations

from typing import Final

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import MissingPoints, answers
from onceproof.harness.systems.process.server_strikes import StruckServer
from onceproof.harness.systems.program.own_faults import StrikingFault
from onceproof.harness.systems.program.process import RunningProgram

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.PAUSES,
        Capability.SERVER_FAULTS,
        Capability.OWN_FAULTS,
        Capability.RESCALE,
    }
)
MISSING: Final[MissingPoints] = {}
ANSWERS: Final = answers(
    CAPABILITIES,
    {
        "kill_task": RunningProgram.kill_one,
        "tasks": RunningProgram.kill,
        "process": RunningProgram.kill,
        "pause": RunningProgram.pause,
        "server": StruckServer.strike,
        "own": StrikingFault.run,
    },
    MISSING,
    {
        Capability.KILL_MASTER: "Its parts are killed by their names or command lines, as kill_task.",
        Capability.PAUSED_WORKERS: "All its processes are paused together.",
        Capability.COMMIT_ERRORS: "A connection that is cut in the middle of an answer does that.",
        Capability.FAILED_COMMITS: "A connection that is cut in the middle of a request does that.",
    },
)
