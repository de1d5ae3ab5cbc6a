"""The engine's local runtime in several processes on trial: a coordinator and workers under real SIGKILLs.

The rules this module lives by:

- A coordinator with its workers is one incarnation. They are one session of the operating system, and the
  next one starts when no process of it is left. Workers have to end by themselves when their coordinator
  dies; one that does not is a leak, and is killed.
- A job runs in as many workers as it has subtasks of an operator, `WORKERS` at most.
- Of what the scenario's user asks, the savepoints and stops are made. A stopped job goes on at the
  parallelism that the stop asks for. It keeps its state backend, and does not claim the savepoint.
- A schedule that is not fair makes the connections of workers stall now and then (`stalling_link.py`).
- Otherwise as `local_system.py`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.fault_answers import FaultAnswer, MissingPoints, answers
from onceproof.harness.model.fault_kinds import FaultKind
from onceproof.harness.model.fault_means import with_means
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.commit_faults import COMMIT_METHODS
from onceproof.harness.systems.kit.run_history import HistoryBuilder
from onceproof.harness.systems.leaving_functions import leave
from onceproof.harness.systems.local.board_clocks import BoardClocks
from onceproof.harness.systems.local.local_system import LocalRun, LocalSystem, start_child
from onceproof.harness.systems.local.process_kills import ProcessKills
from onceproof.harness.systems.local.stalling_link import StallingLink
from onceproof.harness.systems.local.unreliable_storage import UnreliableStorage
from onceproof.harness.systems.process.fault_actions import lose_folder, move_visible, pause
from onceproof.harness.systems.process.fault_board import BoardFile
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.process.process_table import end_session, is_session_gone
from onceproof.harness.systems.process.server_strikes import StruckServer

NAME: Final = "local-workers"
WORKERS: Final = 3
CHILD: Final = "onceproof.harness.systems.local.workers_child"
ORPHAN: Final = "process without a coordinator"
SECONDS_TO_END: Final = 5.0
"""How long workers may take to end after their coordinator."""

CAPABILITIES: Final = frozenset(
    {
        Capability.KILL_TASK,
        Capability.KILL_ALL,
        Capability.KILL_PROCESS,
        Capability.MESSAGE_FAULTS,
        Capability.COMMIT_ERRORS,
        Capability.FAILED_COMMITS,
        Capability.CLOCK_JUMPS,
        Capability.STORAGE_FAULTS,
        Capability.SERVER_FAULTS,
        Capability.RESCALE,
        Capability.RESCALE_RUNNING,
        Capability.CHECKPOINTS_SEEN,
        Capability.INPUT_SEEN,
        Capability.LEAVING_FUNCTIONS,
        Capability.PAUSED_WORKERS,
        Capability.MOVED_OUTPUT,
        Capability.LOST_FOLDERS,
        Capability.ENGINE,
    }
)

MISSING: Final[MissingPoints] = {
    (kind, point): "A socket between two processes of a machine loses nothing and repeats nothing."
    for kind, row in FAULTS.items()
    if row.strikes == "message" and kind != "delay_message"
    for point in row.points
}

ANSWERS: Final = answers(
    CAPABILITIES,
    {
        "tasks": ProcessKills.strike,
        "process": ProcessKills.strike,
        "message": StallingLink.stall,
        "clock": BoardClocks.wall_ms,
        "read": UnreliableStorage.suffer,
        "deletion": UnreliableStorage.suffer,
        "server": StruckServer.strike,
        "function": leave,
        "worker": pause,
        "output": move_visible,
        "folder": lose_folder,
        "kill_server": StruckServer.kill,
        **COMMIT_METHODS,
    },
    MISSING,
    {
        Capability.POWER_CUTS: "The machine stays on. Tests rebuild disks from recorded calls.",
        Capability.LOST_ROWS: "The broker is a real one. Where it is killed or paused, rows are lost.",
        Capability.CHANGED_INPUT: "Its readers are those of one process, where files change.",
    },
)


class LocalWorkersSystem(LocalSystem):
    """Runs scenarios against the local runtime with workers."""

    name = NAME
    capabilities = CAPABILITIES
    missing = MISSING
    answers: Mapping[FaultKind, FaultAnswer] = ANSWERS

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs: its seed decides which kills come at a time of their own."""
        return with_means(scenario, frozenset())

    def run_of(self, spec: Spec, lengths: Mapping[str, int], scenario: Scenario, folder: Path) -> LocalRun:
        """Return the run of a scenario's specification in ``folder``."""
        schedule = scenario.schedule
        spec = msgspec.structs.replace(
            spec,
            workers=WORKERS,
            operations=scenario.asked,
            stall_seed=0 if schedule.kind == "fair" else 1 + schedule.seed,
            board=str(folder / "faults.json"),
        )
        return WorkersRun(spec, lengths, folder, process_seconds=self._process_seconds, moves_output=True)


@dataclass(slots=True)
class WorkersRun(LocalRun):
    """The run of one job on coordinators with workers."""

    _orphans: list[str] = field(default_factory=list, init=False)

    def run(self) -> History:
        """Run the job until it has ended; the board has counted its protocol points."""
        # super() without arguments fails here, because dataclass(slots=True) creates a new class.
        history = LocalRun.run(self)
        history.statistics.points = dict(BoardFile(self.spec.board).read().points)
        return history

    def start(self, path: Path, output: BinaryIO) -> subprocess.Popen[bytes]:
        """Start a coordinator in a session of its own."""
        return start_child(CHILD, path, output, new_session=True)

    def is_dead(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the workers of a dead coordinator are gone; kill and note those that are not."""
        if not is_session_gone(process.pid, SECONDS_TO_END):
            self._orphans.append(f"of coordinator {process.pid}")
            end_session(process.pid)

    def job_is_over(self, builder: HistoryBuilder) -> None:
        """Add the workers that have outlived their coordinator, then as any local run."""
        for orphan in self._orphans:
            builder.run.left_behind(ORPHAN, orphan)
        LocalRun.job_is_over(self, builder)
